//! The Reconciler: every event that can change the render triggers a reconciliation, at once. No debounce here; the
//! only one is in the watcher.

use std::sync::Arc;

use tokio::time::Instant;

use crate::{
    bus::{EventBus, Subscription},
    events::{Cause, Event, EventKind, Trigger},
};

pub struct Reconciler {
    bus: Arc<EventBus>,
    events: Subscription,
}

// === impl Reconciler ===

impl Reconciler {
    pub fn new(bus: &Arc<EventBus>) -> Self {
        let events = bus.subscribe(
            "Reconciler",
            &[
                EventKind::ResourceIndexUpdated,
                EventKind::IndexSynchronized,
                EventKind::BecameLeader,
                EventKind::DriftPreventionTriggered,
                EventKind::ConfigValidated,
                EventKind::RenderGateCompleted,
            ],
        );
        Self { bus: bus.clone(), events }
    }

    /// Ends when the bus is closed.
    pub async fn run(mut self) {
        while let Some(event) = self.events.next().await {
            if let Some(trigger) = trigger_of(&event) {
                self.bus.publish(Event::ReconciliationTriggered { correlation: event.correlation(), trigger });
            }
        }
    }
}

/// `None` for what must not trigger: the initial-sync variant (IndexSynchronized follows) and a verdict that changes
/// no input of the render.
fn trigger_of(event: &Event) -> Option<Trigger> {
    let now = Instant::now();
    let trigger = match event {
        Event::ResourceIndexUpdated { change, .. } if change.initial_sync => return None,
        Event::ResourceIndexUpdated { change, .. } => Trigger::new(Cause::Resource(change.clone()), change.since),
        Event::IndexSynchronized { .. } => Trigger::new(Cause::Synchronized, now),
        Event::BecameLeader { epoch, .. } => Trigger::new(Cause::Leadership { epoch: *epoch }, now),
        Event::DriftPreventionTriggered { .. } => Trigger::new(Cause::Drift, now),
        Event::ConfigValidated { name, .. } => Trigger::new(Cause::Config { name: name.clone() }, now),
        Event::RenderGateCompleted { outcome, .. } if outcome.quarantined > 0 => {
            Trigger::new(Cause::Quarantined { units: outcome.quarantined }, now)
        }
        _ => return None,
    };
    Some(trigger)
}

#[cfg(test)]
mod tests;
