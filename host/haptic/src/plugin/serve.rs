//! `haptic plugin serve`: a validator plugin for callers that speak protocol v1.

use std::{
    fs,
    num::NonZero,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use haptic_conformance::{
    manifest::{Manifest, ManifestLimits},
    serve::{Clock, Patience, Service, Socket, serve},
};
use haptic_model::ports::{Contract, FailurePolicy, Now};
use haptic_plugins::{LoadedPlugin, PluginHost, PluginSettings, Purity};
use serde_json::{Map, Value};

use crate::{
    logging::{self, LogFormat},
    plugin, stop,
};

#[derive(Args, Debug)]
pub(crate) struct ServeOptions {
    /// The component, a .wasm file; not needed with --project
    #[arg(required_unless_present = "project")]
    module: Option<PathBuf>,
    /// Where to listen; a socket that nobody listens at is replaced
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// A folder with a plugin.yaml, for the module, config, limits and purity that are not given here
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// The plugin's config as JSON, or @FILE to read it from a file
    #[arg(long, value_name = "JSON|@FILE", value_parser = config)]
    config: Option<Map<String, Value>>,
    /// What one call may cost, as in an HAProxyPlugin: timeout=100ms,memory=64Mi,outputBytes=1Mi are the defaults
    #[arg(long, value_name = "NAME=VALUE,...", value_parser = limits)]
    limits: Option<ManifestLimits>,
    /// Refuse a component that imports anything but haptic's own interfaces
    #[arg(long)]
    pure: bool,
    /// Which contract to serve, if the plugin has both
    #[arg(long, value_enum)]
    contract: Option<ServedContract>,
    /// What time it is for the plugin, instead of the clock: to repeat a check exactly
    #[arg(long, value_name = "SECONDS SINCE 1970")]
    now: Option<u64>,
    /// Where compiled plugins are kept, for a faster start
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// How long a connection may be idle [default: 1m]
    #[arg(long, value_name = "DURATION")]
    idle_timeout: Option<haptic_api::Duration>,
    /// How long a client may take to send a request, and to take its answer [default: 10s]
    #[arg(long, value_name = "DURATION")]
    transfer_timeout: Option<haptic_api::Duration>,
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ServedContract {
    AuxiliaryFile,
    RenderedOutput,
}

// === impl ServeOptions ===

impl ServeOptions {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        logging::start(self.log_format);
        let stop = stop::on_signal()?;
        let plugin = self.load()?;
        let contract = served(&plugin, self.contract)?;
        let clock: Clock = match self.now {
            Some(seconds) => Arc::new(move || Now(seconds)),
            None => Arc::new(wall_clock),
        };
        let default = Patience::default();
        let patience = Patience {
            idle: self.idle_timeout.map_or(default.idle, haptic_api::Duration::get),
            transfer: self.transfer_timeout.map_or(default.transfer, haptic_api::Duration::get),
        };
        let workers = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        let socket = Socket::bind(&self.socket)?;
        tracing::info!(
            plugin = %plugin.name(), digest = %plugin.digest(), %contract, socket = %self.socket.display(), workers,
            "serving protocol v1"
        );
        serve(socket, Service::new(plugin, contract, clock), patience, workers, stop).await?;
        Ok(ExitCode::SUCCESS)
    }

    fn load(&self) -> anyhow::Result<Arc<LoadedPlugin>> {
        let manifest = match &self.project {
            None => None,
            Some(folder) => {
                let manifest = Manifest::read(folder)?;
                Some(manifest.with_context(|| format!("{} has no plugin.yaml", folder.display()))?)
            }
        };
        let module = match (&self.module, &self.project, &manifest) {
            (Some(module), ..) => module.clone(),
            (None, Some(folder), Some(manifest)) => folder.join(manifest.module()),
            _ => bail!("give the component or --project"),
        };
        let bytes = fs::read(&module).with_context(|| format!("reading the component {}", module.display()))?;
        let from_manifest = manifest.as_ref().map(|manifest| (manifest.config.clone(), manifest.limits));
        let (project_config, project_limits) = from_manifest.unwrap_or_default();
        let pure = self.pure || manifest.as_ref().is_some_and(|manifest| manifest.purity() == Purity::Pure);
        let settings = PluginSettings {
            config: Value::Object(self.config.clone().unwrap_or(project_config)),
            limits: self.limits.unwrap_or(project_limits).limits(),
            failure_policy: FailurePolicy::Fail,
            purity: if pure { Purity::Pure } else { Purity::Wasi },
        };
        let name = manifest.map_or_else(|| stem(&module), |manifest| manifest.name);
        let host = PluginHost::with_compiler(self.cache.clone(), plugin::compiler())?;
        Ok(host.load(&name, &bytes, None, &settings)?)
    }
}

/// The contract to serve: the one that is asked for, or the only one.
fn served(plugin: &LoadedPlugin, asked: Option<ServedContract>) -> anyhow::Result<Contract> {
    let name = plugin.name();
    let mut validators = plugin.contracts();
    validators.retain(|contract| *contract != Contract::TemplateFilter);
    if let Some(asked) = asked.map(Contract::from) {
        ensure!(validators.contains(&asked), "plugin `{name}` is no {asked}; see `haptic plugin inspect`");
        return Ok(asked);
    }
    match validators[..] {
        [one] => Ok(one),
        [] => bail!("plugin `{name}` has template filters only, and protocol v1 is for validators"),
        _ => bail!("plugin `{name}` is a validator of both contracts; say which with --contract"),
    }
}

fn wall_clock() -> Now {
    Now(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

fn stem(module: &Path) -> String {
    module.file_stem().map_or_else(|| "plugin".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

fn config(text: &str) -> Result<Map<String, Value>, String> {
    let text = match text.strip_prefix('@') {
        Some(file) => fs::read_to_string(file).map_err(|error| format!("reading {file}: {error}"))?,
        None => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| format!("it is not a JSON object: {error}"))
}

fn limits(text: &str) -> Result<ManifestLimits, String> {
    let mut fields = Map::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(|| format!("`{part}` is not NAME=VALUE"))?;
        if fields.insert(name.to_owned(), value.into()).is_some() {
            return Err(format!("`{name}` is there twice"));
        }
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())
}

// === impl ServedContract ===

impl From<ServedContract> for Contract {
    fn from(served: ServedContract) -> Self {
        match served {
            ServedContract::AuxiliaryFile => Self::AuxiliaryFile,
            ServedContract::RenderedOutput => Self::RenderedOutput,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::time::Duration;

    use super::*;

    #[test]
    fn limits_have_the_names_and_defaults_of_the_object() {
        let limits = super::limits("timeout=2s,outputBytes=32Mi").unwrap().limits();
        assert_eq!(
            (limits.timeout, limits.output_bytes, limits.memory_bytes),
            (Duration::from_secs(2), 32 << 20, 64 << 20)
        );
        for (text, says) in [
            ("timeout", "`timeout` is not NAME=VALUE"),
            ("memroy=1Mi", "unknown field `memroy`"),
            ("memory=1Mi,memory=2Mi", "`memory` is there twice"),
            ("timeout=soon", "`soon` is not a duration"),
        ] {
            let error = super::limits(text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_config_is_an_object_in_place_or_in_a_file() {
        let file = std::env::temp_dir().join(format!("haptic-serve-config-{}.json", std::process::id()));
        fs::write(&file, r#"{"a":1}"#).unwrap();
        assert_eq!(config(&format!("@{}", file.display())).unwrap(), config(r#"{"a":1}"#).unwrap());
        fs::remove_file(file).unwrap();
        assert!(config("[]").unwrap_err().contains("not a JSON object"));
        assert!(config("@/nowhere.json").unwrap_err().contains("reading /nowhere.json"));
    }
}
