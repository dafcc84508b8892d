//! The controller–agent messages, API version 1: what travels over `/v1/state`, `/v1/serving`, `/v1/apply` and
//! `/v1/plan`.
//!
//! What: the types and the framing of an apply body; with the feature `tls`, who is who under TLS; with the feature
//! `client`, a thin client over a unix socket or TLS. What not: no decision. The deployer (in `haptic-controller`) and
//! the agent call it.
//!
//! ```text
//! POST /v1/apply   u32 (big-endian) length of the manifest | manifest JSON | the parts, one after the other
//! ```
#![deny(missing_docs)]

mod body;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "tls")]
pub mod tls;

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use haptic_model::{Digest, FileKind, FilePath, Mode, Op, PlanId, Reason};
use serde::{Deserialize, Serialize};

pub use body::{ApplyBody, MalformedBody};
#[cfg(feature = "client")]
pub use client::{AgentAddress, AgentClient, ApplyError, ClientError, ClientTimeouts, HandshakeError};

/// The version of this API; another one is answered by a full set and a reload, never by a refusal.
pub const API_VERSION: u32 = 1;
/// Content type of an apply body.
pub const APPLY_CONTENT_TYPE: &str = "application/vnd.haptic.apply.v1";
/// Longest apply body, in bytes.
pub const MAX_BODY_BYTES: usize = 64 << 20;
/// How long an agent keeps a connection on which nothing is asked; a client lets go of it earlier.
pub const IDLE_LIMIT: Duration = Duration::from_secs(30);
/// An agent with this feature makes files from what it has and a [`FilePatch`].
pub const FEATURE_FILE_PATCH: &str = "file_patch";
/// Most files in one apply.
pub const MAX_FILES: usize = 4096;
/// Most operations in one apply; a diff with more asks for a reload instead.
pub const MAX_OPS: usize = 8000;

/// Who writes: a later leader has a greater epoch; within one term the sequence grows with every render.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Token {
    /// Fencing epoch of the leadership term.
    pub leader_epoch: u64,
    /// Number of the render within the term.
    pub render_seq: u64,
}

/// One HAProxy worker process. A pid alone is reused; pid and start time are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkerIdentity {
    /// Process id of the worker.
    pub pid: u32,
    /// Start time in clock ticks since boot, from `/proc/PID/stat`.
    pub start_ticks: u64,
}

/// The desired state, the fence and the operations that lead there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyManifest {
    /// [`API_VERSION`] of the sender.
    pub api_version: u32,
    /// Identity of the render.
    pub plan_id: PlanId,
    /// Fence: refused when its epoch is below what the agent has seen.
    pub token: Token,
    /// Fence: the plan the sender diffed against. `None` = no baseline; only mode `reload` may say so.
    pub expected_plan: Option<PlanId>,
    /// Fence: the worker the operations were made for. `None` = any; only mode `reload` may say so.
    pub expected_worker: Option<WorkerIdentity>,
    /// A plan that HAProxy's check passed: if it is the applied one, it becomes the last known good.
    #[serde(default)]
    pub validated_plan: Option<PlanId>,
    /// How to apply.
    pub mode: ApplyMode,
    /// The complete set, `haproxy.cfg` included; what is not named is removed.
    pub files: Vec<ManifestFile>,
    /// Paths whose content follows the manifest, in this order; every other file must be on the agent's disk.
    pub parts: Vec<FilePath>,
    /// Addresses that HAProxy will listen on after a reload; new ones are test-bound first.
    pub binds: Vec<BindAddress>,
    /// Operations of verdict `runtime`, in order.
    #[serde(default)]
    pub ops: Vec<Op>,
    /// The subset that may run while a reload is pending (DESIGN §2.3).
    #[serde(default)]
    pub in_place_ops: Vec<Op>,
    /// Why a reload is asked for; echoed into the state.
    #[serde(default)]
    pub reasons: Vec<Reason>,
    /// The least time between two reloads, in milliseconds: one that comes sooner is scheduled. `None` = as the agent was
    /// started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload_interval_ms: Option<u64>,
    /// What the sender's log calls the change, so that both logs can be read together. `None` = it has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<String>,
}

/// How an apply is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplyMode {
    /// Write the files and run the operations.
    Auto,
    /// Write the files and reload.
    Reload,
    /// Go back to the last known good set, if `plan_id` is applied and was not loaded by a reload.
    RevertLkg,
}

/// One file of the set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Path below the agent's base directory, and the name at run time.
    pub path: FilePath,
    /// SHA-256 of the content.
    pub digest: Digest,
    /// Length in bytes.
    pub size: u64,
    /// What HAProxy uses it for.
    pub kind: FileKind,
    /// Its part is not the content, but what differs from the content that the agent has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<FilePatch>,
}

/// Content that is made from what is on the agent's disk: its first `offset` bytes, the part, and what follows on the
/// `replaced` bytes after `offset`. Only for agents with [`FEATURE_FILE_PATCH`]; one whose file is another one asks for the
/// whole content ([`ConflictReason::Missing`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePatch {
    /// SHA-256 of the content that the agent has.
    pub base: Digest,
    /// Bytes before the difference.
    pub offset: u64,
    /// Bytes of the old content that the part stands for.
    pub replaced: u64,
    /// Length of the part in bytes.
    pub length: u64,
}

/// An address to listen on; `None` = all addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BindAddress {
    /// Literal address.
    pub address: Option<IpAddr>,
    /// TCP port.
    pub port: u16,
}

/// Answer of `GET /v1/state`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentState {
    /// [`API_VERSION`] of the agent.
    pub api_version: u32,
    /// Version of the agent's binary.
    pub agent_version: String,
    /// What the agent can do besides the API version's first form, e.g. [`FEATURE_FILE_PATCH`].
    #[serde(default)]
    pub features: Vec<String>,
    /// The HAProxy beside the agent; `None` while it does not answer.
    pub haproxy: Option<HaproxyState>,
    /// Greatest token that was accepted.
    pub token: Token,
    /// The plan whose files are on disk; `None` = unknown (bootstrap, or the tree differs from the record).
    pub applied_plan: Option<PlanId>,
    /// The plan that the running worker serves: equal to `applied_plan` unless a reload is pending.
    pub running_plan: Option<PlanId>,
    /// The plan that a restart or a failed reload goes back to.
    pub lkg_plan: Option<PlanId>,
    /// The stored plan document of `applied_plan` (`PUT /v1/plan`), unless the query says `plan=0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<serde_json::Value>,
    /// Files on disk.
    pub files: BTreeMap<FilePath, Digest>,
    /// What the running worker has loaded.
    pub inventory: Inventory,
    /// A reload waits for the pacing window.
    pub reload_pending: bool,
    /// Servers and backends that wait to be removable, as `backend/server` or `backend`.
    pub pending_deletes: Vec<String>,
    /// Reloads done since the agent started.
    pub reloads: u64,
    /// The last apply's outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_apply: Option<ApplyResult>,
}

/// Answer of `GET /v1/serving`: the few facts that tell whether a controller's picture of the pod still holds. Small
/// whatever the size of the set, so that it can be asked often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// See [`AgentState::applied_plan`].
    pub applied_plan: Option<PlanId>,
    /// See [`AgentState::running_plan`].
    pub running_plan: Option<PlanId>,
    /// The current worker; `None` while HAProxy does not answer.
    pub worker: Option<WorkerIdentity>,
    /// See [`AgentState::reload_pending`].
    pub reload_pending: bool,
}

/// The HAProxy process group beside the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HaproxyState {
    /// E.g. `3.2.26-1`.
    pub version: String,
    /// Major and minor number.
    pub minor: (u16, u16),
    /// The current worker.
    pub worker: WorkerIdentity,
}

/// What the running worker has loaded and can therefore change at run time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// From `show map`.
    pub maps: Vec<FilePath>,
    /// From `show ssl cert`.
    pub certificates: Vec<FilePath>,
    /// From `show ssl ca-file`.
    pub ca_files: Vec<FilePath>,
    /// From `show ssl crl-file`.
    pub crl_files: Vec<FilePath>,
    /// From `show ssl crt-list`.
    pub crt_lists: Vec<FilePath>,
}

/// Answer of `POST /v1/apply` when it was acted on (200, `ok` says how it went).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyResult {
    /// The desired state is on disk, and running unless `mode` is `scheduled`.
    pub ok: bool,
    /// What was done.
    pub mode: Mode,
    /// The plan this answer is about.
    pub plan_id: PlanId,
    /// Applied plan after this apply.
    pub applied_plan: Option<PlanId>,
    /// Running plan after this apply.
    pub running_plan: Option<PlanId>,
    /// Worker after this apply.
    pub worker: Option<WorkerIdentity>,
    /// Why it reloaded, the agent's own fallbacks included.
    #[serde(default)]
    pub reasons: Vec<Reason>,
    /// Operations that ran.
    pub ops_run: usize,
    /// What went wrong, in HAProxy's own words where it spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// After a failed reload the previous set was restored.
    #[serde(default)]
    pub rolled_back: bool,
    /// What the worker has loaded after this apply, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
    /// Durations of the steps.
    pub timing: Timing,
}

/// Durations of an apply, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Fence, stage and digests.
    pub stage_us: u64,
    /// Journal and renames.
    pub write_us: u64,
    /// Runtime commands.
    pub ops_us: u64,
    /// Reload.
    pub reload_us: u64,
}

/// Answer with status 409: nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// Which part of the fence did not hold.
    pub reason: ConflictReason,
    /// For a person.
    pub message: String,
    /// Files whose content the agent needs (`missing`).
    #[serde(default)]
    pub missing: Vec<FilePath>,
    /// The state to diff against again (without the plan document).
    pub state: Box<AgentState>,
}

/// Why an apply was refused by the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConflictReason {
    /// Another plan is applied: diff again.
    PrevMismatch,
    /// A later leader has written: stand down.
    StaleEpoch,
    /// The agent does not know what is applied: send the full set with mode `reload`.
    UnknownBaseline,
    /// Another worker runs: read the state and diff again.
    WorkerMismatch,
    /// Content of these files is neither in the body nor on disk.
    Missing,
}

/// Answer with status 400, 413 or 503.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What is wrong and what to do.
    pub error: String,
}
