//! What must hold before anything is written.

use std::collections::BTreeSet;

use haptic_model::{CONFIG_PATH, FilePath};
use haptic_wire::{ApplyManifest, ApplyMode, Conflict, ConflictReason, MAX_FILES, MAX_OPS};

use crate::{ApplyRefusal, engine::AgentTask};

/// Limits and shape of a request; what is wrong here is wrong whatever the agent's state.
pub(crate) fn check_shape(manifest: &ApplyManifest) -> Result<(), String> {
    if manifest.mode == ApplyMode::RevertLkg {
        return Ok(());
    }
    if manifest.files.len() > MAX_FILES {
        return Err(format!("the set has {} files, over the limit of {MAX_FILES}", manifest.files.len()));
    }
    if manifest.ops.len() > MAX_OPS || manifest.in_place_ops.len() > MAX_OPS {
        return Err(format!("more than {MAX_OPS} operations; ask for a reload instead"));
    }
    let mut paths = BTreeSet::new();
    for file in &manifest.files {
        if !paths.insert(file.path.as_str()) {
            return Err(format!("file `{}` is named twice", file.path));
        }
    }
    for path in &paths {
        // Every directory of a path, from the innermost.
        let mut directory = *path;
        while let Some((parent, _)) = directory.rsplit_once('/') {
            if paths.contains(parent) {
                return Err(format!("`{parent}` is a file and the directory of `{path}`"));
            }
            directory = parent;
        }
    }
    if !paths.contains(CONFIG_PATH) {
        return Err(format!("the set has no `{CONFIG_PATH}`"));
    }
    Ok(())
}

// === impl AgentTask ===

impl AgentTask {
    /// Epoch and plan, in this order; [`Self::fence_worker`] comes after them.
    pub(crate) fn fence(&self, manifest: &ApplyManifest, mode: ApplyMode) -> Result<(), ApplyRefusal> {
        let seen = self.record.token.leader_epoch;
        if manifest.token.leader_epoch < seen {
            let message = format!("epoch {} is over: epoch {seen} has written", manifest.token.leader_epoch);
            return Err(self.conflict(ConflictReason::StaleEpoch, message));
        }
        let applied = self.record.applied.map(|set| set.plan);
        let expected = match mode {
            ApplyMode::RevertLkg => Some(manifest.plan_id),
            ApplyMode::Auto | ApplyMode::Reload => manifest.expected_plan,
        };
        match (expected, applied) {
            (None, _) if mode == ApplyMode::Reload => {}
            (None, _) | (_, None) => {
                let message =
                    "what is applied is not known to both sides; send the full set with mode reload".to_owned();
                return Err(self.conflict(ConflictReason::UnknownBaseline, message));
            }
            (Some(expected), Some(applied)) if expected != applied => {
                let message = format!("plan {} is applied, not {}", applied.0.short(), expected.0.short());
                return Err(self.conflict(ConflictReason::PrevMismatch, message));
            }
            (Some(_), Some(_)) => {}
        }
        Ok(())
    }

    /// Whether the expected worker runs, if `seen` is who answered at the runtime socket.
    pub(crate) async fn fence_worker(
        &mut self,
        manifest: &ApplyManifest,
        seen: Option<u32>,
    ) -> Result<(), ApplyRefusal> {
        let worker = self.judge_worker(seen).await;
        if manifest.expected_worker.is_some() && manifest.expected_worker == worker {
            return Ok(());
        }
        let message = match worker {
            Some(worker) => format!("worker {} runs, not the expected one", worker.pid),
            None => "no worker answers".to_owned(),
        };
        Err(self.conflict(ConflictReason::WorkerMismatch, message))
    }

    fn conflict(&self, reason: ConflictReason, message: String) -> ApplyRefusal {
        self.conflict_missing(reason, message, Vec::new())
    }

    pub(crate) fn conflict_missing(
        &self,
        reason: ConflictReason,
        message: String,
        missing: Vec<FilePath>,
    ) -> ApplyRefusal {
        let state = Box::new(self.state(false));
        ApplyRefusal::Conflict(Box::new(Conflict { reason, message, missing, state }))
    }
}
