//! What only a cluster has: leadership, the standing of the configuration, the watched objects, and successors.

use std::{
    fmt::{self, Debug, Formatter},
    sync::Arc,
    time::Duration,
};

use haptic_store::Snapshot;
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet},
    metrics::{MetricType, counter::Counter, family::Family},
    registry::Registry,
};
use tokio::{sync::watch, time::Instant};

use crate::{
    bus::BusTotals,
    cluster::{standing::ConfigStanding, status_applier::accepted},
    core::ActiveCore,
    metrics::Metrics,
};

/// Registered once in a process; every iteration tells it what it is. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ClusterMetrics {
    pub buses: BusTotals,
    stages: Metrics,
    facts: Arc<Mutex<Facts>>,
    reinitializations: Family<ResultLabel, Counter>,
}

/// How the build of an iteration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reinitialized {
    Served,
    Failed,
    /// Something newer is built instead.
    GivenUp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Default)]
struct Facts {
    /// Since when this replica leads.
    leads: Option<Instant>,
    led: Duration,
    epoch: u64,
    terms: u64,
    serving: Option<(u64, ActiveCore)>,
}

/// Reads the facts when somebody asks.
struct Told {
    facts: Arc<Mutex<Facts>>,
    standing: watch::Receiver<Arc<ConfigStanding>>,
}

// === impl ClusterMetrics ===

impl ClusterMetrics {
    pub(crate) fn register(
        registry: &mut Registry,
        stages: Metrics,
        standing: watch::Receiver<Arc<ConfigStanding>>,
    ) -> Self {
        let (facts, buses) = (Arc::new(Mutex::new(Facts::default())), BusTotals::default());
        registry.register_collector(Box::new(Told { facts: facts.clone(), standing }));
        registry.register_collector(Box::new(buses.clone()));
        let reinitializations: Family<ResultLabel, Counter> = Family::default();
        for result in Reinitialized::ALL {
            drop(reinitializations.get_or_create(&ResultLabel { result: result.label() }));
        }
        registry.register(
            "haptic_controller_reinitializations",
            "Iterations that were built, the first one included, by what became of them",
            reinitializations.clone(),
        );
        Self { buses, stages, facts, reinitializations }
    }

    pub(crate) fn reinitialized(&self, result: Reinitialized) {
        self.reinitializations.get_or_create(&ResultLabel { result: result.label() }).inc();
    }

    /// The iteration whose objects are counted.
    pub(crate) fn serves(&self, iteration: u64, core: ActiveCore) {
        self.facts.lock().serving = Some((iteration, core));
    }

    /// Unless a later one serves by now.
    pub(crate) fn withdraw(&self, iteration: u64) {
        self.facts.lock().serving.take_if(|(serving, _)| *serving == iteration);
    }

    /// A term began, or goes on in a higher epoch.
    pub(crate) fn leads(&self, epoch: u64) {
        let mut facts = self.facts.lock();
        facts.epoch = epoch;
        if facts.leads.is_none() {
            facts.leads = Some(Instant::now());
            facts.terms += 1;
        }
        drop(facts);
        self.stages.set_leads(true);
    }

    pub(crate) fn leads_no_more(&self) {
        let mut facts = self.facts.lock();
        if let Some(since) = facts.leads.take() {
            facts.led += since.elapsed();
        }
        drop(facts);
        self.stages.set_leads(false);
    }
}

// === impl Reinitialized ===

impl Reinitialized {
    const ALL: [Self; 3] = [Self::Served, Self::Failed, Self::GivenUp];

    fn label(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Failed => "failed",
            Self::GivenUp => "given_up",
        }
    }
}

/// Of one resource.
type Size = fn(&Snapshot, &str) -> usize;

// === impl Told ===

impl Collector for Told {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let (leads, led, epoch, terms, serving) = {
            let facts = self.facts.lock();
            let led = facts.led + facts.leads.map_or(Duration::ZERO, |since| since.elapsed());
            let serving = facts.serving.as_ref().map(|(_, core)| core.clone());
            (facts.leads.is_some(), led, facts.epoch, facts.terms, serving)
        };
        let accepted = accepted(&self.standing.borrow());
        for (name, help, value) in [
            ("haptic_leader_election_is_leader", "Whether this replica leads", u64::from(leads)),
            ("haptic_leader_election_epoch", "Fencing epoch of this replica's last term", epoch),
        ] {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
        encoder
            .encode_descriptor(
                "haptic_leader_election_transitions",
                "Terms of this replica that began",
                None,
                MetricType::Counter,
            )?
            .encode_counter::<NoLabelSet, _, u64>(&terms, None)?;
        encoder
            .encode_descriptor(
                "haptic_leader_election_time_as_leader_seconds",
                "How long this replica has led, in all its terms",
                None,
                MetricType::Counter,
            )?
            .encode_counter::<NoLabelSet, _, u64>(&led.as_secs_f64(), None)?;
        encoder
            .encode_descriptor(
                "haptic_config_validated",
                "The condition Accepted of the configuration; always 1",
                None,
                MetricType::Gauge,
            )?
            .encode_family(&[("status", format!("{:?}", accepted.status)), ("reason", accepted.reason)])?
            .encode_gauge(&1_u64)?;
        let snapshot = serving.map(|core| core.get().store.lock().snapshot());
        let sizes: [(&str, &str, Size); 2] = [
            ("haptic_resource_count", "Objects of each watched resource", Snapshot::count),
            ("haptic_resource_bytes", "Memory that the objects of each watched resource take", Snapshot::bytes),
        ];
        for (name, help, size) in sizes {
            let mut told = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for resource in snapshot.iter().flat_map(|snapshot| snapshot.resources()) {
                let size = snapshot.as_ref().map_or(0, |snapshot| size(snapshot, resource));
                told.encode_family(&[("type", resource.as_ref())])?.encode_gauge(&(size as u64))?;
            }
        }
        Ok(())
    }
}

impl Debug for Told {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").finish_non_exhaustive()
    }
}

impl Debug for ClusterMetrics {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterMetrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
