//! What happened, as the events told it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use haptic_model::{Finding, PlanId};
use serde::Serialize;

use crate::{
    clock::Timestamp,
    commentator::result,
    events::{Correlation, Event, GateOutcome, GateVerdict, Trigger},
    pipeline::{Phase, PipelineError, Render},
    pod::{Pod, PodOutcome, PodReport},
    status::document::PodStatus,
};

/// Reconciliations that are remembered.
const RECONCILIATIONS: usize = 50;
/// Deployments whose reconciliation has not closed yet.
const OPEN: usize = 64;
/// Reasons of one reconciliation that are remembered.
const REASONS: usize = 8;

#[derive(Clone, Default)]
pub(super) struct Record {
    pub(super) started: Option<Timestamp>,
    pub(super) config: ConfigRecord,
    pub(super) newest: Option<Arc<Render>>,
    /// The newest that a pod took, and since when its plan is this one.
    pub(super) deployed: Option<(Arc<Render>, Timestamp)>,
    /// Of a follower.
    pub(super) warm: Option<Arc<Render>>,
    /// Why the newest input was not rendered; `None` = it was.
    pub(super) failure: Option<Failure>,
    pub(super) gate: Option<(Arc<GateOutcome>, Timestamp)>,
    pub(super) pods: BTreeMap<Arc<str>, PodRecord>,
    /// Newest first.
    pub(super) reconciliations: VecDeque<Reconciliation>,
    open: BTreeMap<Correlation, Arc<[PodReport]>>,
}

/// Without a cluster; in one the standing of the configuration says more.
#[derive(Clone, Default)]
pub(super) struct ConfigRecord {
    pub(super) warnings: Option<Arc<[Finding]>>,
    pub(super) refused: Option<(Arc<[Finding]>, Timestamp)>,
}

#[derive(Clone)]
pub(super) struct Failure {
    pub(super) at: Timestamp,
    pub(super) phase: Phase,
    pub(super) findings: Vec<Finding>,
}

#[derive(Clone)]
pub(super) struct PodRecord {
    pub(super) pod: Option<Pod>,
    pub(super) status: Option<PodStatus>,
}

/// One way from a cause to its end.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reconciliation {
    correlation: Correlation,
    at: Timestamp,
    cause: String,
    outcome: ReconciliationOutcome,
    /// What it took of the pods, e.g. `runtime (2 ops)`, or the phase that stopped it.
    verdict: String,
    reasons: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanId>,
    /// From the cause to the acknowledgement of every pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    milliseconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    render_milliseconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    validator_milliseconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    apply_milliseconds: Option<f64>,
    findings: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum ReconciliationOutcome {
    Completed,
    Failed,
}

// === impl Record ===

impl Record {
    pub(super) fn take(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::ConfigValidated { warnings, .. } => {
                self.config = ConfigRecord { warnings: Some(warnings), refused: None };
            }
            Event::ConfigInvalid { findings, .. } => self.config.refuse(findings, now),
            // Another term knows only what its own deployments say.
            Event::BecameLeader { .. } => self.forget_deployments(),
            Event::HAProxyPodsDiscovered { pods, .. } => self.discovered(&pods),
            Event::TemplateRendered { render, .. } => {
                self.newest = Some(render);
                (self.warm, self.failure) = (None, None);
            }
            Event::ReconciliationFailed { correlation, error, trigger } => {
                self.failure = Some(Failure { at: now, phase: error.phase, findings: error.findings.clone() });
                self.remember(Reconciliation::failed(correlation, &error, &trigger, now));
            }
            Event::RenderGateCompleted { outcome, .. } => self.gate = Some((outcome, now)),
            Event::DeploymentCompleted { correlation, render, reports } => {
                reports.iter().for_each(|report| self.reported(report, now));
                if reports.iter().any(|report| report.outcome != PodOutcome::Failed) {
                    let since = self.deployed.as_ref().filter(|(known, _)| known.plan() == render.plan());
                    let since = since.map_or(now, |(_, since)| *since);
                    self.deployed = Some((render, since));
                }
                if self.open.len() == OPEN {
                    self.open.pop_first();
                }
                self.open.insert(correlation, reports);
            }
            Event::ReconciliationCompleted { correlation, duration, render } => {
                let reports = self.open.remove(&correlation).unwrap_or_else(|| [].into());
                self.remember(Reconciliation::completed(correlation, duration, &render, &reports, now));
            }
            _ => {}
        }
    }

    /// What pods run is the knowledge of who deploys.
    pub(super) fn forget_deployments(&mut self) {
        self.deployed = None;
        self.gate = None;
        self.pods.values_mut().for_each(|record| record.status = None);
    }

    /// The render that a search is about.
    pub(super) fn shown(&self, leads: bool) -> Option<Arc<Render>> {
        let own = || self.deployed.as_ref().map(|(render, _)| render.clone()).or_else(|| self.newest.clone());
        if leads { own().or_else(|| self.warm.clone()) } else { self.warm.clone().or_else(own) }
    }

    /// What HAProxy said against the newest render.
    pub(super) fn refusal(&self) -> &[Finding] {
        match self.gate.as_ref().map(|(outcome, _)| &outcome.verdict) {
            Some(GateVerdict::Refused { findings }) => findings,
            _ => &[],
        }
    }

    fn discovered(&mut self, pods: &[Pod]) {
        self.pods.retain(|name, _| pods.iter().any(|pod| pod.name == *name));
        for pod in pods {
            self.pod(&pod.name).pod = Some(pod.clone());
        }
    }

    fn reported(&mut self, report: &PodReport, now: Timestamp) {
        let status = self.pod(&report.pod).status.get_or_insert_with(|| PodStatus::new(now));
        match report.outcome {
            PodOutcome::Failed => status.failed(report, now),
            PodOutcome::Serving | PodOutcome::Scheduled => status.succeeded(report, now),
        }
    }

    fn pod(&mut self, name: &Arc<str>) -> &mut PodRecord {
        self.pods.entry(name.clone()).or_insert_with(|| PodRecord { pod: None, status: None })
    }

    fn remember(&mut self, reconciliation: Reconciliation) {
        self.reconciliations.push_front(reconciliation);
        self.reconciliations.truncate(RECONCILIATIONS);
    }
}

// === impl ConfigRecord ===

impl ConfigRecord {
    pub(super) fn refuse(&mut self, findings: Arc<[Finding]>, now: Timestamp) {
        self.refused = Some((findings, now));
    }
}

// === impl Reconciliation ===

impl Reconciliation {
    fn completed(
        correlation: Correlation,
        duration: Duration,
        render: &Render,
        reports: &[PodReport],
        at: Timestamp,
    ) -> Self {
        let timing = &render.output.timing;
        let mut reasons: Vec<String> = reports
            .iter()
            .flat_map(|report| report.reasons.iter().map(ToString::to_string).chain(report.error.clone()))
            .collect();
        reasons.sort();
        reasons.dedup();
        reasons.truncate(REASONS);
        let failed = reports.iter().any(|report| report.outcome == PodOutcome::Failed);
        let result = result(reports);
        Self {
            correlation,
            at,
            cause: render.trigger.to_string(),
            outcome: if failed { ReconciliationOutcome::Failed } else { ReconciliationOutcome::Completed },
            // The reasons stand apart.
            verdict: result.split(" because ").next().unwrap_or_default().to_owned(),
            reasons,
            plan: Some(render.plan()),
            milliseconds: Some(millis(duration)),
            render_milliseconds: Some(millis(timing.render)),
            validator_milliseconds: Some(millis(timing.auxiliary + timing.external)),
            apply_milliseconds: reports.iter().map(|report| report.apply).max().map(millis),
            findings: render.output.findings.len(),
        }
    }

    fn failed(correlation: Correlation, error: &PipelineError, trigger: &Trigger, at: Timestamp) -> Self {
        Self {
            correlation,
            at,
            cause: trigger.to_string(),
            outcome: ReconciliationOutcome::Failed,
            verdict: format!("stopped in phase {}", error.phase),
            reasons: error.findings.iter().take(REASONS).map(ToString::to_string).collect(),
            plan: None,
            milliseconds: None,
            render_milliseconds: None,
            validator_milliseconds: None,
            apply_milliseconds: None,
            findings: error.findings.len(),
        }
    }
}

/// To a tenth.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e4).round() / 10.0
}
