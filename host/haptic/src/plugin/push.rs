//! `haptic plugin push`: a component to an OCI registry.

use std::{
    env, fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::Args;
use haptic_api::{OciModule, PluginModule};
use haptic_conformance::manifest::{Language, MANIFEST, Manifest, ManifestLimits, check_name};
use haptic_modules::{
    ComponentNames, Credentials, DockerConfig, FetchError, ImageReference, Limits, Pushed, Transport, push,
};
use haptic_plugins::Inspection;

use crate::{
    cli, exit,
    plugin::{self, build::Project, snippet::Snippet},
};

/// Where the password of `--username` is read from.
const PASSWORD: &str = "HAPTIC_REGISTRY_PASSWORD";

#[derive(Args, Debug)]
#[command(
    allow_missing_positional = true,
    after_help = "Without --username, the entry for the image's registry in $DOCKER_CONFIG/config.json is used, or in \
                  ~/.docker/config.json, if there is one."
)]
pub(crate) struct PushOptions {
    /// The project, or a component alone
    #[arg(default_value = ".", value_name = "DIR|FILE")]
    plugin: PathBuf,
    /// Registry, repository and tag, e.g. ghcr.io/acme/my-check:1.0.0
    image: ImageReference,
    /// Who pushes; the password comes from HAPTIC_REGISTRY_PASSWORD or with --password-stdin
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// Read the password from standard input
    #[arg(long, requires = "username")]
    password_stdin: bool,
}

// === impl PushOptions ===

impl PushOptions {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let (path, manifest) = component(&self.plugin)?;
        let bytes = fs::read(&path).with_context(|| {
            let next_step = if self.plugin.is_dir() { "; `haptic plugin build` writes it" } else { "" };
            format!("reading {}{next_step}", path.display())
        })?;
        let inspection = match plugin::host()?.inspect(&bytes) {
            Ok(inspection) => inspection,
            Err(reason) => return Ok(refuse(&format!("{} is not a plugin: {reason}", path.display()))),
        };
        if inspection.contracts.is_empty() || !inspection.refused_imports.is_empty() {
            let path = path.display();
            return Ok(refuse(&format!("{path} would not be loaded; `haptic plugin inspect {path}` says why")));
        }
        let credentials = self.credentials()?;
        let names = ComponentNames { exports: inspection.exports.clone(), imports: inspection.imports.clone() };
        let transport = Transport::new(Limits::default())?;
        cli::complain(&format!("pushing {} ({} bytes) to {}", path.display(), bytes.len(), self.image));
        match push(&transport, &self.image, bytes.into(), &names, credentials.as_ref()).await {
            Ok(pushed) => {
                cli::print(&published(&self.image, &pushed, &manifest, &inspection)?);
                Ok(ExitCode::SUCCESS)
            }
            Err(FetchError { message, next_step, .. }) => bail!("pushing to {}: {message}; {next_step}", self.image),
        }
    }

    fn credentials(&self) -> anyhow::Result<Option<Credentials>> {
        let Some(username) = &self.username else { return docker_credentials(&self.image) };
        let password = if self.password_stdin {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).context("reading the password from standard input")?;
            text.trim_end_matches(['\r', '\n']).to_owned()
        } else {
            let Ok(password) = env::var(PASSWORD) else {
                bail!("there is no password for `{username}`; set {PASSWORD}, or give --password-stdin");
            };
            password
        };
        Ok(Some(Credentials::new(username, password)))
    }
}

/// The component to push, and what its project says about it.
fn component(plugin: &Path) -> anyhow::Result<(PathBuf, Manifest)> {
    if plugin.is_dir() {
        let Project { manifest, .. } = Project::open(plugin)?;
        return Ok((plugin.join(manifest.module()), manifest));
    }
    let name = plugin.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    check_name(&name).with_context(|| {
        format!("a plugin is named by its file, but `{name}` cannot be used; push its project, with its {MANIFEST}")
    })?;
    let manifest = Manifest {
        name,
        language: Language::Rust,
        module: None,
        config: serde_json::Map::new(),
        limits: ManifestLimits::default(),
        pure: false,
    };
    Ok((plugin.to_owned(), manifest))
}

/// What `docker login` and others left. No file is no error; a file that cannot be read is.
fn docker_credentials(image: &ImageReference) -> anyhow::Result<Option<Credentials>> {
    let folder = env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".docker")));
    let Some(path) = folder.map(|folder| folder.join("config.json")) else { return Ok(None) };
    let json = match fs::read(&path) {
        Ok(json) => json,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    let config = DockerConfig::parse(&json).with_context(|| format!("reading {}", path.display()))?;
    Ok(config.for_image(image).into_iter().next())
}

fn published(
    image: &ImageReference,
    pushed: &Pushed,
    manifest: &Manifest,
    inspection: &Inspection,
) -> anyhow::Result<String> {
    let oci = OciModule { image: image.to_string(), pull_secret: None };
    let module = PluginModule { oci: Some(oci), ..PluginModule::default() };
    let object = Snippet { manifest, inspection, module }.text()?;
    Ok(format!(
        "# pushed {}\n# To sign it: cosign sign --key cosign.key {}\n#   and set `cosignKey` below to what is in cosign.pub\n{object}",
        pushed.image, pushed.image
    ))
}

fn refuse(message: &str) -> ExitCode {
    cli::complain(&format!("error: {message}"));
    ExitCode::from(exit::REFUSED)
}
