//! What is known about one pod between two applies: the baseline of its next diff.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haptic_haproxy::plan::{Baseline, Inventory};
use haptic_model::{Digest, FilePath, Mode, PLAN_SCHEMA_VERSION, Plan, PlanId};
use haptic_wire::{API_VERSION, AgentState, ApplyResult, FEATURE_FILE_PATCH, Serving, WorkerIdentity};

/// While HAProxy does not answer its agent.
pub(super) const UNKNOWN_VERSION: (u16, u16) = (0, 0);

/// Read from the agent, then kept current by what it acknowledges.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// What the running worker serves; `None` = not known, which means reload.
    pub(super) running: Option<Arc<Plan>>,
    /// What is on disk; differs from `running` while a reload is pending.
    pub(super) applied: Option<PlanId>,
    applied_document: Option<Arc<Plan>>,
    pub(super) worker: Option<WorkerIdentity>,
    pub(super) haproxy: (u16, u16),
    pub(super) haproxy_version: Option<String>,
    pub(super) files: BTreeMap<FilePath, Digest>,
    /// The agent makes files from what it has and what differs.
    pub(super) takes_patches: bool,
    inventory: Inventory,
    pending_deletes: BTreeSet<String>,
    pub(super) reload_pending: bool,
    /// The plan that a restart goes back to.
    pub(super) last_known_good: Option<PlanId>,
    /// The applied plan came through a reload: the pod's own HAProxy accepted it.
    pub(super) loaded_by_reload: bool,
}

// === impl Known ===

impl Known {
    /// `remembered` are plans this process has at hand, which spares reading one from the agent.
    pub(super) fn from_state(state: AgentState, remembered: &[Arc<Plan>]) -> Self {
        let document = |id: Option<PlanId>| -> Option<Arc<Plan>> {
            let id = id?;
            remembered.iter().find(|plan| plan.id == id).cloned()
        };
        // A document of another API or schema version describes something else: no baseline, full set and reload.
        let stored = state
            .plan
            .and_then(|plan| serde_json::from_value::<Plan>(plan).ok())
            .filter(|plan| plan.schema_version == PLAN_SCHEMA_VERSION && Some(plan.id) == state.applied_plan)
            .map(Arc::new);
        let applied_document = stored.or_else(|| document(state.applied_plan));
        let running = if state.api_version != API_VERSION {
            None
        } else if state.running_plan == state.applied_plan {
            applied_document.clone()
        } else {
            document(state.running_plan)
        };
        let haproxy = state.haproxy.as_ref();
        Self {
            running,
            applied: state.applied_plan,
            applied_document,
            worker: haproxy.map(|haproxy| haproxy.worker),
            haproxy: haproxy.map_or(UNKNOWN_VERSION, |haproxy| haproxy.minor),
            haproxy_version: haproxy.map(|haproxy| haproxy.version.clone()),
            files: state.files,
            takes_patches: state.features.iter().any(|feature| feature == FEATURE_FILE_PATCH),
            inventory: inventory(&state.inventory),
            pending_deletes: state.pending_deletes.into_iter().collect(),
            reload_pending: state.reload_pending,
            last_known_good: state.lkg_plan,
            loaded_by_reload: state
                .last_apply
                .is_some_and(|last| last.mode == Mode::Reload && last.ok && Some(last.plan_id) == state.applied_plan),
        }
    }

    /// Whether the pod is still as this says: a HAProxy that died and came back serves its last known good, in another
    /// worker.
    pub(super) fn holds(&self, now: &Serving) -> bool {
        self.applied == now.applied_plan
            && self.worker == now.worker
            && self.reload_pending == now.reload_pending
            && (now.reload_pending || now.running_plan == now.applied_plan)
    }

    pub(super) fn baseline(&self) -> Baseline<'_> {
        Baseline {
            plan: self.running.as_deref(),
            haproxy: self.haproxy,
            inventory: &self.inventory,
            pending_deletes: &self.pending_deletes,
            reload_pending: self.reload_pending,
        }
    }

    /// Takes over what a successful apply of `plan` left.
    pub(super) fn acknowledge(&mut self, plan: &Arc<Plan>, result: &ApplyResult, removed: &[String]) {
        self.applied = result.applied_plan;
        self.applied_document = Some(plan.clone());
        self.reload_pending = result.mode == Mode::Scheduled;
        // While a reload is pending the worker goes on with the plan before it.
        if !self.reload_pending {
            self.running = Some(plan.clone());
        }
        if result.worker.is_some() {
            self.worker = result.worker;
        }
        if let Some(loaded) = &result.inventory {
            self.inventory = inventory(loaded);
        }
        match result.mode {
            // A new worker starts without leftovers and has read exactly this set.
            Mode::Reload => {
                self.pending_deletes.clear();
                self.loaded_by_reload = true;
                self.last_known_good = Some(plan.id);
            }
            Mode::Noop => {}
            _ => {
                self.pending_deletes.extend(removed.iter().cloned());
                self.loaded_by_reload = false;
            }
        }
        self.files.retain(|path, _| plan.files.contains_key(path));
        for (path, file) in &plan.files {
            match self.files.get_mut(path) {
                Some(digest) if *digest == file.digest => {}
                Some(digest) => *digest = file.digest,
                None => {
                    self.files.insert(path.clone(), file.digest);
                }
            }
        }
    }

    /// Names of removed servers or backends that may still be taken.
    pub(super) fn has_leftovers(&self) -> bool {
        !self.pending_deletes.is_empty()
    }

    pub(super) fn plans(&self) -> impl Iterator<Item = &Arc<Plan>> {
        self.running.iter().chain(&self.applied_document)
    }
}

fn inventory(loaded: &haptic_wire::Inventory) -> Inventory {
    Inventory {
        maps: loaded.maps.iter().cloned().collect(),
        certificates: loaded.certificates.iter().cloned().collect(),
        ca_files: loaded.ca_files.iter().cloned().collect(),
        crl_files: loaded.crl_files.iter().cloned().collect(),
        crt_lists: loaded.crt_lists.iter().cloned().collect(),
    }
}
