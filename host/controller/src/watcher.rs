//! The ResourceWatcher: takes a source's changes, updates the index at once, and publishes ResourceIndexUpdated through
//! the resource's debounce window. This is the only debounce.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    bus::EventBus,
    events::{ChangedObject, Event, ResourceChange},
};

/// A burst waits at most this many windows.
const WINDOWS: u32 = 5;

/// The debounce windows of all watched resources.
#[derive(Debug, Default)]
pub struct ResourceWatcher {
    windows: BTreeMap<Arc<str>, Window>,
}

/// An event after a quiet window passes at once; what follows coalesces until the resource has been quiet for the
/// window, five windows at most.
#[derive(Debug)]
struct Window {
    interval: Duration,
    last: Option<Instant>,
    waiting: Option<ResourceChange>,
}

// === impl ResourceWatcher ===

impl ResourceWatcher {
    /// Sets the windows; what waits goes on waiting. An interval of zero means no window at all.
    pub fn configure(&mut self, intervals: impl IntoIterator<Item = (Arc<str>, Duration)>) {
        let mut earlier = std::mem::take(&mut self.windows);
        for (resource, interval) in intervals {
            let window = match earlier.remove(&resource) {
                Some(window) => Window { interval, ..window },
                None => Window { interval, last: None, waiting: None },
            };
            self.windows.insert(resource, window);
        }
    }

    /// The index has taken this change. Publishes it now or keeps it for [`Self::publish_due`].
    pub fn changed(&mut self, bus: &EventBus, resource: &Arc<str>, object: ChangedObject) {
        let change = ResourceChange::one(resource.clone(), object, Instant::now());
        let passed = match self.windows.get_mut(resource) {
            Some(window) => window.pass(change),
            None => Some(change),
        };
        if let Some(change) = passed {
            publish(bus, change);
        }
    }

    /// When [`Self::publish_due`] has something to do.
    pub fn due(&self) -> Option<Instant> {
        self.windows.values().filter_map(Window::due).min()
    }

    pub fn publish_due(&mut self, bus: &EventBus) {
        let now = Instant::now();
        for window in self.windows.values_mut().filter(|window| window.due().is_some_and(|due| due <= now)) {
            if let Some(change) = window.waiting.take() {
                publish(bus, change);
            }
        }
    }
}

// === impl Window ===

impl Window {
    fn pass(&mut self, mut change: ResourceChange) -> Option<ResourceChange> {
        let now = change.since;
        let quiet = self.last.is_none_or(|last| now >= last + self.interval);
        self.last = Some(now);
        if quiet && self.waiting.is_none() {
            return Some(change);
        }
        if let Some(older) = self.waiting.take() {
            change.absorb(older);
        }
        self.waiting = Some(change);
        None
    }

    fn due(&self) -> Option<Instant> {
        let waiting = self.waiting.as_ref()?;
        let quiet = self.last? + self.interval;
        Some(quiet.min(waiting.since + self.interval * WINDOWS))
    }
}

fn publish(bus: &EventBus, change: ResourceChange) {
    bus.publish(Event::ResourceIndexUpdated { correlation: bus.correlate(), change });
}

#[cfg(test)]
mod tests;
