//! The shape of the status files.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use haptic_model::{Finding, FindingCode, Mode, PlanId, Severity};
use serde::Serialize;

use crate::{
    clock::Timestamp,
    events::{Correlation, GateOutcome, GateVerdict, Trigger},
    pipeline::{Phase, Render},
    pod::{PodOutcome, PodReport},
};

/// Reasons that a pod's status keeps.
const REASONS: usize = 8;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigStatus {
    pub(super) config: Arc<str>,
    /// The newest configuration objects passed the load gate.
    pub(super) accepted: Condition,
    /// HAProxy's verdict about the newest render that was checked.
    pub(super) validated: Condition,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) observed_plan: Option<PlanId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_reconciliation: Option<LastReconciliation>,
    /// Why the newest input could not be rendered; what was deployed before goes on serving.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) render_error: Option<RenderError>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    status: ConditionStatus,
    reason: ConditionReason,
    message: String,
    /// When the status last changed.
    since: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum ConditionStatus {
    True,
    False,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum ConditionReason {
    ValidationSucceeded,
    HAProxyValidationFailed,
    NoCheckerForVersion,
    LoadGatePassed,
    LoadGateFailed,
    Pending,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RenderError {
    pub(super) phase: Phase,
    pub(super) since: Timestamp,
    pub(super) findings: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LastReconciliation {
    correlation: Correlation,
    at: Timestamp,
    cause: String,
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    milliseconds: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodStatus {
    pub(crate) outcome: PodOutcome,
    /// Since when the outcome is this one.
    since: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    haproxy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) applied_plan: Option<PlanId>,
    /// When the applied plan was acknowledged first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) applied_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) running_plan: Option<PlanId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<Mode>,
    operations: usize,
    pub(crate) reasons: Vec<String>,
    reloads: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_reload: Option<LastReload>,
    /// Stays after a success, so that what happened at night can be read in the morning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<PodError>,
    pub(crate) consecutive_errors: u32,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LastReload {
    pub(crate) at: Timestamp,
    pub(crate) reasons: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodError {
    pub(crate) message: String,
    pub(crate) first_seen: Timestamp,
    last_seen: Timestamp,
}

/// By object; what belongs to none stands under the file it is in.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct ObjectsStatus(BTreeMap<String, Vec<ObjectFinding>>);

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectFinding {
    severity: Severity,
    code: FindingCode,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_step: Option<String>,
}

// === impl ConfigStatus ===

impl ConfigStatus {
    pub(super) fn new(config: Arc<str>, now: Timestamp) -> Self {
        let accepted = Condition {
            status: ConditionStatus::True,
            reason: ConditionReason::LoadGatePassed,
            message: "the configuration serves".to_owned(),
            since: now,
        };
        let validated = Condition {
            status: ConditionStatus::Unknown,
            reason: ConditionReason::Pending,
            message: "no render has been checked yet".to_owned(),
            since: now,
        };
        Self { config, accepted, validated, observed_plan: None, last_reconciliation: None, render_error: None }
    }
}

// === impl Condition ===

impl Condition {
    pub(super) fn accepted(warnings: &[Finding], before: &Self, now: Timestamp) -> Self {
        let message = match warnings {
            [] => "the configuration serves".to_owned(),
            warnings => format!("the configuration serves, with warnings: {}", joined(warnings)),
        };
        Self::new(ConditionStatus::True, ConditionReason::LoadGatePassed, message, before, now)
    }

    pub(super) fn rejected(findings: &[Finding], before: &Self, now: Timestamp) -> Self {
        let message = format!("the last good configuration goes on serving: {}", joined(findings));
        Self::new(ConditionStatus::False, ConditionReason::LoadGateFailed, message, before, now)
    }

    pub(super) fn judged(outcome: &GateOutcome, refusal: &[Finding], before: &Self, now: Timestamp) -> Self {
        let plan = outcome.plan.0.short();
        let (status, reason, message) = match &outcome.verdict {
            GateVerdict::Passed => {
                let builds = outcome.checked_by.join(", ");
                let message = format!("HAProxy {builds} accepts plan {plan}");
                (ConditionStatus::True, ConditionReason::ValidationSucceeded, message)
            }
            GateVerdict::Refused { .. } => {
                let message = format!("HAProxy refuses plan {plan}: {}", joined(refusal));
                (ConditionStatus::False, ConditionReason::HAProxyValidationFailed, message)
            }
            GateVerdict::Unknown { reason } => {
                (ConditionStatus::Unknown, ConditionReason::NoCheckerForVersion, reason.to_string())
            }
        };
        Self::new(status, reason, message, before, now)
    }

    fn new(status: ConditionStatus, reason: ConditionReason, message: String, before: &Self, now: Timestamp) -> Self {
        let since = if before.status == status { before.since } else { now };
        Self { status, reason, message, since }
    }
}

// === impl LastReconciliation ===

impl LastReconciliation {
    pub(super) fn completed(correlation: Correlation, render: &Render, duration: Duration, at: Timestamp) -> Self {
        Self {
            correlation,
            at,
            cause: render.trigger.to_string(),
            outcome: "completed".to_owned(),
            milliseconds: Some((duration.as_secs_f64() * 1e4).round() / 10.0),
        }
    }

    pub(super) fn failed(correlation: Correlation, trigger: &Trigger, phase: Phase, at: Timestamp) -> Self {
        let outcome = format!("failed in phase {phase}");
        Self { correlation, at, cause: trigger.to_string(), outcome, milliseconds: None }
    }
}

// === impl PodStatus ===

impl PodStatus {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            outcome: PodOutcome::Failed,
            since: now,
            haproxy: None,
            applied_plan: None,
            applied_at: None,
            running_plan: None,
            mode: None,
            operations: 0,
            reasons: Vec::new(),
            reloads: 0,
            last_reload: None,
            last_error: None,
            consecutive_errors: 0,
        }
    }

    pub(crate) fn succeeded(&mut self, report: &PodReport, now: Timestamp) {
        self.turn(report.outcome, now);
        self.haproxy.clone_from(&report.haproxy);
        if self.applied_plan != report.applied_plan {
            self.applied_plan = report.applied_plan;
            self.applied_at = report.applied_plan.map(|_| now);
        }
        self.running_plan = report.running_plan;
        self.consecutive_errors = 0;
        // That nothing was to do says less than what was done last.
        if report.mode == Some(Mode::Noop) {
            return;
        }
        self.mode = report.mode;
        self.operations = report.ops_run;
        self.reasons = report.reasons.iter().take(REASONS).map(ToString::to_string).collect();
        if report.mode == Some(Mode::Reload) {
            self.reloads += 1;
            self.last_reload = Some(LastReload { at: now, reasons: self.reasons.clone() });
        }
    }

    /// What the pod serves stays as it was known last; a failure proves nothing about it.
    pub(crate) fn failed(&mut self, report: &PodReport, now: Timestamp) {
        self.turn(PodOutcome::Failed, now);
        self.consecutive_errors += 1;
        let message = report.error.clone().unwrap_or_default();
        match &mut self.last_error {
            Some(known) if known.message == message => known.last_seen = now,
            _ => self.last_error = Some(PodError { message, first_seen: now, last_seen: now }),
        }
    }

    fn turn(&mut self, outcome: PodOutcome, now: Timestamp) {
        if self.outcome != outcome {
            self.outcome = outcome;
            self.since = now;
        }
    }
}

// === impl ObjectsStatus ===

impl ObjectsStatus {
    pub(super) fn of<'a>(findings: impl Iterator<Item = &'a Finding>) -> Self {
        let mut objects = Self::default();
        for finding in findings {
            let key = match (&finding.object, &finding.location) {
                (Some(object), _) => object.to_string(),
                (None, Some(location)) => location.file.to_string(),
                (None, None) => "configuration".to_owned(),
            };
            let entry = ObjectFinding {
                severity: finding.severity,
                code: finding.code,
                message: finding.message.clone(),
                at: finding.location.as_ref().map(ToString::to_string),
                next_step: finding.hint.clone(),
            };
            let known = objects.0.entry(key).or_default();
            if !known.contains(&entry) {
                known.push(entry);
            }
        }
        objects
    }
}

/// One sentence of all of them.
pub(crate) fn joined(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
