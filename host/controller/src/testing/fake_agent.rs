//! An agent that keeps the fence of the real one and in which faults can be put where a real one would have to be
//! broken. It writes no file and runs no HAProxy: what an apply does to traffic is proved with the real agent.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use haptic_model::{Mode, Plan, PlanId};
use haptic_wire::{
    API_VERSION, AgentState, ApplyManifest, ApplyMode, ApplyResult, Conflict, ConflictReason, FEATURE_FILE_PATCH,
    HaproxyState, Inventory, Serving, Timing, Token, WorkerIdentity,
};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use crate::agent_port::{Agent, AgentError, ApplyAnswer, BoxFuture, Connect, PlanDocument, PlanStored};

/// What goes wrong with the next apply.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The request does not arrive.
    Unreachable,
    /// The apply is done, but its answer is lost.
    LoseAnswer,
    /// HAProxy refuses to load the set; the agent goes back.
    RefuseReload(&'static str),
    /// Another plan got there first.
    Moved(PlanId),
    /// The agent has lost the content of its files.
    MissFiles,
    /// A later leader has written.
    LaterLeader,
    /// The reload waits for the pacing window.
    Schedule,
}

#[derive(Clone)]
pub(crate) struct FakeAgent {
    inner: Arc<Mutex<Inner>>,
    /// An apply takes a permit; a test that takes them all holds the agent up.
    pub(crate) gate: Arc<Semaphore>,
    applies: watch::Sender<Vec<ApplyManifest>>,
}

/// How it answers questions about its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answering {
    Normally,
    /// The connection is refused.
    Refusing,
    /// The question is taken and never answered.
    Never,
}

struct Inner {
    answering: Answering,
    questions: usize,
    waiting: usize,
    state: AgentState,
    document: Option<Arc<Plan>>,
    faults: VecDeque<Fault>,
}

#[derive(Debug, thiserror::Error)]
#[error("connection refused")]
struct Refused;

// === impl FakeAgent ===

impl FakeAgent {
    pub(crate) fn new() -> Self {
        let state = AgentState {
            features: vec![FEATURE_FILE_PATCH.to_owned()],
            api_version: API_VERSION,
            agent_version: "0".to_owned(),
            haproxy: Some(HaproxyState {
                version: "3.2.26".to_owned(),
                minor: (3, 2),
                worker: WorkerIdentity { pid: 10, start_ticks: 1 },
            }),
            token: Token::default(),
            applied_plan: None,
            running_plan: None,
            lkg_plan: None,
            plan: None,
            files: BTreeMap::new(),
            inventory: Inventory::default(),
            reload_pending: false,
            pending_deletes: Vec::new(),
            reloads: 0,
            last_apply: None,
        };
        Self {
            inner: Arc::new(Mutex::new(Inner {
                answering: Answering::Normally,
                questions: 0,
                waiting: 0,
                state,
                document: None,
                faults: VecDeque::new(),
            })),
            gate: Arc::new(Semaphore::new(1)),
            applies: watch::Sender::new(Vec::new()),
        }
    }

    /// All pods of a test have this agent.
    pub(crate) fn connect(&self) -> Connect {
        let agent = self.clone();
        Arc::new(move |_| Arc::new(agent.clone()) as Arc<dyn Agent>)
    }

    pub(crate) fn fail_next(&self, fault: Fault) {
        self.inner.lock().faults.push_back(fault);
    }

    pub(crate) fn answer(&self, answering: Answering) {
        self.inner.lock().answering = answering;
    }

    /// Changes what it says of itself.
    pub(crate) fn alter(&self, change: impl FnOnce(&mut AgentState)) {
        change(&mut self.inner.lock().state);
    }

    /// How often its state was asked for.
    pub(crate) fn questions(&self) -> usize {
        self.inner.lock().questions
    }

    /// How many applies are held up.
    pub(crate) fn waiting(&self) -> usize {
        self.inner.lock().waiting
    }

    /// Every manifest that arrived, oldest first.
    pub(crate) fn applies(&self) -> Vec<ApplyManifest> {
        self.applies.borrow().clone()
    }

    /// Waits until `count` manifests have arrived.
    pub(crate) async fn applied(&self, count: usize) -> Vec<ApplyManifest> {
        let mut applies = self.applies.subscribe();
        let enough = applies.wait_for(|applies| applies.len() >= count);
        let waited = tokio::time::timeout(std::time::Duration::from_mins(5), enough).await;
        waited.expect("the applies in time").expect("the agent lives").clone()
    }

    pub(crate) fn state_now(&self) -> AgentState {
        self.inner.lock().state.clone()
    }

    pub(crate) fn document(&self) -> Option<PlanId> {
        self.inner.lock().document.as_ref().map(|plan| plan.id)
    }

    /// The pacing window ends and the scheduled reload loads what is on disk.
    /// As after the death of HAProxy: another worker serves the last known good plan.
    pub(crate) fn fall_back(&self, plan: PlanId) {
        let mut inner = self.inner.lock();
        inner.state.applied_plan = Some(plan);
        inner.state.running_plan = Some(plan);
        inner.state.reload_pending = false;
        if let Some(haproxy) = &mut inner.state.haproxy {
            haproxy.worker.pid += 1;
        }
    }

    pub(crate) fn reload_now(&self) {
        let mut inner = self.inner.lock();
        inner.state.running_plan = inner.state.applied_plan;
        inner.state.reload_pending = false;
        inner.state.reloads += 1;
    }

    fn error() -> AgentError {
        AgentError { doing: "asking", pod: "fake".into(), source: Arc::new(Refused) }
    }
}

impl Agent for FakeAgent {
    fn state(&self, document: PlanDocument) -> BoxFuture<'_, Result<AgentState, AgentError>> {
        Box::pin(async move {
            let answering = {
                let mut inner = self.inner.lock();
                inner.questions += 1;
                inner.answering
            };
            match answering {
                Answering::Normally => {}
                Answering::Refusing => return Err(Self::error()),
                Answering::Never => std::future::pending().await,
            }
            let inner = self.inner.lock();
            let mut state = inner.state.clone();
            if document == PlanDocument::With {
                state.plan = inner.document.as_ref().and_then(|plan| serde_json::to_value(&**plan).ok());
            }
            Ok(state)
        })
    }

    fn serving(&self) -> BoxFuture<'_, Result<Serving, AgentError>> {
        Box::pin(async move {
            let state = &self.inner.lock().state;
            Ok(Serving {
                applied_plan: state.applied_plan,
                running_plan: state.running_plan,
                worker: state.haproxy.as_ref().map(|haproxy| haproxy.worker),
                reload_pending: state.reload_pending,
            })
        })
    }

    fn apply(&self, manifest: ApplyManifest, parts: Vec<Bytes>) -> BoxFuture<'_, Result<ApplyAnswer, AgentError>> {
        Box::pin(async move {
            self.inner.lock().waiting += 1;
            let _permit = self.gate.acquire().await.expect("never closed");
            let mut inner = self.inner.lock();
            inner.waiting -= 1;
            let fault = inner.faults.pop_front();
            self.applies.send_modify(|applies| applies.push(manifest.clone()));
            match fault {
                Some(Fault::Unreachable) => return Err(Self::error()),
                Some(Fault::Moved(plan)) => inner.state.applied_plan = Some(plan),
                Some(Fault::MissFiles) => inner.state.files.clear(),
                Some(Fault::LaterLeader) => inner.state.token.leader_epoch = u64::MAX,
                _ => {}
            }
            if let Some(conflict) = inner.fence(&manifest) {
                return Ok(ApplyAnswer::Conflict(Box::new(conflict)));
            }
            assert_eq!(parts.len(), manifest.parts.len(), "every part has its content");
            let result = inner.act(&manifest, fault.as_ref());
            if matches!(fault, Some(Fault::LoseAnswer)) {
                Err(Self::error())
            } else {
                Ok(ApplyAnswer::Acted(Box::new(result)))
            }
        })
    }

    fn put_plan(&self, plan: Arc<Plan>) -> BoxFuture<'_, Result<PlanStored, AgentError>> {
        Box::pin(async move {
            let mut inner = self.inner.lock();
            if inner.state.applied_plan != Some(plan.id) {
                return Ok(PlanStored::MovedOn);
            }
            inner.document = Some(plan);
            Ok(PlanStored::Stored)
        })
    }
}

// === impl Inner ===

impl Inner {
    fn fence(&self, manifest: &ApplyManifest) -> Option<Conflict> {
        let state = &self.state;
        let conflict = |reason, missing| {
            let message = format!("{reason:?}");
            Some(Conflict { reason, message, missing, state: Box::new(state.clone()) })
        };
        if manifest.token.leader_epoch < state.token.leader_epoch {
            return conflict(ConflictReason::StaleEpoch, Vec::new());
        }
        if manifest.expected_plan.is_some() && manifest.expected_plan != state.applied_plan {
            return conflict(ConflictReason::PrevMismatch, Vec::new());
        }
        if manifest.expected_plan.is_none() && manifest.mode != ApplyMode::Reload {
            return conflict(ConflictReason::UnknownBaseline, Vec::new());
        }
        let worker = state.haproxy.as_ref().map(|haproxy| haproxy.worker);
        if manifest.expected_worker.is_some() && manifest.expected_worker != worker {
            return conflict(ConflictReason::WorkerMismatch, Vec::new());
        }
        let there = |path, digest| manifest.parts.contains(path) || state.files.get(path) == Some(digest);
        let absent = manifest.files.iter().filter(|file| !there(&file.path, &file.digest));
        let missing: Vec<_> = absent.map(|file| file.path.clone()).collect();
        if missing.is_empty() { None } else { conflict(ConflictReason::Missing, missing) }
    }

    fn act(&mut self, manifest: &ApplyManifest, fault: Option<&Fault>) -> ApplyResult {
        let state = &mut self.state;
        state.token = manifest.token;
        if manifest.validated_plan.is_some() && manifest.validated_plan == state.applied_plan {
            state.lkg_plan = state.applied_plan;
        }
        let before = (state.applied_plan, state.files.clone());
        state.applied_plan = Some(manifest.plan_id);
        state.files = manifest.files.iter().map(|file| (file.path.clone(), file.digest)).collect();
        let (mut mode, mut error) = (Mode::Runtime, None);
        match (manifest.mode, fault) {
            (ApplyMode::RevertLkg, _) => {
                state.applied_plan = state.lkg_plan;
                state.running_plan = state.lkg_plan;
                mode = Mode::Reload;
            }
            (ApplyMode::Reload, Some(Fault::RefuseReload(words))) => {
                (state.applied_plan, state.files) = before;
                error = Some((*words).to_owned());
                mode = Mode::Reload;
            }
            (ApplyMode::Reload, Some(Fault::Schedule)) => {
                state.reload_pending = true;
                mode = Mode::Scheduled;
            }
            (ApplyMode::Reload, _) => {
                state.running_plan = state.applied_plan;
                state.lkg_plan = state.applied_plan;
                state.reloads += 1;
                if let Some(haproxy) = &mut state.haproxy {
                    haproxy.worker.pid += 1;
                }
                mode = Mode::Reload;
            }
            (ApplyMode::Auto, _) => state.running_plan = state.applied_plan,
        }
        let result = ApplyResult {
            ok: error.is_none(),
            mode,
            plan_id: manifest.plan_id,
            applied_plan: state.applied_plan,
            running_plan: state.running_plan,
            worker: state.haproxy.as_ref().map(|haproxy| haproxy.worker),
            reasons: manifest.reasons.clone(),
            ops_run: manifest.ops.len(),
            rolled_back: error.is_some(),
            error,
            inventory: None,
            timing: Timing::default(),
        };
        state.last_apply = Some(result.clone());
        result
    }
}
