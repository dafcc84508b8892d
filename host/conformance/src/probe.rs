//! The plugin under test, asked in many ways.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use haptic_model::ports::{Contract, FilterCall, FilterError, FilterSession as _, PluginFailureKind};
use haptic_plugins::{
    DirectFilters, HostError, Inspection, Limits, LoadError, LoadErrorReason, LoadedPlugin, PluginHost, PluginSettings,
    Question, Trial,
};
use parking_lot::Mutex;
use serde_json::Value;

use crate::Project;

/// A deadline is wall-clock time, and the machine may have other work: a timeout counts only if it comes every time.
const TRIES: usize = 3;

/// Calls of which the fastest is taken.
const MEASURES: usize = 3;

/// One component in one host, loaded once for each config that is asked for.
pub(crate) struct Probe<'p> {
    pub(crate) project: &'p Project,
    pub(crate) bytes: Vec<u8>,
    /// The error if it cannot even be compiled.
    pub(crate) inspection: Result<Inspection, LoadErrorReason>,
    host: PluginHost,
    cache_dir: Option<PathBuf>,
    loaded: Mutex<BTreeMap<String, Loaded>>,
}

/// A plugin that loads, and the config that it has.
pub(crate) struct Base<'p> {
    pub(crate) config: &'p Value,
    pub(crate) plugin: Arc<LoadedPlugin>,
}

pub(crate) type Loaded = Result<Arc<LoadedPlugin>, Arc<LoadError>>;

// === impl Probe ===

impl<'p> Probe<'p> {
    pub(crate) fn new(project: &'p Project, bytes: Vec<u8>, cache_dir: Option<PathBuf>) -> Result<Self, HostError> {
        let host = PluginHost::new(cache_dir.clone())?;
        let mut probe = Self {
            project,
            bytes,
            inspection: Err(LoadErrorReason::CoreModule),
            host,
            cache_dir,
            loaded: Mutex::default(),
        };
        // Loaded first, and held by the map: inspecting then finds the module compiled.
        let _ = probe.load(&project.config);
        probe.inspection = probe.host.inspect(&probe.bytes);
        Ok(probe)
    }

    /// The plugin with this config.
    pub(crate) fn load(&self, config: &Value) -> Loaded {
        let key = config.to_string();
        if let Some(loaded) = self.loaded.lock().get(&key) {
            return loaded.clone();
        }
        let loaded = self.load_in(&self.host, config).map_err(Arc::new);
        self.loaded.lock().entry(key).or_insert(loaded).clone()
    }

    /// The plugin with the project's config; one that demands a config may have it only in its cases. The error is that
    /// of the project's config.
    pub(crate) fn base(&self) -> Result<Base<'p>, Arc<LoadError>> {
        let with = |config: &'p Value| self.load(config).map(|plugin| Base { config, plugin });
        with(&self.project.config).or_else(|error| {
            let mut configs = self.project.cases.iter().filter_map(crate::Case::config);
            configs.find_map(|config| with(config).ok()).ok_or(error)
        })
    }

    /// The plugin with this config in a host of its own.
    pub(crate) fn load_elsewhere(&self, config: &Value) -> Result<Arc<LoadedPlugin>, String> {
        let host = PluginHost::new(self.cache_dir.clone()).map_err(|error| error.to_string())?;
        self.load_in(&host, config).map_err(|error| error.to_string())
    }

    pub(crate) fn load_in(&self, host: &PluginHost, config: &Value) -> Result<Arc<LoadedPlugin>, LoadError> {
        let settings = PluginSettings {
            config: config.clone(),
            limits: self.project.limits,
            purity: self.project.purity,
            ..PluginSettings::default()
        };
        let load = || host.load(&self.project.name, &self.bytes, None, &settings);
        let timed_out = |loaded: &Result<_, LoadError>| match loaded {
            Err(error) => matches!(error.reason, LoadErrorReason::Start(PluginFailureKind::Timeout { .. })),
            Ok(_) => false,
        };
        let mut loaded = load();
        for _ in 1..TRIES {
            if !timed_out(&loaded) {
                break;
            }
            loaded = load();
        }
        loaded
    }

    /// What the component exports; nothing if it is none.
    pub(crate) fn contracts(&self) -> Vec<Contract> {
        self.inspection.as_ref().map(|inspection| inspection.contracts.clone()).unwrap_or_default()
    }

    pub(crate) fn limits(&self) -> Limits {
        self.project.limits
    }
}

/// Asks once, within the plugin's limits.
pub(crate) fn ask(plugin: &LoadedPlugin, question: &Question<'_>) -> Trial {
    for _ in 1..TRIES {
        let trial = plugin.try_question(question, plugin.limits());
        if !timed_out(&trial) {
            return trial;
        }
    }
    plugin.try_question(question, plugin.limits())
}

/// Asks a few times and gives the fastest.
pub(crate) fn measure(plugin: &LoadedPlugin, question: &Question<'_>) -> Trial {
    let mut fastest = ask(plugin, question);
    for _ in 1..MEASURES {
        let trial = ask(plugin, question);
        if trial.report.elapsed < fastest.report.elapsed {
            fastest = trial;
        }
    }
    fastest
}

/// Calls a filter, and says how long the call took. A timeout ends the instance, so another try has a new one.
pub(crate) fn call(filters: &mut DirectFilters, call: FilterCall<'_>) -> (Result<String, FilterError>, Duration) {
    for _ in 1..TRIES {
        let (answer, elapsed) = time(|| filters.call(call));
        let timed_out = matches!(
            &answer,
            Err(FilterError::Failed(failure)) if matches!(failure.kind, PluginFailureKind::Timeout { .. })
        );
        if !timed_out {
            return (answer, elapsed);
        }
    }
    time(|| filters.call(call))
}

pub(crate) fn time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let result = work();
    (result, started.elapsed())
}

fn timed_out(trial: &Trial) -> bool {
    let failure = trial.report.failure.as_ref();
    failure.is_some_and(|failure| matches!(failure.kind, PluginFailureKind::Timeout { .. }))
}
