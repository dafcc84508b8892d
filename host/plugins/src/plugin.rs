//! A plugin that is ready to be called.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haptic_model::{
    Digest,
    ports::{Contract, FailurePolicy, FilterDeclaration, PluginCounter, PluginFailure, PluginFailureKind},
};
use wasmtime::{
    Engine, Store,
    component::{Component, InstancePre},
};

use crate::{
    call::{self, Call},
    limits::Limits,
    ticker::Ticker,
    v1,
};

/// A verified, compiled and linked plugin with the config it was loaded with. Immutable but for its counters; cheap to
/// share.
pub struct LoadedPlugin {
    pub(crate) name: Arc<str>,
    pub(crate) digest: Digest,
    /// JSON text, as the guest gets it.
    pub(crate) config: String,
    pub(crate) limits: Limits,
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) engine: Engine,
    pub(crate) ticker: Ticker,
    pub(crate) pre: InstancePre<Call>,
    pub(crate) exports: Exports,
    pub(crate) filters: Vec<FilterDeclaration>,
    pub(crate) compile_time: Duration,
    pub(crate) load_time: Duration,
    pub(crate) from_cache: bool,
    pub(crate) counters: Counters,
    /// Keeps the compiled module known to the host while anyone uses it.
    pub(crate) _component: Arc<Component>,
}

/// Where the contracts stand in the component.
#[derive(Default)]
pub(crate) struct Exports {
    pub(crate) auxiliary_file: Option<v1::auxiliary_file_validator::GuestIndices>,
    pub(crate) rendered_output: Option<v1::rendered_output_validator::GuestIndices>,
    pub(crate) template_filters: Option<v1::template_filters::GuestIndices>,
}

#[derive(Default)]
pub(crate) struct Counters {
    calls: AtomicU64,
    failures: AtomicU64,
    timeouts: AtomicU64,
    memory_denials: AtomicU64,
    traps: AtomicU64,
    nanos: AtomicU64,
}

// === impl LoadedPlugin ===

impl LoadedPlugin {
    /// The name under which it was loaded: in reports, failures, logs and counters.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Of the module's bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The generation of `haptic:plugin` that it was built for.
    pub fn generation(&self) -> &'static str {
        v1::GENERATION
    }

    /// What it exports, in the order of [`Contract`]. Never empty.
    pub fn contracts(&self) -> Vec<Contract> {
        let Exports { auxiliary_file, rendered_output, template_filters } = &self.exports;
        [
            auxiliary_file.as_ref().map(|_| Contract::AuxiliaryFile),
            rendered_output.as_ref().map(|_| Contract::RenderedOutput),
            template_filters.as_ref().map(|_| Contract::TemplateFilter),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The filters it offers with this config.
    pub fn filters(&self) -> &[FilterDeclaration] {
        &self.filters
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    pub fn failure_policy(&self) -> FailurePolicy {
        self.failure_policy
    }

    /// Compiling, or reading and proving the compiled image.
    pub fn compile_time(&self) -> Duration {
        self.compile_time
    }

    /// All of loading: digest, compiling, linking, trial run.
    pub fn load_time(&self) -> Duration {
        self.load_time
    }

    /// The compiled image was taken from the cache.
    pub fn from_cache(&self) -> bool {
        self.from_cache
    }

    /// What its calls have cost since it was loaded. A filter call that was answered from memory is none.
    pub fn counter(&self) -> PluginCounter {
        self.counters.read()
    }

    /// A store for one instance; its deadline runs from now.
    pub(crate) fn store(&self) -> Store<Call> {
        call::store(&self.engine, &self.name, self.limits)
    }

    /// Counts a call, and gives its failure the plugin's name.
    pub(crate) fn count<T>(
        &self,
        elapsed: Duration,
        outcome: Result<T, PluginFailureKind>,
    ) -> Result<T, PluginFailure> {
        self.counters.add(elapsed, outcome.as_ref().err());
        outcome.map_err(|kind| {
            tracing::warn!(plugin = %self.name, failure = %kind, "plugin failed");
            PluginFailure { plugin: Arc::clone(&self.name), kind }
        })
    }
}

impl std::fmt::Debug for LoadedPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedPlugin")
            .field("name", &self.name)
            .field("digest", &self.digest)
            .field("contracts", &self.contracts())
            .finish_non_exhaustive()
    }
}

// === impl Counters ===

impl Counters {
    fn add(&self, elapsed: Duration, failure: Option<&PluginFailureKind>) {
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        let Some(failure) = failure else { return };
        self.failures.fetch_add(1, Ordering::Relaxed);
        match failure {
            PluginFailureKind::Timeout { .. } => self.timeouts.fetch_add(1, Ordering::Relaxed),
            PluginFailureKind::MemoryLimit { .. } => self.memory_denials.fetch_add(1, Ordering::Relaxed),
            PluginFailureKind::Trap { .. } | PluginFailureKind::StackLimit => {
                self.traps.fetch_add(1, Ordering::Relaxed)
            }
            _ => 0,
        };
    }

    fn read(&self) -> PluginCounter {
        PluginCounter {
            calls: self.calls.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            timeouts: self.timeouts.load(Ordering::Relaxed),
            memory_denials: self.memory_denials.load(Ordering::Relaxed),
            traps: self.traps.load(Ordering::Relaxed),
            nanos: self.nanos.load(Ordering::Relaxed),
        }
    }
}
