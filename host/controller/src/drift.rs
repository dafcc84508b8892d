//! The DriftPreventionMonitor: a full pass now and then, so that what changed behind our back comes right again.

use std::{sync::Arc, time::Duration};

use crate::{
    bus::{EventBus, Subscription},
    core::ActiveCore,
    events::{Event, EventKind},
};

pub struct DriftPreventionMonitor {
    bus: Arc<EventBus>,
    events: Subscription,
    core: ActiveCore,
}

// === impl DriftPreventionMonitor ===

impl DriftPreventionMonitor {
    pub fn new(bus: &Arc<EventBus>, core: ActiveCore) -> Self {
        Self { bus: bus.clone(), events: bus.subscribe("DriftPreventionMonitor", &[EventKind::ConfigValidated]), core }
    }

    /// Ends when the bus is closed.
    pub async fn run(mut self) {
        loop {
            let interval = self.core.get().settings.drift_prevention_interval;
            tokio::select! {
                // A new configuration may have another interval.
                event = self.events.next() => if event.is_none() { return },
                () = after(interval) => {
                    self.bus.publish(Event::DriftPreventionTriggered { correlation: self.bus.correlate() });
                }
            }
        }
    }
}

/// Zero = never.
async fn after(interval: Duration) {
    if interval.is_zero() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(interval).await;
}

#[cfg(test)]
mod tests;
