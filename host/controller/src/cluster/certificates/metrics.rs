//! When certificates end, and what became of their renewals.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::cluster::certificates::Kept;

/// Registered once in a process.
#[derive(Clone, Debug)]
pub struct CertificateMetrics {
    ends: Family<CertificateLabel, Gauge<u64, AtomicU64>>,
    renewals: Family<ResultLabel, Counter>,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    Issued,
    /// Another replica wrote first.
    Overtaken,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CertificateLabel {
    certificate: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    certificate: &'static str,
    result: &'static str,
}

// === impl CertificateMetrics ===

impl CertificateMetrics {
    /// `haptic_certificate_expiry_timestamp_seconds{certificate}` and
    /// `haptic_certificate_renewals_total{certificate,result}`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self { ends: Family::default(), renewals: Family::default() };
        registry.register(
            "haptic_certificate_expiry_timestamp_seconds",
            "When the certificate in the Secret ends, in seconds since 1970",
            metrics.ends.clone(),
        );
        registry.register(
            "haptic_certificate_renewals",
            "Certificates that this replica issued, was overtaken with by another one, or failed to issue",
            metrics.renewals.clone(),
        );
        metrics
    }

    pub(super) fn ends(&self, kept: Kept, at: u64) {
        self.ends.get_or_create(&CertificateLabel { certificate: kept.name() }).set(at);
    }

    pub(super) fn renewal(&self, kept: Kept, result: Renewal) {
        let result = match result {
            Renewal::Issued => "issued",
            Renewal::Overtaken => "overtaken",
            Renewal::Failed => "failed",
        };
        self.renewals.get_or_create(&ResultLabel { certificate: kept.name(), result }).inc();
    }
}
