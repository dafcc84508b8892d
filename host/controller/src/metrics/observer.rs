//! Counts what the stages tell.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use haptic_api::ConfigReason;
use haptic_model::{Finding, FindingCode, Mode, ReasonCode, Severity};

use crate::{
    bus::{EventBus, Subscription},
    clock::WallClock,
    cluster::status_applier::refusal,
    events::{Event, EventKind},
    metrics::{
        Metrics,
        fleet::FleetState,
        labels::{
            ApplyLabels, CacheLabel, CodeLabel, PhaseLabel, PodLabel, ReasonLabel, RefusalLabel, ResultLabel,
            StateLabel, VerdictLabel,
        },
    },
    pipeline::Render,
    pod::{PodOutcome, PodReport},
};

/// Every reason that a candidate is refused for.
pub(super) const REFUSALS: [ConfigReason; 5] = [
    ConfigReason::ConfigInvalid,
    ConfigReason::TemplateInvalid,
    ConfigReason::HAProxyValidationFailed,
    ConfigReason::ValidatorRefused,
    ConfigReason::PluginFailed,
];

pub struct MetricsObserver {
    events: Subscription,
    metrics: Metrics,
    clock: WallClock,
    fleet: FleetState,
}

// === impl MetricsObserver ===

impl MetricsObserver {
    pub fn new(bus: &Arc<EventBus>, metrics: Metrics, clock: WallClock) -> Self {
        let kinds = [
            EventKind::ReconciliationStarted,
            EventKind::TemplateRendered,
            EventKind::ReconciliationCompleted,
            EventKind::ReconciliationFailed,
            EventKind::HAProxyPodsDiscovered,
            EventKind::DeploymentCompleted,
            EventKind::RenderGateCompleted,
            EventKind::ConfigValidated,
            EventKind::ConfigInvalid,
        ];
        Self { events: bus.observe("Metrics", &kinds), metrics, clock, fleet: FleetState::default() }
    }

    /// Ends when the bus is closed.
    pub async fn run(mut self) {
        while let Some(event) = self.events.next().await {
            self.count(&event);
        }
    }

    fn count(&mut self, event: &Event) {
        let metrics = &self.metrics;
        match event {
            Event::ReconciliationStarted { .. } => {
                metrics.in_flight.set(1);
            }
            Event::TemplateRendered { render, .. } => {
                metrics.in_flight.set(0);
                metrics.count_render(render);
                self.fleet.rendered(render.plan());
                self.tell_converged();
            }
            Event::ReconciliationCompleted { duration, .. } => {
                metrics.reconciliations.inc();
                metrics.reconciliation_seconds.observe(duration.as_secs_f64());
            }
            Event::ReconciliationFailed { error, .. } => {
                metrics.in_flight.set(0);
                metrics.reconciliation_errors.get_or_create(&PhaseLabel { phase: error.phase.label() }).inc();
            }
            Event::HAProxyPodsDiscovered { pods, .. } => {
                for gone in self.fleet.discovered(pods) {
                    metrics.forget(&gone);
                }
                metrics.fleet_size.set(self.fleet.size() as u64);
                self.tell_converged();
            }
            Event::DeploymentCompleted { reports, .. } => self.deployed(reports),
            Event::RenderGateCompleted { outcome, .. } => {
                metrics.checks.get_or_create(&VerdictLabel { verdict: outcome.verdict.label() }).inc();
                metrics.check_seconds.observe(outcome.duration.as_secs_f64());
            }
            Event::ConfigValidated { .. } => {
                metrics.configs.get_or_create(&ResultLabel { result: "accepted" }).inc();
            }
            Event::ConfigInvalid { findings, .. } => {
                metrics.configs.get_or_create(&ResultLabel { result: "rejected" }).inc();
                let reason = refusal(findings).to_string();
                metrics.rejected_configs.get_or_create(&RefusalLabel { reason }).inc();
            }
            _ => {}
        }
    }

    fn deployed(&mut self, reports: &[PodReport]) {
        let metrics = &self.metrics;
        for report in reports {
            metrics.count_apply(report);
            self.fleet.reported(report);
        }
        let took = reports.iter().map(|report| report.diff + report.apply).max().unwrap_or(Duration::ZERO);
        metrics.deployments.inc();
        metrics.deployment_seconds.observe(took.as_secs_f64());
        if metrics.leads.load(Relaxed) {
            metrics.consecutive_failures.set(self.fleet.most_failures());
        }
        self.tell_converged();
        if self.fleet.size() > 0 && self.fleet.converged() == self.fleet.size() {
            metrics.last_full_sync.set(i64::try_from(self.clock.now().0).unwrap_or(i64::MAX));
        }
    }

    fn tell_converged(&self) {
        if self.metrics.leads.load(Relaxed) {
            self.metrics.converged.set(self.fleet.converged() as u64);
        }
    }
}

// === impl Metrics ===

impl Metrics {
    fn count_render(&self, render: &Render) {
        let (output, timing) = (&render.output, &render.output.timing);
        self.queue_wait_seconds.observe((render.started - render.trigger.since).as_secs_f64());
        self.render_seconds.observe(timing.render.as_secs_f64());
        self.renders.get_or_create(&CacheLabel { cache_state: timing.cache_state().label() }).inc();
        for (state, units) in [("kept", timing.units_kept), ("rendered", timing.units_rendered)] {
            self.units.get_or_create(&StateLabel { state }).inc_by(units);
        }
        let plan = &output.rendered.plan;
        self.profiles.set(plan.profiles.len() as u64);
        self.output_files.set(plan.files.len() as u64);
        self.output_bytes.set(plan.files.values().map(|file| file.size).sum());
        self.tell_findings(&output.findings);
    }

    fn tell_findings(&self, findings: &[Finding]) {
        for code in FindingCode::ALL {
            let count = findings.iter().filter(|finding| finding.code == code).count();
            self.findings.get_or_create(&CodeLabel { code: code.label() }).set(count as u64);
        }
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
        let objects: BTreeSet<_> = errors.filter_map(|finding| finding.object.as_ref()).collect();
        self.rejected_inputs.set(objects.len() as u64);
    }

    fn count_apply(&self, report: &PodReport) {
        let pod = report.pod.to_string();
        if report.outcome == PodOutcome::Failed {
            self.deployment_errors.get_or_create(&PodLabel { pod: pod.clone() }).inc();
        }
        let Some(mode) = report.mode else { return };
        if mode == Mode::Reload {
            let cause = report.reasons.iter().map(|reason| reason.code).find(|code| *code != ReasonCode::Note);
            let reason = cause.unwrap_or(ReasonCode::Note).label();
            self.reloads.get_or_create(&ReasonLabel { reason }).inc();
        }
        self.applies.get_or_create(&ApplyLabels { pod, mode: mode.to_string() }).inc();
    }
}
