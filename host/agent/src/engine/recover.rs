//! What an earlier agent left: a set in the middle of a change, a running HAProxy, or nothing.

use tracing::{info, warn};

use crate::{
    AgentError,
    engine::{AgentTask, identity},
    record::Step,
};

/// Whether the worker must load the set on disk before its plan is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Needed,
    NotNeeded,
}

// === impl AgentTask ===

impl AgentTask {
    /// Leaves the tree with the old or the new set, and HAProxy running it, or the last known good.
    pub(crate) async fn recover(&mut self) -> Result<(), AgentError> {
        let mut load = self.recover_tree()?;
        self.set_running(self.launch.adopt().await);
        let Some(running) = self.running else {
            return self.start_again().await;
        };
        info!(master = running.master.pid, worker = running.worker.pid, "adopted a running HAProxy");
        if self.record.worker != Some(identity(running.worker)) {
            load = Load::Needed;
        }
        if load == Load::NotNeeded && !self.record.reload_pending {
            self.refresh_inventory().await;
            return Ok(());
        }
        if !self.has_config() {
            self.refresh_inventory().await;
            return Ok(());
        }
        let applied = self.record.applied;
        match self.load().await? {
            Ok(()) => self.commit_loaded(applied),
            Err(words) => {
                warn!(%words, "HAProxy refused the recovered set; putting the previous one back");
                self.record.worker_ahead = true;
                self.roll_back().await
            }
        }
    }

    fn recover_tree(&mut self) -> Result<Load, AgentError> {
        let digest = self.tree.digest();
        match self.record.step {
            Step::Writing { target } if target.tree == digest => {
                info!("an apply was cut short after its files were in place; keeping the new set");
                self.record.applied = Some(target);
                self.record.step = Step::Idle;
                self.save()?;
                Ok(Load::Needed)
            }
            Step::Writing { .. } => {
                info!("an apply was cut short while files were replaced; putting the previous set back");
                let load = if self.record.worker_ahead { Load::Needed } else { Load::NotNeeded };
                self.put_back()?;
                Ok(load)
            }
            Step::Restoring { lkg } => {
                self.finish_putting_back(lkg)?;
                Ok(Load::Needed)
            }
            Step::Idle => {
                if self.record.applied.is_some_and(|applied| applied.tree != digest) {
                    warn!("the file tree differs from the record; the applied plan is unknown");
                    self.record.applied = None;
                    self.record.running = None;
                    self.save()?;
                }
                Ok(Load::NotNeeded)
            }
        }
    }
}
