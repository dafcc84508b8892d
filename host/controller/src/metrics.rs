//! Metrics of the stages, registered here and passed in as a value. Label values come from enums and configured names;
//! the one that does not is `pod`, which the fleet bounds and which goes when the pod does.
//!
//! What only a cluster has is in `cluster/metrics.rs`, what the bus counts in `bus/totals.rs`. What each means for who
//! reads it stands in `docs/observability.md`, which a test holds against what is registered.

mod fleet;
mod labels;
mod observer;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
};

use haptic_model::{FindingCode, Mode, ReasonCode};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{
    bus::{MAILBOX_KEYS, OBSERVER_BACKLOG},
    commentator::HISTORY,
    deployer::RESULTS,
    metrics::labels::{
        ApplyLabels, CacheLabel, CodeLabel, NameLabel, PhaseLabel, PodLabel, ReasonLabel, RefusalLabel, ResultLabel,
        StateLabel, VerdictLabel,
    },
    pipeline::{CacheState, Phase},
};

pub use observer::MetricsObserver;

/// Seconds, from half a millisecond to eight seconds.
pub(crate) const BUCKETS: [f64; 15] =
    [0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 8.0];

/// Bounds that a queue or a memory of the controller keeps to, by the name that they are told under.
const LIMITS: [(&str, usize); 4] = [
    ("mailbox_events", MAILBOX_KEYS),
    ("observer_events", OBSERVER_BACKLOG),
    ("history_events", HISTORY),
    ("deployment_results", RESULTS),
];

type Whole = Gauge<u64, AtomicU64>;

#[derive(Clone)]
pub struct Metrics {
    leads: Arc<AtomicBool>,
    reconciliations: Counter,
    reconciliation_seconds: Histogram,
    reconciliation_errors: Family<PhaseLabel, Counter>,
    queue_wait_seconds: Histogram,
    renders: Family<CacheLabel, Counter>,
    render_seconds: Histogram,
    units: Family<StateLabel, Counter>,
    profiles: Whole,
    output_files: Whole,
    output_bytes: Whole,
    in_flight: Whole,
    findings: Family<CodeLabel, Whole>,
    rejected_inputs: Whole,
    deployments: Counter,
    deployment_seconds: Histogram,
    applies: Family<ApplyLabels, Counter>,
    deployment_errors: Family<PodLabel, Counter>,
    consecutive_failures: Whole,
    reloads: Family<ReasonLabel, Counter>,
    fleet_size: Whole,
    converged: Whole,
    last_full_sync: Gauge<i64, AtomicI64>,
    checks: Family<VerdictLabel, Counter>,
    check_seconds: Histogram,
    configs: Family<ResultLabel, Counter>,
    rejected_configs: Family<RefusalLabel, Counter>,
}

// === impl Metrics ===

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::new();
        metrics.register_renders(registry);
        metrics.register_deployments(registry);
        registry.register("haptic_haproxy_checks", "Verdicts of the render gate", metrics.checks.clone());
        registry.register(
            "haptic_haproxy_check_duration_seconds",
            "One verdict of the render gate, all HAProxy versions of the fleet together",
            metrics.check_seconds.clone(),
        );
        registry.register("haptic_config_validation", "Configuration candidates", metrics.configs.clone());
        registry.register(
            "haptic_config_rejected",
            "Configuration candidates that were refused, by the reason of the condition Accepted",
            metrics.rejected_configs.clone(),
        );
        let limits: Family<NameLabel, Whole> = Family::default();
        for (name, bound) in LIMITS {
            limits.get_or_create(&NameLabel { name }).set(bound as u64);
        }
        registry.register("haptic_limit", "Bounds that queues and memories of the controller keep to", limits);
        metrics.start_from_zero();
        metrics
    }

    /// Whether the pods are this replica's to tell of.
    pub(crate) fn set_leads(&self, leads: bool) {
        self.leads.store(leads, Relaxed);
        if !leads {
            self.converged.set(0);
            self.consecutive_failures.set(0);
            self.in_flight.set(0);
        }
    }

    fn new() -> Self {
        let histogram = || Histogram::new(BUCKETS);
        Self {
            leads: Arc::default(),
            reconciliations: Counter::default(),
            reconciliation_seconds: histogram(),
            reconciliation_errors: Family::default(),
            queue_wait_seconds: histogram(),
            renders: Family::default(),
            render_seconds: histogram(),
            units: Family::default(),
            profiles: Gauge::default(),
            output_files: Gauge::default(),
            output_bytes: Gauge::default(),
            in_flight: Gauge::default(),
            findings: Family::default(),
            rejected_inputs: Gauge::default(),
            deployments: Counter::default(),
            deployment_seconds: histogram(),
            applies: Family::default(),
            deployment_errors: Family::default(),
            consecutive_failures: Gauge::default(),
            reloads: Family::default(),
            fleet_size: Gauge::default(),
            converged: Gauge::default(),
            last_full_sync: Gauge::default(),
            checks: Family::default(),
            check_seconds: histogram(),
            configs: Family::default(),
            rejected_configs: Family::default(),
        }
    }

    fn register_renders(&self, registry: &mut Registry) {
        registry.register(
            "haptic_reconciliation",
            "Reconciliations that reached every pod",
            self.reconciliations.clone(),
        );
        registry.register(
            "haptic_reconciliation_duration_seconds",
            "Cause to acknowledgement",
            self.reconciliation_seconds.clone(),
        );
        registry.register(
            "haptic_reconciliation_errors",
            "Reconciliations that a phase stopped",
            self.reconciliation_errors.clone(),
        );
        registry.register(
            "haptic_reconciliation_queue_wait_seconds",
            "Cause to the start of its render: the debounce window, and the render before",
            self.queue_wait_seconds.clone(),
        );
        registry.register("haptic_render", "Renders by how much of them was remembered", self.renders.clone());
        registry.register("haptic_render_duration_seconds", "Renders", self.render_seconds.clone());
        registry.register(
            "haptic_render_units",
            "Units of renders that were kept and that were rendered",
            self.units.clone(),
        );
        registry.register("haptic_render_profiles", "Profiles in the newest output", self.profiles.clone());
        registry.register("haptic_render_output_files", "Files of the newest output", self.output_files.clone());
        registry.register(
            "haptic_render_output_bytes",
            "Bytes of all files of the newest output",
            self.output_bytes.clone(),
        );
        registry.register("haptic_renders_in_flight", "Renders under way, of one at most", self.in_flight.clone());
        registry.register("haptic_findings", "Findings of the newest render", self.findings.clone());
        registry.register(
            "haptic_rejected_watched_inputs",
            "Objects that are left out of the newest output, whole or in part",
            self.rejected_inputs.clone(),
        );
    }

    fn register_deployments(&self, registry: &mut Registry) {
        registry.register("haptic_deployment", "Deployments that every pod has answered", self.deployments.clone());
        registry.register(
            "haptic_deployment_duration_seconds",
            "Diff and apply of the slowest pod of a deployment",
            self.deployment_seconds.clone(),
        );
        registry.register("haptic_deploy_apply", "Applies by what the agent did", self.applies.clone());
        registry.register("haptic_deployment_errors", "Applies that failed", self.deployment_errors.clone());
        registry.register(
            "haptic_deployment_consecutive_failures",
            "Failures in a row of the pod that fails most; 0 where this replica does not lead",
            self.consecutive_failures.clone(),
        );
        registry.register(
            "haptic_haproxy_reloads",
            "Reloads that a deployment needed, by the class of the first reason",
            self.reloads.clone(),
        );
        registry.register("haptic_haproxy_fleet_size", "HAProxy pods that get the output", self.fleet_size.clone());
        registry.register(
            "haptic_haproxy_fleet_converged",
            "Of which serve the newest output; 0 where this replica does not lead",
            self.converged.clone(),
        );
        registry.register(
            "haptic_last_full_sync_timestamp_seconds",
            "When every pod was last seen to serve the newest output, in seconds since 1970",
            self.last_full_sync.clone(),
        );
    }

    /// A rate is told from the first event on only if its series is there before it.
    fn start_from_zero(&self) {
        for phase in Phase::ALL {
            drop(self.reconciliation_errors.get_or_create(&PhaseLabel { phase: phase.label() }));
        }
        for cache_state in CacheState::ALL {
            drop(self.renders.get_or_create(&CacheLabel { cache_state: cache_state.label() }));
        }
        for state in ["kept", "rendered"] {
            drop(self.units.get_or_create(&StateLabel { state }));
        }
        for code in FindingCode::ALL {
            drop(self.findings.get_or_create(&CodeLabel { code: code.label() }));
        }
        for code in ReasonCode::ALL {
            drop(self.reloads.get_or_create(&ReasonLabel { reason: code.label() }));
        }
        for verdict in ["passed", "refused", "unknown"] {
            drop(self.checks.get_or_create(&VerdictLabel { verdict }));
        }
        for result in ["accepted", "rejected"] {
            drop(self.configs.get_or_create(&ResultLabel { result }));
        }
        for reason in observer::REFUSALS {
            drop(self.rejected_configs.get_or_create(&RefusalLabel { reason: reason.to_string() }));
        }
    }

    /// Series of pods that are gone are gone, too.
    fn forget(&self, pod: &str) {
        self.deployment_errors.remove(&PodLabel { pod: pod.to_owned() });
        for mode in Mode::ALL {
            self.applies.remove(&ApplyLabels { pod: pod.to_owned(), mode: mode.to_string() });
        }
    }
}

#[cfg(test)]
mod tests;
