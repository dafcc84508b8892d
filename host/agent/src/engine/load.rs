//! Loading a set into HAProxy, and going back.

use haptic_haproxy::process::{ReloadError, Running};
use haptic_model::Mode;
use haptic_wire::ApplyManifest;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::{
    AgentError, ApplyStep,
    engine::{AgentTask, identity, with_causes},
    metrics::{Invariant, Loaded, Stage},
    record::{Journal, KnownSet, Step},
};

// === impl AgentTask ===

impl AgentTask {
    /// Loads what is on disk: a reload, or a start if HAProxy does not run. The inner error is what HAProxy said.
    pub(crate) async fn load(&mut self) -> Result<Result<(), String>, AgentError> {
        self.at(ApplyStep::Reloading)?;
        let Some(before) = self.running.filter(|running| running.master.is_alive()) else {
            return self.start().await;
        };
        let said = match self.master.reload(before.master).await {
            Ok(_) => Ok(()),
            Err(ReloadError::Refused { words }) => Err(words),
            Err(error) => {
                // Whether it happened shows in which worker serves.
                let changed = self.launch.adopt().await.is_some_and(|now| now.worker != before.worker);
                if changed { Ok(()) } else { Err(with_causes(&error)) }
            }
        };
        self.last_load = Some(Instant::now());
        if let Err(words) = said {
            self.config.metrics.reloaded(Loaded::Refused);
            if !before.master.is_alive() {
                self.set_running(None);
            }
            return Ok(Err(words));
        }
        let Some(running) = self.launch.adopt().await else {
            self.config.metrics.reloaded(Loaded::Refused);
            self.set_running(None);
            return Ok(Err("HAProxy took the reload and ended at once".to_owned()));
        };
        self.reloads += 1;
        self.config.metrics.reloaded(Loaded::Loaded);
        self.loaded(running).await;
        Ok(Ok(()))
    }

    /// Starts HAProxy from the last known good set, unless the set on disk is that one or there is none.
    pub(crate) async fn start_from_lkg(&mut self) -> Result<Result<(), String>, AgentError> {
        if self.record.lkg.is_some() && self.record.lkg != self.record.applied {
            info!("going back to the last known good set before the start");
            self.put_back_lkg()?;
        }
        if !self.has_config() {
            return Ok(Ok(()));
        }
        let applied = self.record.applied;
        let started = self.start().await?;
        match &started {
            Ok(()) => self.commit_loaded(applied)?,
            // A first set that never ran: nothing serves, and the way back is the empty tree.
            Err(_) if self.record.lkg.is_none() && !self.record.undo.is_empty() => self.put_back()?,
            Err(_) => {}
        }
        Ok(started)
    }

    async fn start(&mut self) -> Result<Result<(), String>, AgentError> {
        self.stopped = false;
        match self.launch.start().await {
            Ok(running) => {
                self.config.metrics.started(Loaded::Loaded);
                self.last_load = Some(Instant::now());
                self.loaded(running).await;
                Ok(Ok(()))
            }
            Err(error) => {
                self.config.metrics.started(Loaded::Refused);
                self.set_running(None);
                Ok(Err(with_causes(&error)))
            }
        }
    }

    pub(crate) async fn loaded(&mut self, running: Running) {
        self.set_running(Some(running));
        self.refresh_inventory().await;
    }

    /// The scheduled reload's time has come.
    pub(crate) async fn load_scheduled(&mut self) -> Result<(), AgentError> {
        self.load_at = None;
        if !self.record.reload_pending {
            return Ok(());
        }
        let target = self.record.applied;
        let binds = std::mem::take(&mut self.pending_binds);
        let outcome = match self.test_binds(&binds) {
            Ok(()) => self.load().await?,
            Err(error) => Err(error),
        };
        match &outcome {
            Ok(()) => {
                self.commit_loaded(target)?;
                self.binds = Some(binds.into_iter().collect());
            }
            Err(words) => {
                warn!(%words, "the scheduled reload failed; putting the previous set back");
                self.config.metrics.rejected(Stage::Load);
                self.roll_back().await?;
            }
        }
        if let Some(last) = &mut self.last_apply {
            last.ok = outcome.is_ok();
            last.mode = if outcome.is_ok() { Mode::Reload } else { Mode::Rejected };
            last.rolled_back = outcome.is_err();
            last.error = outcome.err();
            last.applied_plan = self.record.applied.map(|set| set.plan);
            last.running_plan = self.record.running;
            last.worker = self.running.map(|running| identity(running.worker));
        }
        Ok(())
    }

    /// The worker took every operation: the set is applied and served.
    pub(crate) fn commit_runtime(&mut self, target: KnownSet) -> Result<(), AgentError> {
        let undo = std::mem::take(&mut self.record.undo);
        let unneeded = if self.record.lkg.is_some() { self.record.to_lkg.fold(undo) } else { undo.backups().collect() };
        self.record.applied = Some(target);
        self.record.running = Some(target.plan);
        self.record.worker = self.running.map(|running| identity(running.worker));
        self.record.step = Step::Idle;
        self.save()?;
        self.tree.forget(unneeded.into_iter());
        self.at(ApplyStep::Committed)
    }

    /// HAProxy loaded the set on disk: it is applied, served and the last known good.
    pub(crate) fn commit_loaded(&mut self, set: Option<KnownSet>) -> Result<(), AgentError> {
        let undo = std::mem::take(&mut self.record.undo);
        let to_lkg = std::mem::take(&mut self.record.to_lkg);
        self.record.applied = set;
        self.record.running = set.map(|set| set.plan);
        self.record.lkg = set;
        self.record.worker = self.running.map(|running| identity(running.worker));
        self.record.reload_pending = false;
        self.record.worker_ahead = false;
        self.record.step = Step::Idle;
        self.load_at = None;
        self.save()?;
        self.tree.forget(undo.backups().chain(to_lkg.backups()));
        self.at(ApplyStep::Committed)
    }

    /// A plan that passed HAProxy's check becomes the last known good, if it is the applied one.
    pub(crate) fn promote(&mut self, manifest: &ApplyManifest) -> Result<(), AgentError> {
        let Some(applied) = self.record.applied else { return Ok(()) };
        if manifest.validated_plan != Some(applied.plan) || self.record.lkg == Some(applied) {
            return Ok(());
        }
        let to_lkg = std::mem::take(&mut self.record.to_lkg);
        self.record.lkg = Some(applied);
        self.save()?;
        self.tree.forget(to_lkg.backups());
        Ok(())
    }

    /// Puts back the files of the set that the worker serves. Nothing is loaded.
    pub(crate) fn put_back(&mut self) -> Result<(), AgentError> {
        self.record.step = Step::Restoring { lkg: false };
        self.save()?;
        self.finish_putting_back(false)
    }

    /// Puts back the files of the last known good set. Nothing is loaded.
    pub(crate) fn put_back_lkg(&mut self) -> Result<(), AgentError> {
        self.record.step = Step::Restoring { lkg: true };
        self.save()?;
        self.finish_putting_back(true)
    }

    /// May run again after a crash in the middle of it.
    pub(crate) fn finish_putting_back(&mut self, to_lkg: bool) -> Result<(), AgentError> {
        let undo = self.record.undo.clone();
        self.tree.restore(&undo)?;
        let mut unneeded: Vec<u64> = undo.backups().collect();
        let mut applied = undo.base;
        if undo.is_empty() && undo.base.is_none() {
            applied = self.record.applied;
        }
        if to_lkg {
            let journal = self.record.to_lkg.clone();
            self.tree.restore(&journal)?;
            unneeded.extend(journal.backups());
            applied = self.record.lkg;
            self.record.to_lkg = Journal::default();
        }
        let digest = self.tree.digest();
        let applied = applied.filter(|applied| applied.tree == digest);
        // The last known good may have been a pending set that is now gone from the disk.
        if !to_lkg && self.record.lkg.is_some() && self.record.lkg == self.record.applied && applied != self.record.lkg
        {
            self.record.lkg = applied;
            unneeded.extend(std::mem::take(&mut self.record.to_lkg).backups());
        }
        self.record.applied = applied;
        self.record.undo = Journal::default();
        self.record.reload_pending = false;
        self.record.step = Step::Idle;
        self.load_at = None;
        self.save()?;
        self.tree.forget(unneeded.into_iter());
        Ok(())
    }

    /// After a failed load: the previous set on disk, and in the worker too if that had taken parts of the new one.
    pub(crate) async fn roll_back(&mut self) -> Result<(), AgentError> {
        self.config.metrics.rolled_back();
        self.put_back()?;
        if self.running.is_none() {
            return self.start_again().await;
        }
        if !self.record.worker_ahead {
            self.record.running = self.record.applied.map(|set| set.plan);
            return self.save();
        }
        let applied = self.record.applied;
        match self.load().await? {
            Ok(()) => self.commit_loaded(applied),
            Err(words) => {
                warn!(%words, "the previous set is not loadable either; going back to the last known good");
                self.record.running = None;
                self.put_back_lkg()?;
                let lkg = self.record.applied;
                match self.load().await? {
                    Ok(()) => self.commit_loaded(lkg),
                    Err(words) => {
                        // The worker serves something between two sets, so no baseline is true of it.
                        warn!(%words, "HAProxy does not load the last known good set");
                        self.config.metrics.violated(Invariant::WorkerStateIsKnown);
                        self.record.applied = None;
                        self.save()
                    }
                }
            }
        }
    }
}
