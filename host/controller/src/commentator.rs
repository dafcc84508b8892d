//! The commentator: one line for each reconciliation, and the last events by name.
//!
//! It decides nothing. What it keeps are scalars and short texts, never a render (a history of renders would hold
//! their memory). The line travels as the message of a `tracing` event with the same facts as fields, so text and
//! JSON logs both have it.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write as _,
    sync::Arc,
    time::Duration,
};

use haptic_model::{Mode, Severity};
use parking_lot::Mutex;
use serde::Serialize;

use crate::{
    bus::{EventBus, Subscription},
    clock::{Timestamp, WallClock},
    events::{Correlation, Event, EventKind, GateVerdict, Trigger},
    pipeline::Render,
    pod::{PodOutcome, PodReport},
};

/// Events that are remembered.
pub const HISTORY: usize = 1_000;
/// Reconciliations whose trigger is remembered until they end.
const OPEN: usize = 64;
/// Most bytes of a detail in the history.
const LONGEST_DETAIL: usize = 500;
/// Reasons that one line names.
const NAMED_REASONS: usize = 3;

/// The last events, newest last.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<VecDeque<Remembered>>>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remembered {
    pub at: Timestamp,
    pub event: &'static str,
    pub correlation: Correlation,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

pub struct Commentator {
    events: Subscription,
    clock: WallClock,
    history: History,
    deployed: BTreeMap<Correlation, Arc<[PodReport]>>,
}

// === impl Commentator ===

impl Commentator {
    pub fn new(bus: &Arc<EventBus>, clock: WallClock, history: History) -> Self {
        Self { events: bus.observe("Commentator", &EventKind::ALL), clock, history, deployed: BTreeMap::new() }
    }

    /// Ends when the bus is closed.
    pub async fn run(mut self) {
        while let Some(event) = self.events.next().await {
            self.history.push(Remembered {
                at: self.clock.timestamp(),
                event: event.kind().name(),
                correlation: event.correlation(),
                detail: detail(&event),
            });
            self.comment(event);
        }
    }

    fn comment(&mut self, event: Event) {
        let correlation = event.correlation();
        match event {
            Event::DeploymentCompleted { reports, .. } => {
                if self.deployed.len() == OPEN {
                    self.deployed.pop_first();
                }
                self.deployed.insert(correlation, reports);
            }
            Event::ReconciliationCompleted { duration, render, .. } => {
                let reports = self.deployed.remove(&correlation).unwrap_or_else(|| [].into());
                completed(correlation, duration, &render, &reports);
            }
            Event::ReconciliationFailed { error, trigger, .. } => {
                tracing::error!(
                    target: "haptic::reconciliation", %correlation, phase = %error.phase,
                    findings = error.findings.len(),
                    "not reconciled: {trigger} → {error}; the last good configuration goes on serving"
                );
            }
            Event::RenderGateCompleted { outcome, .. } => match &outcome.verdict {
                GateVerdict::Passed => {
                    tracing::debug!(%correlation, plan = %outcome.plan.0.short(), "haproxy -c accepts the render");
                }
                GateVerdict::Refused { findings } => {
                    let words = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                    tracing::error!(
                        target: "haptic::reconciliation", %correlation, plan = %outcome.plan.0.short(),
                        quarantined = outcome.quarantined, "haproxy -c refuses the render: {words}"
                    );
                }
                GateVerdict::Unknown { reason } => {
                    tracing::warn!(%correlation, plan = %outcome.plan.0.short(), %reason, "the render was not checked");
                }
            },
            Event::ConfigInvalid { name, findings, .. } => {
                let words = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                tracing::error!(
                    target: "haptic::config", %correlation,
                    "{name} is not accepted: {words}; the last good configuration goes on serving"
                );
            }
            Event::ConfigValidated { name, warnings, .. } => {
                for warning in warnings.iter() {
                    tracing::warn!(target: "haptic::config", %correlation, code = %warning.code, "{warning}");
                }
                tracing::info!(target: "haptic::config", %correlation, "{name} is accepted and serves");
            }
            _ => {}
        }
    }
}

// === impl History ===

impl History {
    pub fn newest_last(&self) -> Vec<Remembered> {
        self.0.lock().iter().cloned().collect()
    }

    fn push(&self, remembered: Remembered) {
        let mut history = self.0.lock();
        if history.len() == HISTORY {
            history.pop_front();
        }
        history.push_back(remembered);
    }
}

fn completed(correlation: Correlation, duration: Duration, render: &Render, reports: &[PodReport]) {
    let line = line(duration, render, reports);
    let verdict = reports.iter().filter_map(|report| report.mode).max();
    let findings = &render.output.findings;
    let failed = reports.iter().filter(|report| report.outcome == PodOutcome::Failed).count();
    let fields = tracing::field::display(verdict.map_or_else(|| "none".to_owned(), |mode| mode.to_string()));
    let (plan, seq) = (render.plan().0.short(), render.seq);
    let (total_ms, render_ms) = (millis(duration), millis(render.output.timing.render));
    if failed > 0 {
        tracing::error!(
            target: "haptic::reconciliation", %correlation, plan, seq, mode = fields, total_ms, render_ms,
            findings = findings.len(), failed, "{line}"
        );
    } else {
        tracing::info!(
            target: "haptic::reconciliation", %correlation, plan, seq, mode = fields, total_ms, render_ms,
            findings = findings.len(), "{line}"
        );
    }
    for finding in findings {
        match finding.severity {
            Severity::Error => {
                tracing::warn!(target: "haptic::finding", %correlation, code = %finding.code, "{finding}");
            }
            Severity::Warning => {
                tracing::debug!(target: "haptic::finding", %correlation, code = %finding.code, "{finding}");
            }
        }
    }
}

/// E.g. `reconciled: EndpointSlice shop/web changed → runtime (2 ops) in 6.1 ms (render 1.2, check async, apply 2.4),
/// 0 findings`.
fn line(duration: Duration, render: &Render, reports: &[PodReport]) -> String {
    let mut line = format!("reconciled: {} → {}", cause(&render.trigger), result(reports));
    let timing = &render.output.timing;
    let apply = reports.iter().map(|report| report.apply).max().unwrap_or_default();
    let _ = write!(line, " in {} ms (render {}", tenths(duration), tenths(timing.render));
    let validators = timing.auxiliary + timing.external;
    if !validators.is_zero() {
        let _ = write!(line, ", validators {}", tenths(validators));
    }
    let _ = write!(line, ", check async, apply {}), ", tenths(apply));
    match render.output.findings.len() {
        1 => line.push_str("1 finding"),
        many => {
            let _ = write!(line, "{many} findings");
        }
    }
    for report in reports {
        if let Some(error) = &report.error {
            let _ = write!(line, "; pod {}: {error}", report.pod);
        }
    }
    line
}

fn cause(trigger: &Trigger) -> String {
    trigger.to_string()
}

/// The hardest thing that any pod did, and why.
pub(crate) fn result(reports: &[PodReport]) -> String {
    let Some(worst) = reports.iter().max_by_key(|report| (report.outcome == PodOutcome::Failed, report.mode)) else {
        return "no pod".to_owned();
    };
    let mut text = match (worst.outcome, worst.mode) {
        (PodOutcome::Failed, _) => "failed".to_owned(),
        (_, Some(Mode::Runtime)) if worst.ops_run == 1 => "runtime (1 op)".to_owned(),
        (_, Some(Mode::Runtime)) => format!("runtime ({} ops)", worst.ops_run),
        (_, Some(Mode::Scheduled)) => "reload scheduled".to_owned(),
        (_, Some(mode)) => mode.to_string(),
        (_, None) => "nothing".to_owned(),
    };
    if matches!(worst.mode, Some(Mode::Reload | Mode::Scheduled)) && !worst.reasons.is_empty() {
        let named: Vec<_> = worst.reasons.iter().take(NAMED_REASONS).map(ToString::to_string).collect();
        let _ = write!(text, " because {}", named.join("; "));
        if worst.reasons.len() > NAMED_REASONS {
            let _ = write!(text, " and {} more reasons", worst.reasons.len() - NAMED_REASONS);
        }
    }
    if reports.len() > 1 {
        let _ = write!(text, " on {} pods", reports.len());
    }
    text
}

fn detail(event: &Event) -> String {
    match event {
        Event::ReconciliationTriggered { trigger, .. } => trigger.to_string(),
        Event::ResourceIndexUpdated { change, .. } => change.to_string(),
        Event::TemplateRendered { render, .. } => format!("plan {}", render.plan().0.short()),
        Event::ReconciliationFailed { error, .. } => shortened(&format!("phase {error}")),
        Event::BecameLeader { epoch, .. } => format!("epoch {epoch}"),
        Event::RenderGateCompleted { outcome, .. } => {
            format!("{} plan {}", outcome.verdict.label(), outcome.plan.0.short())
        }
        Event::InstanceDeploymentFailed { report, .. } => format!("pod {}", report.pod),
        Event::ConfigParsed { name, .. } | Event::ConfigValidated { name, .. } | Event::ConfigInvalid { name, .. } => {
            name.to_string()
        }
        _ => String::new(),
    }
}

fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST_DETAIL)].to_owned()
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

fn tenths(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests;
