//! `haptic rbac`.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use clap::Args;
use haptic_controller::{
    cluster::{Access, AccessNames},
    config::ConfigObjects,
};
use haptic_model::Severity;
use haptic_store::DirectorySource;

use crate::{certificates::CertificateOptions, cli, exit, offline};

#[derive(Args, Debug)]
pub(crate) struct RbacOptions {
    #[command(flatten)]
    manifests: ConfigManifests,
    /// Where the controller runs; default: the namespace of its configuration
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The ServiceAccount of the controller
    #[arg(long, value_name = "NAME", default_value = "haptic")]
    service_account: String,
    /// Name of the Role; those in other namespaces and of the cluster get the namespace behind it
    #[arg(long, value_name = "NAME", default_value = "haptic")]
    name: String,
    #[command(flatten)]
    certificates: CertificateOptions,
}

/// The configuration with its libraries and plugins.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct ConfigManifests {
    /// Manifest of the configuration, of a library or a plugin; may be given several times
    #[arg(long = "config-file", value_name = "FILE", num_args = 1..)]
    files: Vec<PathBuf>,
    /// Folder of such manifests; may be given several times
    #[arg(long = "config-dir", value_name = "DIR", num_args = 1..)]
    dirs: Vec<PathBuf>,
}

// === impl RbacOptions ===

impl RbacOptions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Some(objects) = self.manifests.read()? else { return Ok(ExitCode::from(exit::REFUSED)) };
        let names = AccessNames {
            namespace: self.namespace,
            service_account: self.service_account,
            name: self.name,
            certificates: self.certificates.names()?,
        };
        match Access::of(&objects, names) {
            Ok(access) => {
                cli::print(&access.yaml());
                Ok(ExitCode::SUCCESS)
            }
            Err(findings) => {
                offline::complain_all(&findings);
                Ok(ExitCode::from(exit::REFUSED))
            }
        }
    }
}

// === impl ConfigManifests ===

impl ConfigManifests {
    /// `None` = something could not be read, and was complained about: it might have needed more.
    pub(crate) fn read(self) -> anyhow::Result<Option<ConfigObjects>> {
        let mut source = DirectorySource::open_files(self.files.into_iter().chain(self.dirs))?;
        let scan = source.scan();
        offline::complain_all(&scan.findings);
        if scan.findings.iter().any(|finding| finding.severity == Severity::Error) {
            return Ok(None);
        }
        Ok(Some(ConfigObjects::pick(scan.objects.values().map(Arc::clone))))
    }
}
