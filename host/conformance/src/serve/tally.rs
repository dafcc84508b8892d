//! What a server did.

use std::time::Duration;

use haptic_model::ports::{PluginFailureKind, PluginReport};
use parking_lot::Mutex;

use crate::v1::{Response, Verdict};

/// Counts since the server started.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Counts>);

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    connections: u64,
    /// Connections that ended in the middle of a request or of an answer.
    broken: u64,
    requests: u64,
    valid: u64,
    warning: u64,
    error: u64,
    /// Requests that were no requests.
    refused: u64,
    /// Requests about which the plugin gave no report that could be sent.
    failed: u64,
    /// Those of the failed that met the time limit.
    timeouts: u64,
    /// In the plugin, all requests together.
    busy: Duration,
    /// In the plugin, the longest.
    longest: Duration,
}

// === impl Tally ===

impl Tally {
    pub(super) fn connected(&self) {
        self.0.lock().connections += 1;
    }

    pub(super) fn broken(&self) {
        self.0.lock().broken += 1;
    }

    pub(super) fn refused(&self) {
        let mut counts = self.0.lock();
        counts.requests += 1;
        counts.refused += 1;
    }

    /// A request for which there is no report at all.
    pub(super) fn lost(&self) {
        let mut counts = self.0.lock();
        counts.requests += 1;
        counts.failed += 1;
    }

    /// `response` is `None` if the report was too long to be sent.
    pub(super) fn answered(&self, report: &PluginReport, response: Option<&Response>) {
        let mut counts = self.0.lock();
        counts.requests += 1;
        counts.busy += report.elapsed;
        counts.longest = counts.longest.max(report.elapsed);
        match (&report.failure, response.map(|response| response.result)) {
            (Some(failure), _) => {
                counts.failed += 1;
                counts.timeouts += u64::from(matches!(failure.kind, PluginFailureKind::Timeout { .. }));
            }
            (None, None) => counts.failed += 1,
            (None, Some(Verdict::Valid)) => counts.valid += 1,
            (None, Some(Verdict::Warning)) => counts.warning += 1,
            (None, Some(Verdict::Error)) => counts.error += 1,
        }
    }

    /// Writes it all to the log.
    pub(super) fn log(&self) {
        let counts = *self.0.lock();
        let Counts { connections, broken, requests, valid, warning, error, refused, failed, timeouts, busy, longest } =
            counts;
        let asked = u32::try_from(requests - refused).unwrap_or(u32::MAX).max(1);
        let (mean_us, longest_us) = ((busy / asked).as_micros(), longest.as_micros());
        tracing::info!(
            connections,
            broken,
            requests,
            valid,
            warning,
            error,
            refused,
            failed,
            timeouts,
            mean_us,
            longest_us,
            "stopped serving"
        );
    }
}
