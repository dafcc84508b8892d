//! One call seen from all sides, for conformance checks and benches.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use haptic_model::ports::{
    Contract, Diagnostic, FilterCall, FilterError, FilterSession, PluginFailureKind, PluginReport,
};

use crate::{
    limits::Limits,
    load,
    plugin::LoadedPlugin,
    report::believe,
    session::{self, Instance},
    v1::types::{self, Finding},
    validate::{self, Question},
};

/// A validator call and what it cost.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What a pipeline would get.
    pub report: PluginReport,
    /// The guest's own report, before it was held against the contract; `None` if there was none.
    pub raw: Option<RawReport>,
    /// Memories and tables that the instance held at its end, which is the most it ever held.
    pub memory_bytes: u64,
    /// What it read of its files.
    pub input_bytes: u64,
}

/// A report as a guest gave it. Nothing of it need be true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawReport {
    pub verdict: Verdict,
    pub warnings: Vec<Diagnostic>,
    pub errors: Vec<Diagnostic>,
}

/// What a guest says that its report concludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Valid,
    Warning,
    Error,
}

/// The filters of one plugin, asked directly: nothing is remembered, and a name that the plugin does not declare reaches
/// it as well. One instance answers until it fails, as in a render.
pub struct DirectFilters {
    plugin: Arc<LoadedPlugin>,
    instance: Option<Instance>,
}

// === impl LoadedPlugin ===

impl LoadedPlugin {
    /// Asks a validator once, as a pipeline would but under `limits`. Blocks.
    pub fn try_question(&self, question: &Question<'_>, limits: Limits) -> Trial {
        let started = Instant::now();
        let _in_flight = self.ticker.enter();
        let mut store = self.store_within(limits);
        let answered = validate::guest_report(self, &mut store, question);
        let elapsed = started.elapsed();
        let raw = answered.as_ref().ok().map(RawReport::from);
        let outcome = answered.and_then(|report| {
            believe(report, &question.files()).map_err(|message| PluginFailureKind::Contract { message })
        });
        let call = store.data();
        let (memory_bytes, input_bytes) = (call.limiter.held(), call.input_read);
        Trial { report: validate::report(self, question, elapsed, outcome), raw, memory_bytes, input_bytes }
    }

    /// Makes an instance, configures it and drops it: what every call pays before its own work. `None` if the plugin
    /// does not export `contract` or fails.
    pub fn try_start(&self, contract: Contract) -> Option<Duration> {
        let started = Instant::now();
        let exported = self.contracts().contains(&contract);
        (exported && load::try_out(self, contract).is_ok()).then(|| started.elapsed())
    }

    /// Its filters without a memory; `None` if it offers none.
    pub fn direct_filters(self: &Arc<Self>) -> Option<DirectFilters> {
        self.exports.template_filters.as_ref()?;
        Some(DirectFilters { plugin: Arc::clone(self), instance: None })
    }
}

// === impl DirectFilters ===

impl DirectFilters {
    /// Memories and tables that its instance holds; 0 before the first call and after a failure.
    pub fn memory_bytes(&self) -> u64 {
        self.instance.as_ref().map_or(0, |instance| instance.store.data().limiter.held())
    }
}

impl FilterSession for DirectFilters {
    fn call(&mut self, call: FilterCall<'_>) -> Result<String, FilterError> {
        let started = Instant::now();
        let outcome = session::apply(&mut self.instance, &self.plugin, call, started);
        let answer = self.plugin.count(Contract::TemplateFilter, started.elapsed(), outcome)?;
        answer.map_err(|message| FilterError::Refused { filter: call.filter.to_owned(), message })
    }
}

// === impl RawReport ===

impl From<&types::Report> for RawReport {
    fn from(report: &types::Report) -> Self {
        let verdict = match report.verdict {
            types::Verdict::Valid => Verdict::Valid,
            types::Verdict::Warning => Verdict::Warning,
            types::Verdict::Error => Verdict::Error,
        };
        let diagnostics = |findings: &[Finding]| findings.iter().map(diagnostic).collect();
        Self { verdict, warnings: diagnostics(&report.warnings), errors: diagnostics(&report.errors) }
    }
}

fn diagnostic(finding: &Finding) -> Diagnostic {
    let Finding { path, line, column, message } = finding;
    Diagnostic { path: path.clone(), line: *line, column: *column, message: message.clone() }
}

// === impl Verdict ===

impl Verdict {
    /// As a report names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}
