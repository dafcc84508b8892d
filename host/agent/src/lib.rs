//! The per-pod service: it owns HAProxy's file tree, its process and its sockets, and brings both to the state that a
//! controller asks for.
//!
//! What: [`Agent`] answers `/v1/state`, `/v1/apply` and `/v1/plan`; [`AgentTask`] does the work, one request after the
//! other. What not: no rendering, no diff, no Kubernetes, no Wasm. `haptic agent` and `haptic run --standalone` call it;
//! a controller talks to it only through the messages of `haptic-wire`.
//!
//! ```text
//! apply: fence → stage, verify → journal → rename, config last → operations or reload → commit
//!              nothing written ↑            a crash from here on ends in the old or the new set ↑
//! ```

mod engine;
mod fault;
mod http;
mod metrics;
mod record;
mod serve;
mod tree;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haptic_haproxy::{process::StartError, version::HaproxyBinary};
use haptic_model::PlanId;
use haptic_wire::{AgentState, ApplyBody, ApplyResult, Conflict, Serving};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};

pub use engine::AgentTask;
pub use fault::{ApplyStep, Fault, FaultAction, FaultHook, FaultTarget, InvalidFault, ScriptedFault};
pub use metrics::AgentMetrics;
pub use serve::{
    HANDSHAKE_LIMIT, MAX_CONNECTIONS, Readiness, Refreshed, ServeError, ServerCertificates, TlsFiles, TlsFilesError,
};

/// Requests that wait for the engine.
const QUEUE: usize = 16;
/// Longest plan document, in bytes.
pub const MAX_PLAN_BYTES: usize = 64 << 20;

/// How an agent runs. All directories are made if they are missing.
#[derive(Clone)]
pub struct AgentConfig {
    /// The file set. Everything in it whose name does not start with a dot belongs to the agent; `.haptic` in it holds
    /// staged files and backups, so that a rename never crosses a file system.
    pub base_dir: PathBuf,
    /// The agent's record and the stored plan documents.
    pub state_dir: PathBuf,
    /// Sockets, `agent.cfg` and HAProxy's log; a short path, since unix sockets have at most 97 bytes.
    pub run_dir: PathBuf,
    pub haproxy: HaproxyBinary,
    /// Shortest time between two reloads; one that comes sooner is scheduled.
    pub reload_interval_min: Duration,
    /// How long a start of HAProxy may take.
    pub start_timeout: Duration,
    /// How long a reload may take, retries included.
    pub reload_timeout: Duration,
    /// How long a batch of runtime commands may take.
    pub runtime_timeout: Duration,
    /// What the agent counts in.
    pub metrics: AgentMetrics,
    /// Called at every named step of an apply; `None` in production.
    pub fault_hook: Option<Arc<dyn FaultHook>>,
}

/// A handle on a running agent. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Agent {
    requests: mpsc::Sender<Request>,
    serving: watch::Receiver<Serving>,
    metrics: AgentMetrics,
}

#[derive(Debug, Error)]
pub enum AgentError {
    #[error("could not {action} {path}")]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the agent's record {path} is not readable; move it away to start with an unknown plan")]
    Record {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error(transparent)]
    Start(#[from] StartError),
    /// The task was dropped or ended.
    #[error("the agent has stopped")]
    Stopped,
    /// A fault hook asked for it.
    #[error("the agent stopped at a simulated crash")]
    Crashed,
}

/// Why an apply was not acted on; nothing was written.
#[derive(Debug)]
pub enum ApplyRefusal {
    Conflict(Box<Conflict>),
    /// Not a valid request.
    Invalid(String),
    /// The agent cannot act now.
    Unavailable(String),
}

/// What a stored plan document met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanStored {
    Stored,
    /// Another plan is applied by now; the document was dropped.
    MovedOn(Option<PlanId>),
}

#[derive(Debug)]
enum Request {
    State { with_plan: bool, verify: bool, reply: oneshot::Sender<AgentState> },
    Serving { reply: oneshot::Sender<Serving> },
    Apply { body: Box<ApplyBody>, reply: oneshot::Sender<Result<ApplyResult, ApplyRefusal>> },
    PutPlan { plan_id: PlanId, document: bytes::Bytes, reply: oneshot::Sender<Result<PlanStored, AgentError>> },
    StopHaproxy { drain: Duration, reply: oneshot::Sender<Result<(), StartError>> },
}

// === impl AgentConfig ===

impl AgentConfig {
    /// A configuration with the default bounds: reloads 2 s apart, 10 s to start, 60 s to reload, 5 s for a batch.
    pub fn new(base_dir: &Path, state_dir: &Path, run_dir: &Path, haproxy: HaproxyBinary) -> Self {
        Self {
            base_dir: base_dir.to_owned(),
            state_dir: state_dir.to_owned(),
            run_dir: run_dir.to_owned(),
            haproxy,
            reload_interval_min: Duration::from_secs(2),
            start_timeout: Duration::from_secs(10),
            reload_timeout: Duration::from_mins(1),
            runtime_timeout: Duration::from_secs(5),
            metrics: AgentMetrics::default(),
            fault_hook: None,
        }
    }
}

// === impl Agent ===

impl Agent {
    /// Recovers what a crash left, adopts a running HAProxy or starts one if there is a set to serve. The returned task
    /// must be run for the handle to answer.
    pub async fn open(config: AgentConfig) -> Result<(Self, AgentTask), AgentError> {
        let (requests, inbox) = mpsc::channel(QUEUE);
        let (told, serving) = watch::channel(Serving::default());
        let metrics = config.metrics.clone();
        let task = AgentTask::open(config, inbox, told).await?;
        Ok((Self { requests, serving, metrics }, task))
    }

    pub async fn state(&self, with_plan: bool, verify: bool) -> Result<AgentState, AgentError> {
        self.ask(|reply| Request::State { with_plan, verify, reply }).await
    }

    /// What is applied and what runs, in few words.
    pub async fn serving(&self) -> Result<Serving, AgentError> {
        self.ask(|reply| Request::Serving { reply }).await
    }

    pub async fn apply(&self, body: ApplyBody) -> Result<ApplyResult, ApplyRefusal> {
        let body = Box::new(body);
        match self.ask(|reply| Request::Apply { body, reply }).await {
            Ok(result) => result,
            Err(error) => Err(ApplyRefusal::Unavailable(error.to_string())),
        }
    }

    /// Stores the document of the applied plan, for a controller that starts anew.
    pub async fn put_plan(&self, plan_id: PlanId, document: bytes::Bytes) -> Result<PlanStored, AgentError> {
        self.ask(|reply| Request::PutPlan { plan_id, document, reply }).await?
    }

    /// Drains HAProxy for at most `drain` and ends it. It is not started again until the next apply.
    pub async fn stop_haproxy(&self, drain: Duration) -> Result<(), AgentError> {
        Ok(self.ask(|reply| Request::StopHaproxy { drain, reply }).await??)
    }

    /// Whether the pod should get traffic. Answers at once, also while a reload goes on.
    pub fn readiness(&self) -> Readiness {
        let serving = *self.serving.borrow();
        match (serving.worker, serving.running_plan) {
            (Some(_), Some(_)) => Readiness::Ready,
            (Some(_), None) => Readiness::NothingAcknowledged,
            (None, _) => Readiness::NoWorker,
        }
    }

    /// What was counted so far, in the text format of OpenMetrics.
    ///
    /// # Errors
    /// When a collector of the registry fails.
    pub fn metrics(&self) -> Result<String, std::fmt::Error> {
        self.metrics.queued(QUEUE - self.requests.capacity());
        self.metrics.text()
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, AgentError> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply)).await.map_err(|_| AgentError::Stopped)?;
        answer.await.map_err(|_| AgentError::Stopped)
    }
}
