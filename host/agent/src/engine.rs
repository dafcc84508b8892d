//! The one task that owns the tree, the record and the process: requests, the master's end, scheduled reloads and
//! waiting deletions are taken one after the other.

mod apply;
mod fence;
mod load;
mod recover;

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use haptic_haproxy::{
    process::{Exit, Launch, Master, ProcessIdentity, Running},
    runtime::{Deletion, DeletionState, LoadedFiles, RuntimeClient},
};
use haptic_model::{FilePath, PlanId};
use haptic_wire::{
    API_VERSION, AgentState, ApplyResult, BindAddress, FEATURE_FILE_PATCH, HaproxyState, Inventory, Serving,
    WorkerIdentity,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug, error, info_span, warn};

use crate::{
    AgentConfig, AgentError, ApplyRefusal, ApplyStep, Fault, FaultTarget, PlanStored, Request,
    metrics::{Deferred, Invariant},
    record::{Record, RecordFile},
    tree::{Tree, file_error},
};

/// First and longest pause between two tries of waiting deletions.
const DELETE_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));
/// First and longest pause between two starts of a HAProxy that does not start.
const START_PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// What processes of a dead master get before they are killed.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);

/// Does the agent's work. Run it, or the [`Agent`](crate::Agent) handle never answers.
pub struct AgentTask {
    config: AgentConfig,
    launch: Launch,
    master: Master,
    runtime: RuntimeClient,
    inbox: mpsc::Receiver<Request>,
    told: watch::Sender<Serving>,
    tree: Tree,
    record: Record,
    record_file: RecordFile,
    /// What runs, as last seen.
    running: Option<Running>,
    exit: Option<Exit>,
    /// A stop was asked for: the end of HAProxy is no accident.
    stopped: bool,
    inventory: Inventory,
    /// Where HAProxy listens, as far as an apply said; `None` = unknown.
    binds: Option<BTreeSet<BindAddress>>,
    /// Where it will listen after the scheduled reload.
    pending_binds: Vec<BindAddress>,
    deletions: Vec<Deletion>,
    delete_at: Option<Instant>,
    delete_pause: Duration,
    last_load: Option<Instant>,
    load_at: Option<Instant>,
    start_at: Option<Instant>,
    start_pause: Duration,
    reloads: u64,
    last_apply: Option<ApplyResult>,
}

/// What woke the task.
enum Wake {
    Request(Option<Request>),
    MasterEnded,
    Load,
    Delete,
    Start,
    Shutdown,
}

// === impl AgentTask ===

impl AgentTask {
    pub(crate) async fn open(
        config: AgentConfig,
        inbox: mpsc::Receiver<Request>,
        told: watch::Sender<Serving>,
    ) -> Result<Self, AgentError> {
        for directory in [&config.base_dir, &config.state_dir, &config.state_dir.join("plans")] {
            std::fs::create_dir_all(directory).map_err(file_error("make", directory))?;
        }
        let launch = Launch {
            binary: config.haproxy.path.clone(),
            config: config.base_dir.join(haptic_model::CONFIG_PATH),
            run_dir: config.run_dir.clone(),
            start_timeout: config.start_timeout,
        };
        let record_file = RecordFile::new(&config.state_dir);
        let record = record_file.read()?.unwrap_or_default();
        let mut tree = Tree::open(&config.base_dir)?;
        tree.sweep_backups(&record)?;
        let mut task = Self {
            master: Master::new(&launch.master_socket(), config.reload_timeout),
            runtime: RuntimeClient::new(&launch.worker_socket(), config.haproxy.minor, config.runtime_timeout),
            launch,
            inbox,
            told,
            tree,
            record,
            record_file,
            running: None,
            exit: None,
            stopped: false,
            inventory: Inventory::default(),
            binds: None,
            pending_binds: Vec::new(),
            deletions: Vec::new(),
            delete_at: None,
            delete_pause: DELETE_PAUSE.0,
            last_load: None,
            load_at: None,
            start_at: None,
            start_pause: START_PAUSE.0,
            reloads: 0,
            last_apply: None,
            config,
        };
        task.recover().await?;
        Ok(task)
    }

    /// Works until `shutdown`, until every handle is gone, or until something that no request can be blamed for fails.
    /// HAProxy is left running.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), AgentError> {
        loop {
            let wake = self.wake(&shutdown).await;
            let outcome = match wake {
                Wake::Shutdown | Wake::Request(None) => return Ok(()),
                Wake::Request(Some(request)) => self.answer(request).await,
                Wake::MasterEnded => self.on_master_end().await,
                Wake::Load => self.load_scheduled().await,
                Wake::Delete => {
                    // Deletions end with their worker. Not under an apply, whose fence has named the worker.
                    self.observe_worker().await;
                    self.delete_round().await;
                    Ok(())
                }
                Wake::Start => self.start_again().await,
            };
            // Whoever waited has its answer.
            if let Err(error) = outcome.and_then(|()| self.tree.delete_forgotten()) {
                error!(%error, "the agent stops");
                return Err(error);
            }
        }
    }

    async fn wake(&mut self, shutdown: &CancellationToken) -> Wake {
        let (exit, load_at, delete_at, start_at) = (&self.exit, self.load_at, self.delete_at, self.start_at);
        let ended = async {
            match exit {
                Some(exit) => exit.wait().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => Wake::Shutdown,
            () = ended => Wake::MasterEnded,
            () = at(load_at) => Wake::Load,
            request = self.inbox.recv() => Wake::Request(request),
            () = at(delete_at) => Wake::Delete,
            () = at(start_at) => Wake::Start,
        }
    }

    /// A caller that no longer waits for its answer is no error.
    async fn answer(&mut self, request: Request) -> Result<(), AgentError> {
        match request {
            Request::State { with_plan, verify, reply } => {
                if verify {
                    self.verify().await?;
                }
                let _ = reply.send(self.state(with_plan));
            }
            Request::Serving { reply } => {
                let _ = reply.send(self.serving());
            }
            Request::Apply { body, reply } => {
                let asked = apply::Asked::of(&body);
                let span = info_span!("apply", correlation = asked.correlation());
                let outcome = match self.apply(*body).instrument(span).await {
                    Err(apply::Failure::Agent(error @ AgentError::Crashed)) => return Err(error),
                    Err(apply::Failure::Agent(error)) => Err(ApplyRefusal::Unavailable(with_causes(&error))),
                    Err(apply::Failure::Refused(refusal)) => Err(refusal),
                    Ok(result) => {
                        self.last_apply = Some(result.clone());
                        Ok(result)
                    }
                };
                self.tell_outcome(&asked, &outcome);
                let _ = reply.send(outcome);
            }
            Request::PutPlan { plan_id, document, reply } => {
                let _ = reply.send(self.put_plan(plan_id, &document));
            }
            Request::StopHaproxy { drain, reply } => {
                self.stopped = true;
                self.exit = None;
                self.start_at = None;
                let outcome = self.launch.stop(drain).await;
                self.set_running(None);
                let _ = reply.send(outcome);
            }
        }
        Ok(())
    }

    fn serving(&self) -> Serving {
        Serving {
            applied_plan: self.record.applied.map(|set| set.plan),
            running_plan: self.record.running.filter(|_| self.running.is_some()),
            worker: self.running.map(|running| identity(running.worker)),
            reload_pending: self.record.reload_pending,
        }
    }

    fn state(&self, with_plan: bool) -> AgentState {
        let haproxy = self.running.map(|running| HaproxyState {
            version: self.config.haproxy.version.clone(),
            minor: (self.config.haproxy.minor.major, self.config.haproxy.minor.minor),
            worker: identity(running.worker),
        });
        let plan = self.record.applied.filter(|_| with_plan).and_then(|applied| self.stored_plan(applied.plan));
        AgentState {
            api_version: API_VERSION,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            features: vec![FEATURE_FILE_PATCH.to_owned()],
            haproxy,
            token: self.record.token,
            applied_plan: self.record.applied.map(|set| set.plan),
            running_plan: self.record.running.filter(|_| self.running.is_some()),
            lkg_plan: self.record.lkg.map(|set| set.plan),
            plan,
            files: self.tree.files.clone(),
            inventory: self.inventory.clone(),
            reload_pending: self.record.reload_pending,
            pending_deletes: self.deletions.iter().map(ToString::to_string).collect(),
            reloads: self.reloads,
            last_apply: self.last_apply.clone(),
        }
    }

    /// Hashes the tree and asks the worker; what differs from the record becomes unknown.
    async fn verify(&mut self) -> Result<(), AgentError> {
        self.tree.files = self.tree.hash()?;
        let digest = self.tree.digest();
        if self.record.applied.is_some_and(|applied| applied.tree != digest) {
            warn!("the file tree differs from the record; the applied plan is unknown");
            self.config.metrics.violated(Invariant::DiskIsTheRecord);
            self.record.applied = None;
            self.save()?;
        }
        self.observe_worker().await;
        self.refresh_inventory().await;
        Ok(())
    }

    fn stored_plan(&self, plan: PlanId) -> Option<serde_json::Value> {
        let text = std::fs::read(self.plan_path(plan)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn put_plan(&self, plan: PlanId, document: &[u8]) -> Result<PlanStored, AgentError> {
        let applied = self.record.applied.map(|set| set.plan);
        if applied != Some(plan) {
            return Ok(PlanStored::MovedOn(applied));
        }
        let path = self.plan_path(plan);
        let fresh = path.with_extension("new");
        std::fs::write(&fresh, document).map_err(file_error("write", &fresh))?;
        std::fs::rename(&fresh, &path).map_err(file_error("write", &path))?;
        self.drop_old_plans()?;
        Ok(PlanStored::Stored)
    }

    /// Keeps the documents of the plans that may still become the applied one.
    fn drop_old_plans(&self) -> Result<(), AgentError> {
        let kept: Vec<PathBuf> = [self.record.applied, self.record.lkg, self.record.undo.base]
            .into_iter()
            .flatten()
            .map(|set| self.plan_path(set.plan))
            .collect();
        let directory = self.config.state_dir.join("plans");
        for entry in std::fs::read_dir(&directory).map_err(file_error("list", &directory))? {
            let path = entry.map_err(file_error("list", &directory))?.path();
            if !kept.contains(&path) {
                std::fs::remove_file(&path).map_err(file_error("remove", &path))?;
            }
        }
        Ok(())
    }

    fn plan_path(&self, plan: PlanId) -> PathBuf {
        self.config.state_dir.join("plans").join(format!("{plan}.json"))
    }

    /// Tries what waits to be deleted, all in one batch.
    async fn delete_round(&mut self) {
        self.delete_at = None;
        if self.deletions.is_empty() {
            return;
        }
        match self.runtime.try_delete(&self.deletions).await {
            Ok(states) => {
                let mut states = states.into_iter();
                let metrics = &self.config.metrics;
                self.deletions.retain(|deletion| match states.next() {
                    Some(DeletionState::Gone) => {
                        metrics.deleted(Deferred::Gone);
                        false
                    }
                    Some(DeletionState::Stuck) => {
                        metrics.deleted(Deferred::Stuck);
                        warn!(%deletion, "HAProxy keeps this until the next reload: its configuration refers to it");
                        false
                    }
                    Some(DeletionState::Waiting) | None => true,
                });
            }
            Err(error) => debug!(%error, "could not try the waiting deletions"),
        }
        self.config.metrics.waiting_deletes(self.deletions.len());
        if !self.deletions.is_empty() {
            self.delete_at = Some(Instant::now() + self.delete_pause);
            self.delete_pause = (self.delete_pause * 2).min(DELETE_PAUSE.1);
        }
    }

    fn defer(&mut self, deletions: Vec<Deletion>) {
        if !deletions.is_empty() {
            self.deletions.extend(deletions);
            self.config.metrics.waiting_deletes(self.deletions.len());
            self.delete_pause = DELETE_PAUSE.0;
            self.delete_at = Some(Instant::now() + self.delete_pause);
        }
    }

    /// Looks which worker answers. One that the agent did not load was loaded by someone else from the same disk.
    async fn observe_worker(&mut self) -> Option<WorkerIdentity> {
        let seen = self.runtime.worker_pid().await.ok();
        self.judge_worker(seen).await
    }

    /// Who answered at the runtime socket, `seen`, as a worker of ours.
    async fn judge_worker(&mut self, seen: Option<u32>) -> Option<WorkerIdentity> {
        let known = self.running?;
        let seen = seen.and_then(ProcessIdentity::of);
        if seen == Some(known.worker) {
            return Some(identity(known.worker));
        }
        if seen.is_none() {
            if !known.master.is_alive() {
                self.set_running(None);
                // Nobody waits for the master's end any more.
                self.start_at = Some(Instant::now());
            }
            return None;
        }
        // Right after a reload the old worker may still answer, so the master has the last word.
        let now = self.launch.adopt().await?;
        if now.worker != known.worker {
            warn!(worker = now.worker.pid, "another worker runs than the one that was loaded last");
            self.config.metrics.violated(Invariant::WorkerIsOurs);
            self.set_running(Some(now));
            self.record.worker = Some(identity(now.worker));
            self.refresh_inventory().await;
        }
        Some(identity(now.worker))
    }

    /// Everything that is bound to a worker ends with it.
    fn set_running(&mut self, running: Option<Running>) {
        if self.running.map(|before| before.worker) != running.map(|now| now.worker) {
            self.deletions.clear();
            self.config.metrics.waiting_deletes(0);
            self.delete_at = None;
        }
        if self.running.map(|before| before.master) != running.map(|now| now.master) || self.exit.is_none() {
            self.exit = running.map(|running| Exit::watch(running.master));
        }
        if running.is_none() {
            self.inventory = Inventory::default();
            self.binds = None;
        }
        self.runtime.bind_to(running.map(|running| running.worker.pid));
        self.running = running;
        self.tell();
    }

    /// What is not known is not there: an operation on it would be refused, and a reload asked for instead.
    async fn refresh_inventory(&mut self) {
        match self.runtime.loaded_files().await {
            Ok(loaded) => self.inventory = inventory(loaded),
            Err(error) => {
                warn!(%error, "could not list what the worker has loaded");
                self.inventory = Inventory::default();
            }
        }
    }

    fn at(&self, step: ApplyStep) -> Result<(), AgentError> {
        let Some(hook) = &self.config.fault_hook else { return Ok(()) };
        match hook.at(step, FaultTarget { running: self.running }) {
            Fault::Continue => Ok(()),
            Fault::Crash => Err(AgentError::Crashed),
        }
    }

    fn save(&mut self) -> Result<(), AgentError> {
        self.record_file.write(&mut self.record)?;
        self.tell();
        Ok(())
    }

    /// For who must not wait behind a reload.
    fn tell(&self) {
        let serving = self.serving();
        let epoch = self.record.token.leader_epoch;
        self.config.metrics.stands(serving.worker.is_some(), serving.reload_pending, epoch);
        self.told.send_if_modified(|told| std::mem::replace(told, serving) != serving);
    }

    /// The master ended, and with it its workers. Starts HAProxy again from the last known good set.
    async fn on_master_end(&mut self) -> Result<(), AgentError> {
        warn!("HAProxy's master has ended; starting it again");
        self.set_running(None);
        if let Err(error) = self.launch.kill_leftovers(LEFTOVER_GRACE).await {
            warn!(%error, "could not end what the master left");
        }
        self.start_again().await
    }

    async fn start_again(&mut self) -> Result<(), AgentError> {
        self.start_at = None;
        if self.stopped || self.running.is_some() {
            return Ok(());
        }
        match self.start_from_lkg().await? {
            Ok(()) => self.start_pause = START_PAUSE.0,
            Err(words) => {
                error!(%words, retry_in = ?self.start_pause, "HAProxy does not start");
                self.start_at = Some(Instant::now() + self.start_pause);
                self.start_pause = (self.start_pause * 2).min(START_PAUSE.1);
            }
        }
        Ok(())
    }

    fn has_config(&self) -> bool {
        self.tree.files.contains_key(haptic_model::CONFIG_PATH)
    }
}

impl std::fmt::Debug for AgentTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentTask")
            .field("record", &self.record)
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

pub(crate) fn identity(process: ProcessIdentity) -> WorkerIdentity {
    WorkerIdentity { pid: process.pid, start_ticks: process.start_ticks }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

fn inventory(loaded: LoadedFiles) -> Inventory {
    let sorted = |mut paths: Vec<FilePath>| {
        paths.sort();
        paths.dedup();
        paths
    };
    Inventory {
        maps: sorted(loaded.maps),
        certificates: sorted(loaded.certificates),
        ca_files: sorted(loaded.ca_files),
        crl_files: sorted(loaded.crl_files),
        crt_lists: sorted(loaded.crt_lists),
    }
}

/// An error with its causes on one line, since what leaves the process has no error chain.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
