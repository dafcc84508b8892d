//! How many writes were asked about, what was answered, and how long it took.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use haptic_model::FileSet;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use tokio::time::Instant;

use crate::check::{Answer, Cancellation, CheckAsk, ConfigCheck};

/// Seconds, from a millisecond to the longest that an API server waits.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Registered once in a process.
#[derive(Clone, Debug)]
pub(crate) struct WebhookMetrics {
    requests: Family<Labels, Counter>,
    validations: Family<Labels, Counter>,
    request_seconds: Histogram,
    slot_wait_seconds: Histogram,
    check_seconds: Histogram,
    queue: Gauge<u64, AtomicU64>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestResult {
    Allowed,
    Denied,
    /// No verdict: the `failurePolicy` decides.
    Error,
    /// Of a kind that nobody switched on.
    Unregistered,
    Malformed,
}

/// What came of judging a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValidationResult {
    Allowed,
    Denied,
    Error,
}

/// A check whose time is told, however it ends.
struct Timed {
    check: Arc<dyn ConfigCheck>,
    seconds: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    gvk: String,
    result: &'static str,
}

// === impl WebhookMetrics ===

impl WebhookMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let histogram = || Histogram::new(BUCKETS);
        let metrics = Self {
            requests: Family::default(),
            validations: Family::default(),
            request_seconds: histogram(),
            slot_wait_seconds: histogram(),
            check_seconds: histogram(),
            queue: Gauge::default(),
        };
        registry.register("haptic_webhook_requests", "Admission requests by kind and answer", metrics.requests.clone());
        registry.register(
            "haptic_webhook_validation",
            "Proposals that were judged, by kind and verdict",
            metrics.validations.clone(),
        );
        registry.register(
            "haptic_webhook_request_duration_seconds",
            "From an admission request to its answer",
            metrics.request_seconds.clone(),
        );
        registry.register(
            "haptic_admission_render_slot_wait_seconds",
            "How long proposals waited to be judged",
            metrics.slot_wait_seconds.clone(),
        );
        registry.register(
            "haptic_admission_check_duration_seconds",
            "How long `haproxy -c` took to judge proposals",
            metrics.check_seconds.clone(),
        );
        registry.register("haptic_admission_queue_depth", "Proposals that wait to be judged", metrics.queue.clone());
        metrics
    }

    /// `gvk` is of a kind that is switched on; `None` = it is not known.
    pub(super) fn answered(&self, gvk: Option<&str>, result: RequestResult, duration: Duration) {
        let gvk = gvk.unwrap_or("unregistered").to_owned();
        self.requests.get_or_create(&Labels { gvk, result: result.name() }).inc();
        self.request_seconds.observe(duration.as_secs_f64());
    }

    pub(super) fn judged(&self, gvk: &str, result: ValidationResult) {
        self.validations.get_or_create(&Labels { gvk: gvk.to_owned(), result: result.name() }).inc();
    }

    pub(super) fn waited(&self, duration: Duration) {
        self.slot_wait_seconds.observe(duration.as_secs_f64());
    }

    /// The same check, of which the time is told.
    pub(super) fn timed(&self, check: Arc<dyn ConfigCheck>) -> Arc<dyn ConfigCheck> {
        Arc::new(Timed { check, seconds: self.check_seconds.clone() })
    }

    pub(super) fn waiting(&self, proposals: usize) {
        self.queue.set(proposals as u64);
    }
}

// === impl Timed ===

impl ConfigCheck for Timed {
    fn check(&self, files: &FileSet, ask: CheckAsk, cancelled: &Cancellation) -> Answer {
        let began = Instant::now();
        let answer = self.check.check(files, ask, cancelled);
        self.seconds.observe(began.elapsed().as_secs_f64());
        answer
    }
}

// === impl RequestResult ===

impl RequestResult {
    fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Error => "error",
            Self::Unregistered => "unregistered",
            Self::Malformed => "malformed",
        }
    }
}

// === impl ValidationResult ===

impl ValidationResult {
    fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Error => "error",
        }
    }
}
