//! `haptic webhook-configuration`.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::{Args, ValueEnum};
use haptic_controller::cluster::{self, WebhookConfiguration, WebhookNames};

use crate::{cli, exit, offline, rbac::ConfigManifests};

#[derive(Args, Debug)]
pub(crate) struct WebhookConfigurationOptions {
    #[command(flatten)]
    manifests: ConfigManifests,
    /// Where the controller runs; default: the namespace of its configuration. Writes there are never judged
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Name of the ValidatingWebhookConfiguration; default: haptic with the namespace behind it
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The Service whose port 443 leads to --webhook-listen
    #[arg(long, value_name = "NAME", default_value = "haptic-webhook")]
    service: String,
    /// What becomes of a write that nobody can judge
    #[arg(long, value_enum, ignore_case = true, default_value = "fail")]
    failure_policy: FailurePolicy,
    /// CA of the webhook's certificate (PEM); default: somebody else writes the caBundle
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FailurePolicy {
    /// It is denied
    Fail,
    /// It is let through
    Ignore,
}

// === impl WebhookConfigurationOptions ===

impl WebhookConfigurationOptions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let ca_bundle = match &self.ca_file {
            Some(path) => {
                let pem = fs::read(path).with_context(|| format!("reading the CA {}", path.display()))?;
                Some(STANDARD.encode(pem))
            }
            None => None,
        };
        let Some(objects) = self.manifests.read()? else { return Ok(ExitCode::from(exit::REFUSED)) };
        let names = WebhookNames {
            namespace: self.namespace,
            name: self.name,
            service: self.service,
            failure_policy: match self.failure_policy {
                FailurePolicy::Fail => cluster::FailurePolicy::Fail,
                FailurePolicy::Ignore => cluster::FailurePolicy::Ignore,
            },
            ca_bundle,
        };
        match WebhookConfiguration::of(&objects, names) {
            Ok(configuration) => {
                cli::print(&configuration.yaml());
                Ok(ExitCode::SUCCESS)
            }
            Err(findings) => {
                offline::complain_all(&findings);
                Ok(ExitCode::from(exit::REFUSED))
            }
        }
    }
}
