//! What the buses of a process have carried. An iteration has a bus of its own; what is counted goes on over it.

use std::{
    array,
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
};

use crate::{bus::Shared, events::EventKind};

/// Counters of all buses that were made with it, and the depths of those that are there. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct BusTotals(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    published: [AtomicU64; EventKind::ALL.len()],
    dropped_critical: AtomicU64,
    observer_losses: AtomicU64,
    buses: Mutex<Vec<Weak<Shared>>>,
}

// === impl BusTotals ===

impl BusTotals {
    pub(super) fn opened(&self, bus: &Arc<Shared>) {
        let mut buses = self.0.buses.lock();
        buses.retain(|bus| bus.strong_count() > 0);
        buses.push(Arc::downgrade(bus));
    }

    pub(super) fn published(&self, kind: EventKind) {
        self.0.published[kind as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn dropped_critical(&self) {
        self.0.dropped_critical.fetch_add(1, Relaxed);
    }

    pub(super) fn observer_lost(&self) {
        self.0.observer_losses.fetch_add(1, Relaxed);
    }

    /// How many events wait for each subscriber, and how many subscribers there are.
    fn waiting(&self) -> (BTreeMap<&'static str, usize>, usize) {
        let buses: Vec<_> = self.0.buses.lock().iter().filter_map(Weak::upgrade).collect();
        let mut depths = BTreeMap::new();
        let mut subscribers = 0;
        for bus in buses {
            bus.add_depths(&mut depths);
            subscribers += bus.inner.lock().mailboxes.len();
        }
        (depths, subscribers)
    }
}

impl Collector for BusTotals {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let (depths, subscribers) = self.waiting();
        let mut family = encoder.encode_descriptor(
            "haptic_component_mailbox_depth",
            "Events that wait for a component",
            None,
            MetricType::Gauge,
        )?;
        for (component, depth) in depths {
            family.encode_family(&[("component", component)])?.encode_gauge(&(depth as u64))?;
        }
        let mut family = encoder.encode_descriptor(
            "haptic_event_subscribers",
            "Components that take events",
            None,
            MetricType::Gauge,
        )?;
        family.encode_gauge(&(subscribers as u64))?;
        let mut family =
            encoder.encode_descriptor("haptic_events_published", "Events by kind", None, MetricType::Counter)?;
        for (kind, count) in EventKind::ALL.into_iter().zip(&self.0.published) {
            family
                .encode_family(&[("event", kind.name())])?
                .encode_counter::<NoLabelSet, _, u64>(&count.load(Relaxed), None)?;
        }
        for (name, help, count) in [
            (
                "haptic_events_dropped_critical",
                "Events that a full mailbox would have lost; each ends its iteration",
                &self.0.dropped_critical,
            ),
            (
                "haptic_events_observer_dropped",
                "Events that log or metrics have missed because they were far behind",
                &self.0.observer_losses,
            ),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            family.encode_counter::<NoLabelSet, _, u64>(&count.load(Relaxed), None)?;
        }
        Ok(())
    }
}

// === impl Counted ===

impl Default for Counted {
    fn default() -> Self {
        Self {
            published: array::from_fn(|_| AtomicU64::new(0)),
            dropped_critical: AtomicU64::new(0),
            observer_losses: AtomicU64::new(0),
            buses: Mutex::default(),
        }
    }
}
