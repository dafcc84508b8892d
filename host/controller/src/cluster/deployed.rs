//! What the pods of the fleet said last, as status and published objects tell it.

use std::{collections::BTreeMap, sync::Arc};

use haptic_api::PodDeploymentStatus;
use haptic_model::PlanId;
use serde_json::Value;

use crate::{
    clock::Timestamp,
    pod::{Pod, PodOutcome, PodReport},
    status::document::PodStatus,
};

/// The pods that discovery named last, each with what it reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Deployed {
    pods: BTreeMap<Arc<str>, PodRecord>,
    /// Discovery has spoken.
    known: bool,
}

#[derive(Clone, Debug)]
pub(super) struct PodRecord {
    /// `None` = it said nothing yet.
    status: Option<PodStatus>,
    /// The render that its last report is about.
    plan: Option<PlanId>,
    /// Its last report can overtake the event that names it.
    discovered: bool,
}

/// How a render stands with the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Discovery has not spoken.
    Unknown,
    NoPods,
    /// Every pod serves it.
    Settled {
        pods: usize,
    },
    /// Some pod does not, each with why.
    Apart(Vec<Apart>),
}

/// A pod that does not serve a render.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Apart {
    pub(super) pod: Arc<str>,
    pub(super) why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// No answer about this render yet.
    Silent,
    Scheduled,
    Failed(String),
}

/// A pod in trouble for longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Troubled {
    pub(super) pod: Arc<str>,
    /// It answered at least once.
    pub(super) answered: bool,
    pub(super) error: String,
}

/// Failures in a row after which a pod is in trouble.
const TROUBLED: u32 = 3;

// === impl Deployed ===

impl Deployed {
    /// Pods that are gone are forgotten.
    pub(super) fn discovered(&mut self, pods: &[Pod]) {
        self.known = true;
        self.pods.retain(|name, _| pods.iter().any(|pod| pod.name == *name));
        for pod in pods {
            self.record(&pod.name).discovered = true;
        }
    }

    pub(super) fn reported(&mut self, report: &PodReport, now: Timestamp) {
        let record = self.record(&report.pod);
        record.plan = Some(report.plan);
        let status = record.status.get_or_insert_with(|| PodStatus::new(now));
        match report.outcome {
            PodOutcome::Failed => status.failed(report, now),
            PodOutcome::Serving | PodOutcome::Scheduled => status.succeeded(report, now),
        }
    }

    pub(super) fn of(&self, plan: PlanId) -> Standing {
        if !self.known {
            return Standing::Unknown;
        }
        let apart: Vec<_> = self
            .all()
            .filter_map(|(name, record)| Some(Apart { pod: name.clone(), why: record.apart(plan)? }))
            .collect();
        match (apart.is_empty(), self.all().count()) {
            (_, 0) => Standing::NoPods,
            (true, pods) => Standing::Settled { pods },
            (false, _) => Standing::Apart(apart),
        }
    }

    pub(super) fn troubled(&self) -> Vec<Troubled> {
        let troubled = self.all().filter_map(|(name, record)| {
            let status = record.status.as_ref().filter(|status| status.consecutive_errors >= TROUBLED)?;
            let error = status.last_error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
            Some(Troubled { pod: name.clone(), answered: status.applied_plan.is_some(), error })
        });
        troubled.collect()
    }

    /// What is published about each pod. `before` is what an earlier leader knew.
    pub(super) fn entries(&self, before: &BTreeMap<String, PodDeploymentStatus>) -> Vec<PodDeploymentStatus> {
        self.all().map(|(name, record)| record.entry(name, before.get(&**name))).collect()
    }

    pub(super) fn is_known(&self) -> bool {
        self.known
    }

    fn all(&self) -> impl Iterator<Item = (&Arc<str>, &PodRecord)> {
        self.pods.iter().filter(|(_, record)| record.discovered)
    }

    fn record(&mut self, pod: &Arc<str>) -> &mut PodRecord {
        let new = || PodRecord { status: None, plan: None, discovered: false };
        self.pods.entry(pod.clone()).or_insert_with(new)
    }
}

// === impl PodRecord ===

impl PodRecord {
    fn apart(&self, plan: PlanId) -> Option<Why> {
        let Some(status) = &self.status else { return Some(Why::Silent) };
        match status.outcome {
            // A failure stays true of the next render until the pod says otherwise.
            PodOutcome::Failed => {
                Some(Why::Failed(status.last_error.as_ref().map(|error| error.message.clone()).unwrap_or_default()))
            }
            _ if self.plan != Some(plan) => Some(Why::Silent),
            PodOutcome::Scheduled => Some(Why::Scheduled),
            PodOutcome::Serving => None,
        }
    }

    fn entry(&self, name: &Arc<str>, before: Option<&PodDeploymentStatus>) -> PodDeploymentStatus {
        let mut entry = before.cloned().unwrap_or_default();
        entry.pod_name = name.to_string();
        let Some(status) = &self.status else { return entry };
        if let Some(applied) = status.applied_plan {
            let applied = applied.to_string();
            if entry.applied_plan.as_ref() != Some(&applied) || entry.deployed_at.is_none() {
                entry.deployed_at = status.applied_at.map(|at| at.to_string());
            }
            entry.applied_plan = Some(applied);
            entry.running_plan = status.running_plan.map(|plan| plan.to_string());
        }
        if let Some(mode) = status.mode {
            entry.mode = serde_json::to_value(mode).ok().as_ref().and_then(Value::as_str).map(str::to_owned);
        }
        if let Some(reload) = &status.last_reload {
            entry.reload_reasons.clone_from(&reload.reasons);
            entry.last_reload_at = Some(reload.at.to_string());
        }
        // A change that waits for its reload says why it needs one.
        if status.outcome == PodOutcome::Scheduled {
            entry.reload_reasons.clone_from(&status.reasons);
        }
        entry.consecutive_errors = status.consecutive_errors;
        let failing = status.last_error.as_ref().filter(|_| status.consecutive_errors > 0);
        match failing {
            Some(error) => {
                if entry.last_error.as_ref() != Some(&error.message) || entry.last_error_first_seen_at.is_none() {
                    entry.last_error_first_seen_at = Some(error.first_seen.to_string());
                }
                entry.last_error = Some(error.message.clone());
            }
            None => (entry.last_error, entry.last_error_first_seen_at) = (None, None),
        }
        entry
    }
}

#[cfg(test)]
mod tests;
