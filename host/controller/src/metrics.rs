//! Metrics of the stages, registered here and passed in as a value. Label values come from enums and configured names.

use std::sync::{Arc, atomic::AtomicU64};

use haptic_model::Mode;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{
    bus::{EventBus, Subscription},
    events::{Event, EventKind},
    pod::{PodOutcome, PodReport},
};

/// Seconds, from half a millisecond to eight seconds.
const BUCKETS: [f64; 15] =
    [0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 8.0];

#[derive(Clone)]
pub struct Metrics {
    reconciliations: Counter,
    reconciliation_seconds: Histogram,
    reconciliation_errors: Family<PhaseLabel, Counter>,
    render_seconds: Histogram,
    applies: Family<ApplyLabels, Counter>,
    deployment_errors: Family<PodLabel, Counter>,
    reloads: Counter,
    checks: Family<VerdictLabel, Counter>,
    findings: Gauge<u64, AtomicU64>,
    configs: Family<ResultLabel, Counter>,
}

/// Counts what the stages tell.
pub struct MetricsObserver {
    events: Subscription,
    metrics: Metrics,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabel {
    phase: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApplyLabels {
    pod: String,
    mode: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PodLabel {
    pod: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabel {
    verdict: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

// === impl Metrics ===

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            reconciliations: Counter::default(),
            reconciliation_seconds: Histogram::new(BUCKETS),
            reconciliation_errors: Family::default(),
            render_seconds: Histogram::new(BUCKETS),
            applies: Family::default(),
            deployment_errors: Family::default(),
            reloads: Counter::default(),
            checks: Family::default(),
            findings: Gauge::default(),
            configs: Family::default(),
        };
        registry.register(
            "haptic_reconciliation",
            "Reconciliations that reached every pod",
            metrics.reconciliations.clone(),
        );
        registry.register(
            "haptic_reconciliation_duration_seconds",
            "Cause to acknowledgement",
            metrics.reconciliation_seconds.clone(),
        );
        registry.register(
            "haptic_reconciliation_errors",
            "Reconciliations that a phase stopped",
            metrics.reconciliation_errors.clone(),
        );
        registry.register("haptic_render_duration_seconds", "Renders", metrics.render_seconds.clone());
        registry.register("haptic_deploy_apply", "Applies by what the agent did", metrics.applies.clone());
        registry.register("haptic_deployment_errors", "Applies that failed", metrics.deployment_errors.clone());
        registry.register("haptic_haproxy_reloads", "Reloads that a deployment needed", metrics.reloads.clone());
        registry.register("haptic_haproxy_checks", "Verdicts of the render gate", metrics.checks.clone());
        registry.register("haptic_findings", "Findings of the newest render", metrics.findings.clone());
        registry.register("haptic_config_validation", "Configuration candidates", metrics.configs.clone());
        metrics
    }

    fn count_apply(&self, report: &PodReport) {
        let pod = report.pod.to_string();
        if report.outcome == PodOutcome::Failed {
            self.deployment_errors.get_or_create(&PodLabel { pod: pod.clone() }).inc();
        }
        let Some(mode) = report.mode else { return };
        if mode == Mode::Reload {
            self.reloads.inc();
        }
        self.applies.get_or_create(&ApplyLabels { pod, mode: mode.to_string() }).inc();
    }
}

// === impl MetricsObserver ===

impl MetricsObserver {
    pub fn new(bus: &Arc<EventBus>, metrics: Metrics) -> Self {
        let kinds = [
            EventKind::TemplateRendered,
            EventKind::ReconciliationCompleted,
            EventKind::ReconciliationFailed,
            EventKind::DeploymentCompleted,
            EventKind::RenderGateCompleted,
            EventKind::ConfigValidated,
            EventKind::ConfigInvalid,
        ];
        Self { events: bus.observe("Metrics", &kinds), metrics }
    }

    /// Ends when the bus is closed.
    pub async fn run(mut self) {
        while let Some(event) = self.events.next().await {
            self.count(&event);
        }
    }

    fn count(&self, event: &Event) {
        let metrics = &self.metrics;
        match event {
            Event::TemplateRendered { render, .. } => {
                metrics.render_seconds.observe(render.output.timing.render.as_secs_f64());
                metrics.findings.set(render.output.findings.len() as u64);
            }
            Event::ReconciliationCompleted { duration, .. } => {
                metrics.reconciliations.inc();
                metrics.reconciliation_seconds.observe(duration.as_secs_f64());
            }
            Event::ReconciliationFailed { error, .. } => {
                let label = PhaseLabel { phase: error.phase.to_string() };
                metrics.reconciliation_errors.get_or_create(&label).inc();
            }
            Event::DeploymentCompleted { reports, .. } => {
                reports.iter().for_each(|report| metrics.count_apply(report));
            }
            Event::RenderGateCompleted { outcome, .. } => {
                metrics.checks.get_or_create(&VerdictLabel { verdict: outcome.verdict.label() }).inc();
            }
            Event::ConfigValidated { .. } => {
                metrics.configs.get_or_create(&ResultLabel { result: "accepted" }).inc();
            }
            Event::ConfigInvalid { .. } => {
                metrics.configs.get_or_create(&ResultLabel { result: "rejected" }).inc();
            }
            _ => {}
        }
    }
}
