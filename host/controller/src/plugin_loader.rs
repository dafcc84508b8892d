//! Loads the plugins of a candidate. Modules that must be fetched are fetched by tasks of their own ([`Modules`]); a
//! load takes what is there, proved again, and says what is missing. Blocks, but never for the network.

mod module;
mod state;

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use haptic_api as api;
use haptic_model::{Digest, Finding, FindingCode, ports::FailurePolicy};
use haptic_modules::{Backoff, Cache, CacheError, Fetcher, ModuleState, Modules, Transport, TransportError, Wanted};
use haptic_plugins::{
    InvalidPluginSet, Limits, LoadedPlugin, PluginHost, PluginSet, PluginSettings, PluginUse, Purity, ValidatorScope,
};
use thiserror::Error;
use tokio::{sync::watch, time::Instant};

use crate::{
    config::{Candidate, NamedPlugin},
    plugin_loader::module::Module,
};

pub use state::{PluginFault, PluginState, Proof};

/// How long a configuration waits for the modules of its plugins before it is judged without those that did not come.
pub(crate) const FETCH_PATIENCE: Duration = Duration::from_secs(10);

/// What is known about each plugin of the newest configuration.
pub type PluginStates = watch::Sender<Arc<Vec<PluginState>>>;

#[derive(Clone)]
pub struct PluginLoader {
    host: Arc<PluginHost>,
    /// Modules that come with the binary.
    builtin: Arc<BTreeMap<String, Bytes>>,
    modules: Arc<Modules>,
}

/// What a load came to.
pub struct Loading {
    /// The plugins that serve the candidate, or why it is held.
    pub set: Result<Arc<PluginSet>, Vec<Finding>>,
    /// Plugins that are left out because their `failurePolicy` is `Ignore`.
    pub warnings: Vec<Finding>,
    pub states: Vec<PluginState>,
}

#[derive(Debug, Error)]
pub enum FetchingError {
    #[error("preparing to fetch plugin modules")]
    Transport(#[from] TransportError),
    #[error("opening the cache of plugin modules")]
    Cache(#[from] CacheError),
}

/// What fetches modules, with a cache in the folder.
pub(crate) fn fetching(state_dir: &Path) -> Result<Arc<Modules>, FetchingError> {
    let cache = Cache::open(&state_dir.join("module-cache"))?;
    let transport = Transport::new(haptic_modules::Limits::default())?;
    Ok(Modules::new(Fetcher::new(transport, Some(cache)), Backoff::default()))
}

// === impl PluginLoader ===

impl PluginLoader {
    pub fn new(host: Arc<PluginHost>, builtin: BTreeMap<String, Bytes>, modules: Arc<Modules>) -> Self {
        Self { host, builtin: Arc::new(builtin), modules }
    }

    pub fn modules(&self) -> &Arc<Modules> {
        &self.modules
    }

    /// Wants the modules of a candidate from now on, and no others; waits until each was tried once, at most until
    /// `deadline`.
    pub async fn want(&self, candidate: &Candidate, deadline: Instant) {
        let wanted = Self::wanted(candidate);
        self.modules.want(wanted.iter().cloned());
        self.modules.settled(&wanted, deadline).await;
    }

    /// Fetches the modules of a candidate once, for a command that does not wait for better times.
    pub async fn fetch_once(&self, candidate: &Candidate) {
        self.modules.attempt(Self::wanted(candidate)).await;
    }

    /// Takes what is there.
    pub fn load(&self, candidate: &Candidate) -> Loading {
        let mut loading = Loading { set: Err(Vec::new()), warnings: Vec::new(), states: Vec::new() };
        let (mut uses, mut held) = (Vec::new(), Vec::new());
        for named in &candidate.plugins {
            let (state, plugin) = self.load_one(named, candidate);
            match (&state.progress, named.plugin.spec.failure_policy) {
                (Ok(()), _) => {}
                (Err(fault), api::FailurePolicy::Fail) => held.push(refusal(named, fault)),
                (Err(fault), api::FailurePolicy::Ignore) => loading.warnings.push(left_out(named, fault)),
            }
            uses.extend(plugin.map(|plugin| PluginUse { plugin, validators: scopes(candidate, &named.raw.name) }));
            loading.states.push(state);
        }
        loading.set = if held.is_empty() { loading.put_together(candidate, uses) } else { Err(held) };
        loading
    }

    /// Brings up to date what is said about modules that are still missing. Says whether one that was missing is there.
    pub fn look_again(&self, states: &mut [PluginState]) -> bool {
        let mut came = false;
        for state in states {
            let Some(wanted) = &state.missing else { continue };
            match self.modules.state(wanted) {
                ModuleState::Ready => came = true,
                ModuleState::Pending => {}
                ModuleState::Failed(error) => state.progress = Err(error.into()),
            }
        }
        came
    }

    fn wanted(candidate: &Candidate) -> Vec<Wanted> {
        let named = candidate.plugins.iter();
        // What is wrong with the others, a load tells.
        named.filter_map(|named| Module::elsewhere(named, &candidate.attached).ok().flatten()).collect()
    }

    fn load_one(&self, named: &NamedPlugin, candidate: &Candidate) -> (PluginState, Option<Arc<LoadedPlugin>>) {
        let mut state = PluginState::of(named);
        let bytes = match Module::of(named, &candidate.attached, &self.builtin) {
            Err(fault) => Err(fault),
            Ok(Module::Here(bytes)) => Ok(bytes),
            Ok(Module::Elsewhere(wanted)) => self.modules.open(&wanted).ok_or_else(|| {
                let fault = match self.modules.state(&wanted) {
                    ModuleState::Failed(error) => error.into(),
                    ModuleState::Pending | ModuleState::Ready => PluginFault::fetching(&wanted),
                };
                state.missing = Some(wanted);
                fault
            }),
        };
        let loaded = bytes.and_then(|bytes| self.admit(named, &bytes, candidate.pure_plugins));
        match loaded {
            Ok(plugin) => (state, Some(plugin)),
            Err(fault) => {
                state.progress = Err(fault);
                (state, None)
            }
        }
    }

    fn admit(&self, named: &NamedPlugin, module: &Bytes, pure: bool) -> Result<Arc<LoadedPlugin>, PluginFault> {
        let spec = &named.plugin.spec;
        let pinned = spec.sha256.as_deref().and_then(|digest| digest.parse::<Digest>().ok());
        let settings = PluginSettings {
            config: serde_json::Value::Object(spec.config.clone()),
            limits: Limits {
                timeout: spec.limits.timeout.get(),
                memory_bytes: spec.limits.memory.get(),
                output_bytes: spec.limits.output_bytes.get(),
                ..Limits::default()
            },
            failure_policy: match spec.failure_policy {
                api::FailurePolicy::Fail => FailurePolicy::Fail,
                api::FailurePolicy::Ignore => FailurePolicy::Ignore,
            },
            purity: if pure || spec.pure { Purity::Pure } else { Purity::Wasi },
        };
        self.host.load(&named.raw.name, module, pinned, &settings).map_err(|error| PluginFault::of(&error.reason))
    }
}

// === impl Loading ===

impl Loading {
    fn put_together(&mut self, candidate: &Candidate, uses: Vec<PluginUse>) -> Result<Arc<PluginSet>, Vec<Finding>> {
        PluginSet::new(uses).map(Arc::new).map_err(|error| {
            let blamed = match &error {
                InvalidPluginSet::Glob { plugin, .. }
                | InvalidPluginSet::PluginTwice { plugin }
                | InvalidPluginSet::NoValidator { plugin } => plugin,
                InvalidPluginSet::FilterTwice { second, .. } => second,
            };
            if let Some(state) = self.states.iter_mut().find(|state| state.name == *blamed) {
                state.progress = Err(PluginFault::misused(&error));
            }
            let finding = Finding::error(FindingCode::ConfigInvalid, format!("{}: {error}", candidate.name));
            vec![finding.hint("correct plugins and validators of the configuration")]
        })
    }
}

fn refusal(named: &NamedPlugin, fault: &PluginFault) -> Finding {
    let message = format!("plugin `{}` cannot be loaded ({}): {}", named.raw.name, fault.reason, fault.message);
    about(named, Finding::error(FindingCode::PluginFailed, message)).hint(fault.next_step.clone())
}

fn left_out(named: &NamedPlugin, fault: &PluginFault) -> Finding {
    let message = format!(
        "plugin `{}` is left out, and what it was to check goes unchecked ({}): {}",
        named.raw.name, fault.reason, fault.message
    );
    about(named, Finding::warning(FindingCode::PluginFailed, message)).hint(fault.next_step.clone())
}

fn about(named: &NamedPlugin, finding: Finding) -> Finding {
    let source = &named.raw.source;
    finding.about(Some(named.raw.reference())).at(source.file.clone(), source.line, 0)
}

fn scopes(candidate: &Candidate, plugin: &str) -> Vec<ValidatorScope> {
    let named = candidate.validators.iter().filter(|validator| validator.plugin == plugin);
    named
        .map(|validator| ValidatorScope { files: validator.files.clone(), data_files: validator.data_files.clone() })
        .collect()
}

#[cfg(test)]
mod tests;
