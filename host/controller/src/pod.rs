//! The HAProxy pods of the fleet, and what a deployment reports about one of them.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use haptic_model::{Mode, PlanId, Reason, Verdict};
use haptic_wire::Timing;
use serde::Serialize;
use tokio::time::Instant;

/// A pod that HAProxy runs in, with its agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Unique in the fleet, which is of one namespace.
    pub name: Arc<str>,
    /// Tells a pod from a later one of the same name; empty without a cluster.
    pub uid: Arc<str>,
    pub endpoint: Endpoint,
    /// Major and minor version of its HAProxy; `None` while it is not known.
    pub haproxy: Option<(u16, u16)>,
}

/// Where the agent of a pod listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    Unix(PathBuf),
    /// TLS 1.3, both sides showing certificates.
    Tls(SocketAddr),
}

/// What one deployment did to one pod. Scalars only: reports are kept for a long time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    pub pod: Arc<str>,
    /// The render that this report is about.
    pub plan: PlanId,
    pub outcome: PodOutcome,
    /// What the diff decided; `None` when it did not come that far.
    pub verdict: Option<Verdict>,
    /// What the agent did.
    pub mode: Option<Mode>,
    pub applied_plan: Option<PlanId>,
    pub running_plan: Option<PlanId>,
    pub haproxy: Option<String>,
    /// Why it was not reload-free, and notes.
    pub reasons: Vec<Reason>,
    pub ops_run: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Diff against the baseline.
    #[serde(skip)]
    pub diff: Duration,
    /// Request sent to answer received.
    #[serde(skip)]
    pub apply: Duration,
    /// `None` = it did not come to a diff.
    #[serde(skip)]
    pub course: Option<Course>,
}

/// When the last attempt's steps began, and what the agent's own took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    pub diffed: Instant,
    /// `None` = there was nothing to send.
    pub sent: Option<Instant>,
    pub agent: Timing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PodOutcome {
    /// The pod serves the render.
    Serving,
    /// Its files landed; the reload follows when the pacing window ends.
    Scheduled,
    /// It does not serve the render; the error says why, and it is tried again.
    Failed,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(socket) => write!(f, "{}", socket.display()),
            Self::Tls(address) => write!(f, "{address}"),
        }
    }
}

// === impl PodReport ===

impl fmt::Display for PodReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.outcome {
            PodOutcome::Serving => "serves",
            PodOutcome::Scheduled => "will serve after a scheduled reload",
            PodOutcome::Failed => "does not serve",
        };
        write!(f, "pod {} {outcome} plan {}", self.pod, self.plan.0.short())?;
        if let Some(mode) = self.mode {
            write!(f, " ({mode}, {} operations)", self.ops_run)?;
        }
        for (index, reason) in self.reasons.iter().enumerate() {
            write!(f, "{} {reason}", if index == 0 { " because" } else { ";" })?;
        }
        match &self.error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}
