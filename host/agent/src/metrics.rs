//! What an agent counts, for `/metrics` on the door of the probes. Label values come from enums.

use std::sync::{Arc, atomic::AtomicU64};

use haptic_haproxy::runtime::RuntimeError;
use haptic_model::{Mode, Op};
use haptic_wire::{ApplyManifest, ApplyResult, ConflictReason, MAX_BODY_BYTES, MAX_FILES, MAX_OPS};
use parking_lot::RwLock;
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{ApplyRefusal, MAX_CONNECTIONS, MAX_PLAN_BYTES, QUEUE};

/// Seconds: from renaming a file to a reload that takes long.
const SECONDS: [f64; 13] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
const BODY_BYTES: [f64; 9] =
    [1_024.0, 8_192.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0, 33_554_432.0, 67_108_864.0];
const OPS: [f64; 8] = [0.0, 1.0, 2.0, 8.0, 64.0, 512.0, 4_096.0, 8_000.0];

/// Bounds that an agent keeps to, by the name that they are told under.
const LIMITS: [(&str, usize); 6] = [
    ("queue_requests", QUEUE),
    ("connections", MAX_CONNECTIONS),
    ("body_bytes", MAX_BODY_BYTES),
    ("plan_bytes", MAX_PLAN_BYTES),
    ("files", MAX_FILES),
    ("ops", MAX_OPS),
];

type Whole = Gauge<u64, AtomicU64>;

/// The metrics of one agent, and the registry that they are in. Cheap to clone.
#[derive(Clone)]
pub struct AgentMetrics {
    registry: Arc<RwLock<Registry>>,
    families: Families,
}

#[derive(Clone)]
struct Families {
    applies: Family<ModeLabel, Counter>,
    rejected: Family<StageLabel, Counter>,
    step_seconds: Family<StepLabel, Histogram, fn() -> Histogram>,
    body_bytes: Histogram,
    ops: Histogram,
    ops_run: Family<OpLabel, Counter>,
    op_errors: Family<KindLabel, Counter>,
    reloads: Family<ResultLabel, Counter>,
    starts: Family<ResultLabel, Counter>,
    rollbacks: Counter,
    violations: Family<NameLabel, Counter>,
    deletes: Family<OutcomeLabel, Counter>,
    pending_deletes: Whole,
    reload_pending: Whole,
    haproxy_up: Whole,
    epoch: Whole,
    queue: Whole,
    files: Whole,
    file_bytes: Whole,
}

/// Where an apply was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The request is not valid, or over a limit.
    Shape,
    /// Epoch, plan or worker are others than the controller thought.
    Fence,
    /// Content is missing: the controller sends it along and asks again.
    Content,
    /// An address that HAProxy is to listen on is taken.
    Bind,
    /// HAProxy refused the set.
    Load,
    /// The agent itself could not act.
    Agent,
}

/// What must never be, and degrades instead of ending anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invariant {
    /// Somebody else wrote into the file set.
    DiskIsTheRecord,
    /// Somebody else reloaded HAProxy.
    WorkerIsOurs,
    /// After every way back failed, what the worker serves is not known.
    WorkerStateIsKnown,
}

/// How a start or a reload of HAProxy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loaded {
    Loaded,
    Refused,
}

/// What became of a deletion that had to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deferred {
    Gone,
    /// Only a reload removes it.
    Stuck,
}

macro_rules! label {
    ($($name:ident { $field:ident }),+) => {$(
        #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        struct $name {
            $field: &'static str,
        }
    )+};
}

label!(
    StageLabel { stage },
    StepLabel { step },
    OpLabel { op },
    KindLabel { kind },
    ResultLabel { result },
    NameLabel { name },
    OutcomeLabel { outcome }
);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModeLabel {
    mode: String,
}

// === impl AgentMetrics ===

impl AgentMetrics {
    /// Beside what `registry` holds already, such as what the process uses.
    pub fn new(mut registry: Registry) -> Self {
        let families = Families::new();
        families.register_applies(&mut registry);
        families.register_haproxy(&mut registry);
        families.start_from_zero();
        Self { registry: Arc::new(RwLock::new(registry)), families }
    }

    /// In the text format of OpenMetrics.
    ///
    /// # Errors
    /// When a collector of the registry fails.
    pub(crate) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut encoded = String::new();
        text::encode(&mut encoded, &self.registry.read())?;
        Ok(encoded)
    }

    /// The size of what is asked for, before anything is decided.
    pub(crate) fn asked(&self, manifest: &ApplyManifest, body_bytes: usize) {
        self.families.body_bytes.observe(lossy(body_bytes as u64));
        self.families.ops.observe(lossy(manifest.ops.len() as u64));
    }

    pub(crate) fn applied(&self, result: &ApplyResult, manifest_files: usize, manifest_bytes: u64) {
        let families = &self.families;
        families.applies.get_or_create(&ModeLabel { mode: result.mode.to_string() }).inc();
        let timing = &result.timing;
        for (step, micros) in [
            ("stage", timing.stage_us),
            ("write", timing.write_us),
            ("ops", timing.ops_us),
            ("reload", timing.reload_us),
        ] {
            // A step that was left out took no time at all.
            if micros > 0 {
                families.step_seconds.get_or_create(&StepLabel { step }).observe(lossy(micros) / 1e6);
            }
        }
        if result.ok && manifest_files > 0 {
            families.files.set(manifest_files as u64);
            families.file_bytes.set(manifest_bytes);
        }
    }

    pub(crate) fn rejected(&self, stage: Stage) {
        self.families.rejected.get_or_create(&StageLabel { stage: stage.label() }).inc();
    }

    pub(crate) fn refused(&self, refusal: &ApplyRefusal) {
        self.rejected(match refusal {
            ApplyRefusal::Invalid(_) => Stage::Shape,
            ApplyRefusal::Conflict(conflict) if conflict.reason == ConflictReason::Missing => Stage::Content,
            ApplyRefusal::Conflict(_) => Stage::Fence,
            ApplyRefusal::Unavailable(_) => Stage::Agent,
        });
    }

    pub(crate) fn ran(&self, ops: &[Op]) {
        for op in ops {
            self.families.ops_run.get_or_create(&OpLabel { op: op.kind() }).inc();
        }
    }

    pub(crate) fn op_failed(&self, error: &RuntimeError) {
        self.families.op_errors.get_or_create(&KindLabel { kind: kind(error) }).inc();
    }

    pub(crate) fn reloaded(&self, result: Loaded) {
        self.families.reloads.get_or_create(&ResultLabel { result: result.label() }).inc();
    }

    pub(crate) fn started(&self, result: Loaded) {
        self.families.starts.get_or_create(&ResultLabel { result: result.label() }).inc();
    }

    pub(crate) fn rolled_back(&self) {
        self.families.rollbacks.inc();
    }

    pub(crate) fn violated(&self, invariant: Invariant) {
        self.families.violations.get_or_create(&NameLabel { name: invariant.label() }).inc();
    }

    pub(crate) fn deleted(&self, outcome: Deferred) {
        self.families.deletes.get_or_create(&OutcomeLabel { outcome: outcome.label() }).inc();
    }

    pub(crate) fn waiting_deletes(&self, count: usize) {
        self.families.pending_deletes.set(count as u64);
    }

    pub(crate) fn stands(&self, haproxy_up: bool, reload_pending: bool, epoch: u64) {
        self.families.haproxy_up.set(u64::from(haproxy_up));
        self.families.reload_pending.set(u64::from(reload_pending));
        self.families.epoch.set(epoch);
    }

    pub(crate) fn queued(&self, requests: usize) {
        self.families.queue.set(requests as u64);
    }
}

impl Default for AgentMetrics {
    fn default() -> Self {
        Self::new(Registry::default())
    }
}

impl std::fmt::Debug for AgentMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentMetrics").finish_non_exhaustive()
    }
}

// === impl Families ===

impl Families {
    fn new() -> Self {
        Self {
            applies: Family::default(),
            rejected: Family::default(),
            step_seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            body_bytes: Histogram::new(BODY_BYTES),
            ops: Histogram::new(OPS),
            ops_run: Family::default(),
            op_errors: Family::default(),
            reloads: Family::default(),
            starts: Family::default(),
            rollbacks: Counter::default(),
            violations: Family::default(),
            deletes: Family::default(),
            pending_deletes: Gauge::default(),
            reload_pending: Gauge::default(),
            haproxy_up: Gauge::default(),
            epoch: Gauge::default(),
            queue: Gauge::default(),
            files: Gauge::default(),
            file_bytes: Gauge::default(),
        }
    }

    fn register_applies(&self, registry: &mut Registry) {
        registry.register("haptic_agent_apply", "Applies that were acted on", self.applies.clone());
        registry.register(
            "haptic_agent_apply_rejected",
            "Applies by where they were turned away",
            self.rejected.clone(),
        );
        registry.register("haptic_agent_apply_step_seconds", "Steps of applies", self.step_seconds.clone());
        registry.register("haptic_agent_apply_body_bytes", "Content that came with applies", self.body_bytes.clone());
        registry.register("haptic_agent_apply_ops", "Operations that applies asked for", self.ops.clone());
        registry.register("haptic_agent_runtime_ops", "Operations that HAProxy took at run time", self.ops_run.clone());
        registry.register(
            "haptic_agent_op_errors",
            "Batches of operations that HAProxy did not take, by why",
            self.op_errors.clone(),
        );
        registry.register("haptic_agent_queue_depth", "Requests that wait for the agent", self.queue.clone());
        registry.register("haptic_agent_files", "Files of the newest set", self.files.clone());
        registry.register("haptic_agent_file_bytes", "Bytes of the newest set", self.file_bytes.clone());
        registry.register("haptic_agent_epoch", "Greatest epoch of a leader that was accepted", self.epoch.clone());
        let limits: Family<NameLabel, Whole> = Family::default();
        for (name, bound) in LIMITS {
            limits.get_or_create(&NameLabel { name }).set(bound as u64);
        }
        registry.register("haptic_agent_limit", "Bounds that the agent keeps to", limits);
    }

    fn register_haproxy(&self, registry: &mut Registry) {
        registry.register("haptic_agent_reloads", "Reloads of HAProxy", self.reloads.clone());
        registry.register("haptic_agent_starts", "Starts of HAProxy", self.starts.clone());
        registry.register(
            "haptic_agent_rollbacks",
            "Sets that were put back because HAProxy refused the next",
            self.rollbacks.clone(),
        );
        registry.register("haptic_agent_invariant_violations", "What must never be, and was", self.violations.clone());
        registry.register(
            "haptic_agent_deferred_deletes",
            "Deletions that had to wait, by what became of them",
            self.deletes.clone(),
        );
        registry.register("haptic_agent_pending_deletes", "Deletions that wait", self.pending_deletes.clone());
        registry.register(
            "haptic_agent_reload_pending",
            "Whether a reload waits for its time",
            self.reload_pending.clone(),
        );
        registry.register("haptic_agent_haproxy_up", "Whether a worker of HAProxy runs", self.haproxy_up.clone());
    }

    fn start_from_zero(&self) {
        for mode in Mode::ALL {
            drop(self.applies.get_or_create(&ModeLabel { mode: mode.to_string() }));
        }
        for stage in Stage::ALL {
            drop(self.rejected.get_or_create(&StageLabel { stage: stage.label() }));
        }
        for step in ["stage", "write", "ops", "reload"] {
            drop(self.step_seconds.get_or_create(&StepLabel { step }));
        }
        for op in Op::KINDS {
            drop(self.ops_run.get_or_create(&OpLabel { op }));
        }
        for kind in KINDS {
            drop(self.op_errors.get_or_create(&KindLabel { kind }));
        }
        for result in [Loaded::Loaded, Loaded::Refused] {
            drop(self.reloads.get_or_create(&ResultLabel { result: result.label() }));
            drop(self.starts.get_or_create(&ResultLabel { result: result.label() }));
        }
        for invariant in [Invariant::DiskIsTheRecord, Invariant::WorkerIsOurs, Invariant::WorkerStateIsKnown] {
            drop(self.violations.get_or_create(&NameLabel { name: invariant.label() }));
        }
        for outcome in [Deferred::Gone, Deferred::Stuck] {
            drop(self.deletes.get_or_create(&OutcomeLabel { outcome: outcome.label() }));
        }
    }
}

// === impl Stage ===

impl Stage {
    const ALL: [Self; 6] = [Self::Shape, Self::Fence, Self::Content, Self::Bind, Self::Load, Self::Agent];

    fn label(self) -> &'static str {
        match self {
            Self::Shape => "shape",
            Self::Fence => "fence",
            Self::Content => "content",
            Self::Bind => "bind",
            Self::Load => "load",
            Self::Agent => "agent",
        }
    }
}

// === impl Invariant ===

impl Invariant {
    fn label(self) -> &'static str {
        match self {
            Self::DiskIsTheRecord => "disk_is_the_record",
            Self::WorkerIsOurs => "worker_is_ours",
            Self::WorkerStateIsKnown => "worker_state_is_known",
        }
    }
}

// === impl Loaded ===

impl Loaded {
    fn label(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::Refused => "refused",
        }
    }
}

// === impl Deferred ===

impl Deferred {
    fn label(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Stuck => "stuck",
        }
    }
}

/// Every [`kind`].
const KINDS: [&str; 8] =
    ["socket", "timeout", "other_worker", "refused", "unframed", "unsafe_token", "file", "too_long"];

fn kind(error: &RuntimeError) -> &'static str {
    match error {
        RuntimeError::Socket { .. } => "socket",
        RuntimeError::Timeout { .. } => "timeout",
        RuntimeError::OtherWorker { .. } => "other_worker",
        RuntimeError::Refused { .. } => "refused",
        RuntimeError::Unframed { .. } => "unframed",
        // A port that is none is as little a token as a word with a line break.
        RuntimeError::UnsafeToken(_) | RuntimeError::Port(_) => "unsafe_token",
        RuntimeError::File { .. } => "file",
        RuntimeError::TooLong { .. } => "too_long",
    }
}

#[allow(clippy::cast_precision_loss, reason = "sizes and microseconds are far below 2^53")]
fn lossy(number: u64) -> f64 {
    number as f64
}
