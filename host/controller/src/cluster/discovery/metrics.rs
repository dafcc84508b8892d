//! How many pods there are, and how many were turned away.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::cluster::discovery::roster::Rejection;

/// Registered once in a process; every iteration's discovery counts in it.
#[derive(Clone, Debug)]
pub struct DiscoveryMetrics {
    pub(super) admitted: Gauge<u64, AtomicU64>,
    pub(super) silent: Gauge<u64, AtomicU64>,
    pub(super) refused: Gauge<u64, AtomicU64>,
    rejections: Family<ReasonLabel, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// Why a pod gets no configuration.
const REASONS: [&str; 2] = ["haproxy_version", "api_version"];

// === impl DiscoveryMetrics ===

impl DiscoveryMetrics {
    /// `haptic_haproxy_pods{state}` and `haptic_haproxy_pods_rejected_total{reason}`.
    pub fn register(registry: &mut Registry) -> Self {
        let pods: Family<StateLabel, Gauge<u64, AtomicU64>> = Family::default();
        let state = |state| pods.get_or_create(&StateLabel { state }).clone();
        let metrics = Self {
            admitted: state("admitted"),
            silent: state("silent"),
            refused: state("rejected"),
            rejections: Family::default(),
        };
        for reason in REASONS {
            drop(metrics.rejections.get_or_create(&ReasonLabel { reason }));
        }
        registry.register("haptic_haproxy_pods", "HAProxy pods by what their agents said", pods);
        registry.register(
            "haptic_haproxy_pods_rejected",
            "Pods that get no configuration, by the reason",
            metrics.rejections.clone(),
        );
        metrics
    }

    pub(super) fn rejected(&self, rejection: &Rejection) {
        let reason = match rejection {
            Rejection::OldHaproxy(_) => "haproxy_version",
            Rejection::OtherApi(_) => "api_version",
        };
        self.rejections.get_or_create(&ReasonLabel { reason }).inc();
    }
}
