//! One apply, in the order that every crash can be recovered from.

use std::{
    sync::Arc,
    time::{Duration, Instant as Clock},
};

use bytes::Bytes;
use haptic_haproxy::{process::test_bind, runtime::Deletion};
use haptic_model::{CONFIG_PATH, Mode, Op, PlanId, Reason, ReasonCode};
use haptic_wire::{
    API_VERSION, ApplyBody, ApplyManifest, ApplyMode, ApplyResult, BindAddress, ConflictReason, Timing, Token,
};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::{
    AgentError, ApplyRefusal, ApplyStep,
    engine::{AgentTask, fence::check_shape, identity, with_causes},
    metrics::Stage,
    record::{KnownSet, Step},
    tree::{Changes, Unfit},
};

/// What one apply was about, for who counts and logs it.
pub(crate) struct Asked {
    plan: PlanId,
    token: Token,
    correlation: Option<Arc<str>>,
    files: usize,
    file_bytes: u64,
}

/// Most letters of a correlation in a log line.
const LONGEST_CORRELATION: usize = 64;

/// Why an apply has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    Refused(ApplyRefusal),
    Agent(AgentError),
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        Self::Agent(error)
    }
}

impl From<ApplyRefusal> for Failure {
    fn from(refusal: ApplyRefusal) -> Self {
        Self::Refused(refusal)
    }
}

// === impl Asked ===

impl Asked {
    pub(crate) fn of(body: &ApplyBody) -> Self {
        let manifest = &body.manifest;
        Self {
            plan: manifest.plan_id,
            token: manifest.token,
            correlation: manifest.correlation.as_deref().map(shown),
            files: manifest.files.len(),
            file_bytes: manifest.files.iter().map(|file| file.size).sum(),
        }
    }

    /// What the controller's log calls the change.
    pub(crate) fn correlation(&self) -> Option<&str> {
        self.correlation.as_deref()
    }
}

// === impl AgentTask ===

impl AgentTask {
    pub(crate) async fn apply(&mut self, body: ApplyBody) -> Result<ApplyResult, Failure> {
        let started = Clock::now();
        let ApplyBody { manifest, parts } = body;
        self.config.metrics.asked(&manifest, parts.values().map(Bytes::len).sum());
        check_shape(&manifest).map_err(ApplyRefusal::Invalid)?;
        let mode = effective_mode(&manifest);
        self.promote(&manifest)?;
        self.fence(&manifest, mode)?;
        if mode == ApplyMode::RevertLkg {
            return self.revert_to_lkg(&manifest).await;
        }

        // The worker is asked who it is while the new content is put together and proved; nothing is written before both
        // are done.
        let asked = (mode == ApplyMode::Auto && self.running.is_some()).then(|| {
            let runtime = self.runtime.clone();
            tokio::spawn(async move { runtime.worker_pid().await })
        });
        let compared = self.tree.compare(&manifest.files, &parts);
        if mode == ApplyMode::Auto {
            let seen = match asked {
                Some(asked) => asked.await.ok().and_then(Result::ok),
                None => None,
            };
            self.fence_worker(&manifest, seen).await?;
        }
        let changes = match compared {
            Ok(changes) => changes,
            Err(Unfit::Digest(path)) => {
                return Err(ApplyRefusal::Invalid(format!("part `{path}` does not have its digest")).into());
            }
            Err(Unfit::Missing(missing)) => {
                let message = format!("the content of {} files is missing", missing.len());
                return Err(self.conflict_missing(ConflictReason::Missing, message, missing).into());
            }
        };
        let target = KnownSet { plan: manifest.plan_id, tree: changes.resulting_digest(&self.tree.files) };
        let mut result = self.result(&manifest);
        // A pending reload goes first: what this apply would run was made for a worker that will be replaced.
        let wants_load = mode == ApplyMode::Reload || self.record.reload_pending || self.running.is_none();
        if wants_load && let Err(error) = self.test_binds(&manifest.binds) {
            self.config.metrics.rejected(Stage::Bind);
            result.error = Some(error);
            return Ok(result);
        }
        self.tree.stage(&changes)?;
        result.timing.stage_us = micros(started);
        self.at(ApplyStep::Staged)?;

        let writing = Clock::now();
        if let Err(error) = self.write(&manifest, &changes, target) {
            if !matches!(error, AgentError::Crashed) {
                warn!(%error, "could not write the set; putting the previous one back");
                self.put_back().map_err(Failure::Agent)?;
            }
            return Err(error.into());
        }
        result.timing.write_us = micros(writing);

        if wants_load {
            self.load_or_schedule(&manifest, target, result).await
        } else {
            self.run_ops(&manifest, &changes, target, result).await
        }
    }

    /// Journal, then renames with the configuration last.
    fn write(&mut self, manifest: &ApplyManifest, changes: &Changes, target: KnownSet) -> Result<(), AgentError> {
        self.record.token = self.record.token.max(manifest.token);
        if self.record.undo.is_empty() {
            self.record.undo.base = self.record.applied;
        }
        let mut undo = std::mem::take(&mut self.record.undo);
        let backed_up = self.tree.back_up(changes, &mut undo);
        self.record.undo = undo;
        backed_up?;
        self.record.step = Step::Writing { target };
        self.save()?;
        self.at(ApplyStep::Journaled)?;
        for (number, written) in changes.written.iter().enumerate() {
            if written.path.as_str() == CONFIG_PATH {
                continue;
            }
            self.tree.put(number, written)?;
            self.at(ApplyStep::FileRenamed)?;
        }
        for path in &changes.removed {
            self.tree.remove(path)?;
            self.at(ApplyStep::FileRenamed)?;
        }
        // The configuration sorts last.
        if let Some((number, written)) = changes.written.iter().enumerate().next_back()
            && written.path.as_str() == CONFIG_PATH
        {
            self.tree.put(number, written)?;
        }
        self.at(ApplyStep::ConfigRenamed)
    }

    async fn run_ops(
        &mut self,
        manifest: &ApplyManifest,
        changes: &Changes,
        target: KnownSet,
        mut result: ApplyResult,
    ) -> Result<ApplyResult, Failure> {
        if manifest.ops.is_empty() {
            self.commit_runtime(target)?;
            result.mode = if changes.is_empty() { Mode::Noop } else { Mode::FileOnly };
            return Ok(self.finish(result, true));
        }
        self.make_room(&manifest.ops).await;
        self.at(ApplyStep::OpsRunning)?;
        let running = Clock::now();
        let executed = self.runtime.execute(&manifest.ops, self.tree.base()).await;
        result.timing.ops_us = micros(running);
        match executed {
            Ok(executed) => {
                self.config.metrics.ran(&manifest.ops);
                self.commit_runtime(target)?;
                self.defer(executed.deferred);
                if manifest.ops.iter().any(changes_inventory) {
                    self.refresh_inventory().await;
                    result.inventory = Some(self.inventory.clone());
                }
                result.mode = Mode::Runtime;
                result.ops_run = executed.ops;
                Ok(self.finish(result, true))
            }
            Err(error) => {
                self.config.metrics.op_failed(&error);
                // The worker may have half of the change, so the pacing window does not hold this reload back.
                let message = format!("the worker did not take the change at run time: {}", with_causes(&error));
                warn!(%message, "falling back to a reload");
                result.reasons.push(Reason::new(ReasonCode::RuntimeRefused, message));
                self.record.worker_ahead = true;
                if let Err(error) = self.test_binds(&manifest.binds) {
                    self.config.metrics.rejected(Stage::Bind);
                    self.roll_back().await?;
                    result.error = Some(error);
                    result.rolled_back = true;
                    return Ok(self.finish(result, false));
                }
                self.load_now(manifest, target, result).await
            }
        }
    }

    async fn load_or_schedule(
        &mut self,
        manifest: &ApplyManifest,
        target: KnownSet,
        result: ApplyResult,
    ) -> Result<ApplyResult, Failure> {
        let interval = manifest.reload_interval_ms.map_or(self.config.reload_interval_min, Duration::from_millis);
        // One that no clock reaches is none that anybody meant.
        let due = self.last_load.and_then(|last| last.checked_add(interval));
        match due.filter(|due| self.running.is_some() && *due > Instant::now()) {
            None => self.load_now(manifest, target, result).await,
            Some(due) => self.schedule(manifest, target, result, due).await,
        }
    }

    async fn load_now(
        &mut self,
        manifest: &ApplyManifest,
        target: KnownSet,
        mut result: ApplyResult,
    ) -> Result<ApplyResult, Failure> {
        let loading = Clock::now();
        let loaded = self.load().await?;
        result.timing.reload_us = micros(loading);
        match loaded {
            Ok(()) => {
                self.binds = Some(manifest.binds.iter().cloned().collect());
                self.commit_loaded(Some(target))?;
                result.mode = Mode::Reload;
                result.inventory = Some(self.inventory.clone());
                Ok(self.finish(result, true))
            }
            Err(words) => {
                warn!(%words, "putting the previous set back");
                self.config.metrics.rejected(Stage::Load);
                self.roll_back().await?;
                result.error = Some(words);
                result.rolled_back = true;
                result.inventory = Some(self.inventory.clone());
                Ok(self.finish(result, false))
            }
        }
    }

    /// The files are in place; the reload follows when the window ends. What may run meanwhile, runs.
    async fn schedule(
        &mut self,
        manifest: &ApplyManifest,
        target: KnownSet,
        mut result: ApplyResult,
        due: Instant,
    ) -> Result<ApplyResult, Failure> {
        let same_worker = manifest.expected_worker.is_some()
            && manifest.expected_worker == self.running.map(|running| identity(running.worker));
        let in_place: &[Op] = if same_worker { &manifest.in_place_ops } else { &[] };
        self.record.applied = Some(target);
        self.record.reload_pending = true;
        self.record.worker_ahead |= !in_place.is_empty();
        self.record.step = Step::Idle;
        self.save()?;
        self.load_at = Some(self.load_at.map_or(due, |earlier| earlier.min(due)));
        self.pending_binds.clone_from(&manifest.binds);
        if !in_place.is_empty() {
            self.at(ApplyStep::OpsRunning)?;
            let running = Clock::now();
            match self.runtime.execute(in_place, self.tree.base()).await {
                Ok(executed) => {
                    self.config.metrics.ran(in_place);
                    result.ops_run = executed.ops;
                    self.defer(executed.deferred);
                }
                // The reload that follows brings the whole set.
                Err(error) => {
                    self.config.metrics.op_failed(&error);
                    info!(%error, "an in-place operation was refused before the scheduled reload");
                }
            }
            result.timing.ops_us = micros(running);
        }
        self.at(ApplyStep::Committed)?;
        result.mode = Mode::Scheduled;
        Ok(self.finish(result, true))
    }

    /// One line and its counters for each apply, with the words that the controller's log has for the change.
    pub(crate) fn tell_outcome(&self, asked: &Asked, outcome: &Result<ApplyResult, ApplyRefusal>) {
        let Asked { plan, token, correlation, files, file_bytes } = asked;
        let (plan, correlation) = (plan.0.short(), correlation.as_deref());
        let (epoch, seq) = (token.leader_epoch, token.render_seq);
        let metrics = &self.config.metrics;
        match outcome {
            Ok(result) if !result.ok => {
                metrics.applied(result, *files, *file_bytes);
                let reason = result.error.as_deref();
                info!(correlation, %plan, epoch, seq, mode = %result.mode, reason, "not applied");
            }
            Ok(result) => {
                metrics.applied(result, *files, *file_bytes);
                let Timing { stage_us, write_us, ops_us, reload_us } = result.timing;
                info!(
                    correlation, %plan, epoch, seq, mode = %result.mode, ops = result.ops_run,
                    stage_us, write_us, ops_us, reload_us, "applied"
                );
            }
            Err(refusal) => {
                metrics.refused(refusal);
                let reason = match refusal {
                    ApplyRefusal::Conflict(conflict) => &conflict.message,
                    ApplyRefusal::Invalid(reason) | ApplyRefusal::Unavailable(reason) => reason,
                };
                info!(correlation, %plan, epoch, seq, reason, "not applied");
            }
        }
    }

    async fn revert_to_lkg(&mut self, manifest: &ApplyManifest) -> Result<ApplyResult, Failure> {
        let mut result = self.result(manifest);
        self.record.token = self.record.token.max(manifest.token);
        if self.record.lkg.is_none() || self.record.lkg == self.record.applied {
            self.save()?;
            result.mode = Mode::Noop;
            return Ok(self.finish(result, true));
        }
        self.put_back_lkg()?;
        let loading = Clock::now();
        let loaded = self.load().await?;
        result.timing.reload_us = micros(loading);
        let applied = self.record.applied;
        match loaded {
            Ok(()) => {
                self.commit_loaded(applied)?;
                result.mode = Mode::Reload;
                result.inventory = Some(self.inventory.clone());
                Ok(self.finish(result, true))
            }
            Err(words) => {
                result.error = Some(words);
                Ok(self.finish(result, false))
            }
        }
    }

    /// Deletions that wait for the very names that are to be made get one more try first.
    async fn make_room(&mut self, ops: &[Op]) {
        let wanted = |deletion: &Deletion| {
            ops.iter().any(|op| match (op, deletion) {
                (Op::ServerAdd { backend, server, .. }, Deletion::Server { backend: b, server: s }) => {
                    **backend == **b && **server == **s
                }
                (Op::BackendAdd { name, .. }, Deletion::Backend { name: waiting }) => **name == **waiting,
                _ => false,
            })
        };
        if self.deletions.iter().any(wanted) {
            self.delete_round().await;
        }
    }

    /// Only addresses that HAProxy does not listen on yet. A start says itself what it cannot bind.
    pub(crate) fn test_binds(&self, binds: &[BindAddress]) -> Result<(), String> {
        if self.running.is_none() {
            return Ok(());
        }
        let known = self.binds.as_ref();
        for bind in binds.iter().filter(|bind| known.is_none_or(|known| !known.contains(bind))) {
            test_bind(bind.address, bind.port).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// A refused apply until someone says otherwise.
    fn result(&self, manifest: &ApplyManifest) -> ApplyResult {
        ApplyResult {
            ok: false,
            mode: Mode::Rejected,
            plan_id: manifest.plan_id,
            applied_plan: self.record.applied.map(|set| set.plan),
            running_plan: self.record.running,
            worker: self.running.map(|running| identity(running.worker)),
            reasons: manifest.reasons.clone(),
            ops_run: 0,
            error: None,
            rolled_back: false,
            inventory: None,
            timing: Timing::default(),
        }
    }

    fn finish(&self, mut result: ApplyResult, ok: bool) -> ApplyResult {
        result.ok = ok;
        result.applied_plan = self.record.applied.map(|set| set.plan);
        result.running_plan = self.record.running;
        result.worker = self.running.map(|running| identity(running.worker));
        result
    }
}

/// A sender of another API version is answered by the whole set and a reload, never by a refusal.
fn effective_mode(manifest: &ApplyManifest) -> ApplyMode {
    if manifest.api_version == API_VERSION { manifest.mode } else { ApplyMode::Reload }
}

fn changes_inventory(op: &Op) -> bool {
    matches!(op, Op::CertNew { .. } | Op::CertDel { .. })
}

/// A word that another process chose, as it may stand in a log.
fn shown(correlation: &str) -> Arc<str> {
    correlation.chars().filter(char::is_ascii_graphic).take(LONGEST_CORRELATION).collect::<String>().into()
}

fn micros(since: Clock) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
