//! What the pods said last, as far as gauges of the fleet tell it.

use std::{collections::BTreeMap, sync::Arc};

use haptic_model::PlanId;

use crate::pod::{Pod, PodOutcome, PodReport};

/// The pods that discovery named last.
#[derive(Debug, Default)]
pub(super) struct FleetState {
    pods: BTreeMap<Arc<str>, PodState>,
    newest: Option<PlanId>,
}

#[derive(Debug, Default)]
struct PodState {
    uid: Arc<str>,
    serves: Option<PlanId>,
    failures: u64,
}

// === impl FleetState ===

impl FleetState {
    /// Answers with the pods that are gone. One that came back under the same name begins anew.
    pub(super) fn discovered(&mut self, pods: &[Pod]) -> Vec<Arc<str>> {
        let gone: Vec<_> = self.pods.keys().filter(|name| pods.iter().all(|pod| pod.name != **name)).cloned().collect();
        for name in &gone {
            self.pods.remove(name);
        }
        for pod in pods {
            let state = self.pods.entry(pod.name.clone()).or_default();
            if state.uid != pod.uid {
                *state = PodState { uid: pod.uid.clone(), ..PodState::default() };
            }
        }
        gone
    }

    pub(super) fn rendered(&mut self, plan: PlanId) {
        self.newest = Some(plan);
    }

    /// A report can overtake the event that names its pod; then it counts with the next one.
    pub(super) fn reported(&mut self, report: &PodReport) {
        let Some(state) = self.pods.get_mut(&report.pod) else { return };
        if report.outcome == PodOutcome::Failed {
            state.failures += 1;
        } else {
            state.failures = 0;
        }
        if report.outcome == PodOutcome::Serving {
            state.serves = Some(report.plan);
        }
    }

    pub(super) fn size(&self) -> usize {
        self.pods.len()
    }

    pub(super) fn converged(&self) -> usize {
        self.pods.values().filter(|pod| pod.serves.is_some() && pod.serves == self.newest).count()
    }

    pub(super) fn most_failures(&self) -> u64 {
        self.pods.values().map(|pod| pod.failures).max().unwrap_or(0)
    }
}
