//! The pipeline: render, identity, auxiliary-file validators, rendered-output validators. One synchronous call.
//!
//! [`Pipeline::execute`] is the reconcile path: HAProxy's own verdict comes later, from the render gate.
//! [`Pipeline::execute_strict`] is the path of load gate, `validate` and admission: it asks `haproxy -c` in a fresh
//! jail too, on every call, exact repeats included. Both block: call them on a blocking thread.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use haptic_model::{
    Finding, FindingCode, PlanId, Rendered,
    ports::{Now, OutputValidators},
};
use haptic_render::{Inputs, Memo, Renderer};
use haptic_store::Snapshot;
use serde::Serialize;
use thiserror::Error;
use tokio::time::Instant;

use crate::{
    check::{Answer, Cancellation, CheckAsk, CheckBounds, ConfigCheck, NameResolution},
    events::{Correlation, Trigger},
    quarantine::{LeftOut, RefusedUnit},
    reports::{findings_of, from_haproxy, refusal},
};

/// How often a strict execution leaves out what HAProxy refused and renders again.
const STRICT_ROUNDS: usize = 8;

/// A successful execution on its way to the pods.
#[derive(Clone, Debug)]
pub struct Render {
    /// Grows with every execution of a term; the fence's `render_seq`.
    pub seq: u64,
    pub correlation: Correlation,
    pub trigger: Trigger,
    pub output: Output,
    /// When the execution began.
    pub started: Instant,
    /// What it was rendered from.
    pub snapshot: Arc<Snapshot>,
    pub pacing: Pacing,
}

/// How fast a render is brought to the pods, as the configuration has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// The least time between two reloads of a pod. Default: 2 s.
    pub reload_interval: Duration,
    /// How long one pod may take. Default: 90 s.
    pub timeout: Duration,
    /// Pods at a time; 0 = all at once. Default: 0.
    pub most_at_once: u32,
}

/// What the pipeline produces.
#[derive(Clone, Debug)]
pub struct Output {
    pub rendered: Rendered,
    /// Of the render, of units in quarantine and the validators' warnings; sorted, no duplicates.
    pub findings: Vec<Finding>,
    /// Units that HAProxy refused on the strict path.
    pub refused: Vec<RefusedUnit>,
    pub timing: PipelineTiming,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PipelineTiming {
    pub render: Duration,
    pub auxiliary: Duration,
    /// `haproxy -c`; zero on the reconcile path.
    pub semantic: Duration,
    pub external: Duration,
    /// Units whose output was kept, in the last render.
    #[serde(skip)]
    pub units_kept: u64,
    /// Units that were rendered, in the last render.
    #[serde(skip)]
    pub units_rendered: u64,
}

/// How much of a render was remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// Nothing was, or there was nothing to remember.
    Cold,
    /// Some units were.
    Warm,
    /// Every unit was.
    Replay,
}

/// The execution stopped in a phase; nothing may be published.
#[derive(Clone, Debug, Error)]
#[error("{phase}: {}", .findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct PipelineError {
    pub phase: Phase,
    pub findings: Vec<Finding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Render,
    /// Auxiliary-file validators.
    Auxiliary,
    /// `haproxy -c`.
    Semantic,
    /// Rendered-output validators.
    External,
}

/// Templates and validators of one accepted configuration.
#[derive(Clone)]
pub struct Pipeline {
    pub renderer: Arc<Renderer>,
    pub validators: Arc<dyn OutputValidators>,
    /// What a check of its output may take.
    pub check: CheckBounds,
}

// === impl Pacing ===

impl Default for Pacing {
    fn default() -> Self {
        Self { reload_interval: Duration::from_secs(2), timeout: Duration::from_secs(90), most_at_once: 0 }
    }
}

// === impl Pipeline ===

impl Pipeline {
    pub fn execute(
        &self,
        snapshot: &Arc<Snapshot>,
        haproxy: (u16, u16),
        left_out: LeftOut,
        memo: &mut Memo,
        now: Now,
    ) -> Result<Output, PipelineError> {
        let mut timing = PipelineTiming::default();
        let rendered = self.render(snapshot, haproxy, left_out.units, memo, &mut timing)?;
        let mut findings = rendered.findings.clone();
        findings.extend(left_out.findings);
        findings.extend(self.auxiliary(&rendered, now, &mut timing)?);
        findings.extend(self.external(&rendered, now, &mut timing)?);
        Ok(Output { rendered, findings: sorted(findings), refused: Vec::new(), timing })
    }

    /// Every phase, and what HAProxy refuses of a unit is left out and rendered again, a bounded number of times.
    pub fn execute_strict(
        &self,
        snapshot: &Arc<Snapshot>,
        haproxy: (u16, u16),
        check: &dyn ConfigCheck,
        now: Now,
        memo: &mut Memo,
        cancelled: &Cancellation,
    ) -> Result<Output, PipelineError> {
        let mut timing = PipelineTiming::default();
        let mut left_out = LeftOut::default();
        let mut refused = Vec::new();
        for _ in 0..STRICT_ROUNDS {
            let rendered = self.render(snapshot, haproxy, left_out.units.clone(), memo, &mut timing)?;
            let mut findings = rendered.findings.clone();
            findings.extend(left_out.findings.iter().cloned());
            findings.extend(self.auxiliary(&rendered, now, &mut timing)?);
            let began = Instant::now();
            let ask = CheckAsk { haproxy, names: NameResolution::Required, bounds: self.check };
            let answer = check.check(&rendered.files, ask, cancelled);
            timing.semantic += began.elapsed();
            match answer {
                Answer::Passed { warnings, .. } => {
                    findings.extend(from_haproxy(&warnings, &rendered, &self.renderer));
                }
                Answer::Refused { messages, .. } => {
                    let refusal = refusal(&messages, &rendered, &self.renderer);
                    if refusal.units.is_empty() {
                        return Err(PipelineError { phase: Phase::Semantic, findings: refusal.findings });
                    }
                    for unit in refusal.units {
                        left_out.units.insert(unit.unit.clone());
                        left_out.findings.push(unit.finding.clone());
                        refused.push(unit);
                    }
                    continue;
                }
                Answer::Unavailable { reason } => {
                    let finding = Finding::error(FindingCode::ConfigInvalid, reason.message)
                        .hint("install a HAProxy of that version or name one with --haproxy");
                    return Err(PipelineError { phase: Phase::Semantic, findings: vec![finding] });
                }
            }
            findings.extend(self.external(&rendered, now, &mut timing)?);
            return Ok(Output { rendered, findings: sorted(findings), refused, timing });
        }
        Err(PipelineError { phase: Phase::Semantic, findings: left_out.findings })
    }

    fn render(
        &self,
        snapshot: &Arc<Snapshot>,
        haproxy: (u16, u16),
        quarantined: BTreeSet<Arc<str>>,
        memo: &mut Memo,
        timing: &mut PipelineTiming,
    ) -> Result<Rendered, PipelineError> {
        let began = Instant::now();
        let inputs = Inputs { snapshot: snapshot.clone(), quarantined, haproxy };
        let rendered = self.renderer.render(&inputs, memo);
        timing.render += began.elapsed();
        (timing.units_kept, timing.units_rendered) = memo.hits_and_misses();
        rendered.map_err(|error| PipelineError { phase: Phase::Render, findings: error.findings })
    }

    fn auxiliary(
        &self,
        rendered: &Rendered,
        now: Now,
        timing: &mut PipelineTiming,
    ) -> Result<Vec<Finding>, PipelineError> {
        let began = Instant::now();
        let reports = self.validators.validate_auxiliary(&rendered.files, now);
        timing.auxiliary += began.elapsed();
        findings_of(&reports, rendered, &self.renderer)
            .map_err(|findings| PipelineError { phase: Phase::Auxiliary, findings })
    }

    fn external(
        &self,
        rendered: &Rendered,
        now: Now,
        timing: &mut PipelineTiming,
    ) -> Result<Vec<Finding>, PipelineError> {
        let began = Instant::now();
        let reports = self.validators.validate_output(&rendered.files, now);
        timing.external += began.elapsed();
        findings_of(&reports, rendered, &self.renderer)
            .map_err(|findings| PipelineError { phase: Phase::External, findings })
    }
}

// === impl Render ===

impl Render {
    pub fn plan(&self) -> PlanId {
        self.output.rendered.plan.id
    }
}

// === impl PipelineTiming ===

impl PipelineTiming {
    pub fn cache_state(&self) -> CacheState {
        match (self.units_kept, self.units_rendered) {
            (0, _) => CacheState::Cold,
            (_, 0) => CacheState::Replay,
            _ => CacheState::Warm,
        }
    }
}

// === impl CacheState ===

impl CacheState {
    pub const ALL: [Self; 3] = [Self::Cold, Self::Warm, Self::Replay];

    /// As a label of metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
            Self::Replay => "replay",
        }
    }
}

// === impl Phase ===

impl Phase {
    pub const ALL: [Self; 4] = [Self::Render, Self::Auxiliary, Self::Semantic, Self::External];

    /// As a label of metrics; as it is displayed.
    pub fn label(self) -> &'static str {
        match self {
            Self::Render => "render",
            Self::Auxiliary => "auxiliary",
            Self::Semantic => "semantic",
            Self::External => "external",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

fn sorted(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort();
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests;
