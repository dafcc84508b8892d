//! One published configuration and what its status says.

use std::collections::{BTreeMap, BTreeSet};

use haptic_api::{
    AuxiliaryFiles,
    ConditionStatus::{False, True},
    OutputConditionType as Condition, OutputReason as Reason, PodDeploymentStatus, WithheldFile, WithheldReason,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    clock::Timestamp,
    cluster::{
        condition::{Draft, merged},
        objects::{CRT_LIST_FILE, GENERAL_FILE, MAP_FILE},
        publisher::output::{Key, Output},
        revise::text,
        standing::ConfigOwner,
    },
};

/// A `HAProxyCfg` with everything that it refers to.
#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    pub(super) plan: String,
    pub(super) files: BTreeSet<Key>,
    pub(super) withheld: Vec<WithheldFile>,
    /// As RFC 3339 has it, which sorts as text; the one of this moment comes last.
    pub(super) created: Option<String>,
    auxiliary: AuxiliaryFiles,
    generation: Option<i64>,
    /// As it is in the cluster.
    status: Value,
}

/// Whether a newer one is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Newest,
    Older,
}

// === impl Set ===

impl Set {
    /// As an earlier leader left it.
    pub(super) fn of(object: &Value) -> Self {
        let status = object["status"].clone();
        let auxiliary: AuxiliaryFiles = parsed(&status["auxiliaryFiles"]);
        let of = |kind, list: &[haptic_api::PublishedObject]| -> Vec<Key> {
            list.iter().map(|object| Key { kind, name: object.name.as_str().into() }).collect()
        };
        let files = of(MAP_FILE, &auxiliary.map_files)
            .into_iter()
            .chain(of(GENERAL_FILE, &auxiliary.general_files))
            .chain(of(CRT_LIST_FILE, &auxiliary.crt_list_files));
        Self {
            plan: text(object, "/spec/plan").unwrap_or_default().to_owned(),
            files: files.collect(),
            withheld: parsed(&status["withheldFiles"]),
            created: text(object, "/metadata/creationTimestamp").map(str::to_owned),
            generation: object.pointer("/metadata/generation").and_then(Value::as_i64),
            auxiliary,
            status,
        }
    }

    /// As it was put now; `before` is the same one as it was known.
    pub(super) fn put(output: &Output, owner: &ConfigOwner, generation: Option<i64>, before: Option<Self>) -> Self {
        Self {
            plan: output.plan.clone(),
            files: output.keys(),
            withheld: output.withheld.clone(),
            auxiliary: output.auxiliary(&owner.namespace),
            generation,
            ..before.unwrap_or_default()
        }
    }

    /// Whether a pod has its files or runs it.
    pub(super) fn is_reported(&self, entries: &[PodDeploymentStatus]) -> bool {
        entries.iter().any(|entry| self.is_of(entry))
    }

    /// What differs of its status; `None` = nothing.
    pub(super) fn status(&self, entries: &[PodDeploymentStatus], place: Place, now: Timestamp) -> Option<Value> {
        let pods: Vec<_> = match place {
            Place::Newest => entries.iter().collect(),
            // It is about to be deleted, if it may be.
            Place::Older if !self.is_reported(entries) => return None,
            Place::Older => entries.iter().filter(|entry| self.is_of(entry)).collect(),
        };
        let drafts = [self.synced(&pods, place), self.published()];
        let conditions = merged(self.status.get("conditions"), &drafts, now);
        let mut status = json!({
            "observedGeneration": self.generation,
            "deployedToPods": pods,
            "auxiliaryFiles": self.auxiliary,
            "withheldFiles": self.withheld,
        });
        if let (Some(conditions), Some(status)) = (conditions, status.as_object_mut()) {
            status.insert("conditions".to_owned(), conditions);
        }
        let fields = status.as_object_mut()?;
        fields.retain(|field, value| match self.status.get(field) {
            Some(present) => present != value,
            None => *value != Value::Null && *value != json!([]),
        });
        (!fields.is_empty()).then_some(status)
    }

    /// As the server answered.
    pub(super) fn written(&mut self, object: &Value) {
        self.status = object["status"].clone();
        self.generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
        self.created = text(object, "/metadata/creationTimestamp").map(str::to_owned);
    }

    fn is_of(&self, entry: &PodDeploymentStatus) -> bool {
        [&entry.applied_plan, &entry.running_plan].into_iter().flatten().any(|plan| *plan == self.plan)
    }

    fn synced(&self, pods: &[&PodDeploymentStatus], place: Place) -> Draft {
        let draft =
            |status, reason, message: String| Draft::new(Condition::Synced, status, reason, message, self.generation);
        if place == Place::Older {
            let names: Vec<_> = pods.iter().take(NAMED).map(|pod| pod.pod_name.as_str()).collect();
            let message = format!("a newer output is published; pods that still have this one: {}", names.join(", "));
            return draft(False, Reason::Superseded, message);
        }
        let serves = |pod: &PodDeploymentStatus| {
            pod.consecutive_errors == 0
                && [&pod.applied_plan, &pod.running_plan].into_iter().all(|plan| plan.as_ref() == Some(&self.plan))
        };
        let others: Vec<_> = pods.iter().filter(|pod| !serves(pod)).collect();
        if others.is_empty() && !pods.is_empty() {
            return draft(True, Reason::AllPodsServe, format!("{} of {} pods serve it", pods.len(), pods.len()));
        }
        let mut message = format!("{} of {} pods serve it", pods.len() - others.len(), pods.len());
        for pod in others.iter().take(NAMED) {
            let why = pod.last_error.as_deref().unwrap_or("it has not answered that it does");
            message.push_str(&format!("; {}: {why}", pod.pod_name));
        }
        draft(False, Reason::PodsDiffer, message)
    }

    fn published(&self) -> Draft {
        let too_large: Vec<_> = self
            .withheld
            .iter()
            .filter(|file| file.reason == WithheldReason::TooLarge)
            .map(|file| file.path.as_str())
            .collect();
        match too_large.as_slice() {
            [] => {
                let message = "every file that may be published is";
                Draft::new(Condition::Published, True, Reason::Complete, message, self.generation)
            }
            paths => {
                let message = format!(
                    "too large to be published, compressed and in parts: {}; they are deployed all the same; next step: \
                     read them with `haptic render`",
                    paths.join(", ")
                );
                Draft::new(Condition::Published, False, Reason::TooLarge, message, self.generation)
            }
        }
    }
}

/// Pods that one message names.
const NAMED: usize = 5;

/// What earlier leaders knew of the pods, the newest word of each.
pub(super) fn remembered<'a>(sets: impl Iterator<Item = &'a Set>) -> BTreeMap<String, PodDeploymentStatus> {
    let mut sets: Vec<_> = sets.collect();
    sets.sort_by(|a, b| a.created.cmp(&b.created));
    let pods = sets.into_iter().flat_map(|set| parsed::<Vec<PodDeploymentStatus>>(&set.status["deployedToPods"]));
    pods.map(|pod| (pod.pod_name.clone(), pod)).collect()
}

/// What does not decode was written by somebody else.
fn parsed<T: DeserializeOwned + Default>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
