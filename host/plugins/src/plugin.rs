//! A plugin that is ready to be called.

use std::{sync::Arc, time::Duration};

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
    totals::{Judged, Totals},
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
    pub(crate) totals: Arc<Totals>,
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

    /// The module was compiled before: the cache had its image, or another plugin holds it.
    pub fn from_cache(&self) -> bool {
        self.from_cache
    }

    /// What calls under its name have cost since the host started, whatever module was loaded. A filter call that was
    /// answered from memory is none.
    pub fn counter(&self) -> PluginCounter {
        self.totals.counter()
    }

    /// A store for one instance; its deadline runs from now.
    pub(crate) fn store(&self) -> Store<Call> {
        self.store_within(self.limits)
    }

    /// The same with limits other than the plugin's own.
    pub(crate) fn store_within(&self, limits: Limits) -> Store<Call> {
        call::store(&self.engine, &self.totals, limits)
    }

    /// Counts a call, and gives its failure the plugin's name.
    pub(crate) fn count<T: Judged>(
        &self,
        contract: Contract,
        elapsed: Duration,
        outcome: Result<T, PluginFailureKind>,
    ) -> Result<T, PluginFailure> {
        self.totals.count(contract, elapsed, &outcome);
        outcome.map_err(|kind| {
            if self.totals.may_tell_failure() {
                tracing::warn!(plugin = %self.name, failure = %kind, "plugin failed");
            }
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
