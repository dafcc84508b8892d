//! What a person asks first: what serves where, since when, what happened last, and what is wrong with which object.
//!
//! One value for the whole process: iterations come and go and tell it what they are, an observer of each bus tells it
//! what happened. It decides nothing. It keeps scalars, short texts and the newest renders (which the stages hold
//! anyway); documents are made when somebody asks, and their size is bounded. No secret is in them: findings and reports
//! carry none, and what a search shows is masked (see [`crate::explain`]).
//!
//! ```text
//! buses ─▶ Observer ─▶ Overview ─▶ document()  the status page, /debug/status
//! iterations ─────────────┘  └───▶ explained() searches, /debug/explain
//! ```

mod document;
mod record;

use std::{fmt, sync::Arc};

use haptic_kubernetes::{Leadership, States};
use haptic_model::Finding;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::{
    bus::{EventBus, Subscription},
    clock::WallClock,
    cluster::{Fleet, Report, standing::ConfigStanding},
    core::ActiveCore,
    events::{Event, EventKind},
    explain::Explained,
    feed::ManifestFindings,
    overview::record::{ConfigRecord, Record},
    pipeline::Render,
    plugin_loader::PluginState,
    status::plugins::PluginStatuses,
};

pub use document::StatusDocument;

/// How this process stands. Cheap to clone.
#[derive(Clone, Default)]
pub struct Overview(Arc<Inner>);

/// What holds for the whole process.
pub struct ProcessFacts {
    /// For a person: `standalone`, or who this replica is in the Lease.
    pub identity: Arc<str>,
    pub clock: WallClock,
    pub manifests: watch::Receiver<ManifestFindings>,
    pub plugins: watch::Receiver<Arc<Vec<PluginState>>>,
    /// `None` = there is no cluster; then events tell how the configuration stands.
    pub standing: Option<watch::Receiver<Arc<ConfigStanding>>>,
}

/// What holds for the iteration that serves.
pub struct IterationFacts {
    pub number: u64,
    pub core: ActiveCore,
    pub cluster: Option<ClusterFacts>,
}

/// What only a cluster has.
pub struct ClusterFacts {
    pub leadership: watch::Receiver<Leadership>,
    pub fleet: Fleet,
    /// How the watches of the resources stand.
    pub states: watch::Receiver<States>,
}

/// Tells the overview what happens on one bus.
pub struct Observer {
    events: Subscription,
    clock: WallClock,
    overview: Overview,
}

#[derive(Default)]
struct Inner {
    process: RwLock<Option<Arc<ProcessFacts>>>,
    iteration: RwLock<Option<Arc<IterationFacts>>>,
    record: Mutex<Record>,
    plugins: Mutex<PluginStatuses>,
}

// === impl Overview ===

impl Overview {
    /// Before anything else is told.
    pub fn begin(&self, facts: ProcessFacts) {
        self.0.record.lock().started = Some(facts.clock.timestamp());
        *self.0.process.write() = Some(Arc::new(facts));
    }

    /// This iteration serves from now on.
    pub fn serves(&self, facts: IterationFacts) {
        // It was accepted; what is wrong with a later one is told again.
        self.0.record.lock().config = ConfigRecord::default();
        *self.0.iteration.write() = Some(Arc::new(facts));
    }

    /// It serves no longer, unless a later one took its place meanwhile.
    pub fn ends(&self, number: u64) {
        self.0.iteration.write().take_if(|facts| facts.number == number);
    }

    /// The first configuration is not accepted, and no bus could tell so.
    pub fn waits(&self, findings: &[Finding]) {
        let Some(process) = self.0.process.read().clone() else { return };
        self.0.record.lock().config.refuse(findings.into(), process.clock.timestamp());
    }

    /// A follower has rendered: nobody serves it, but searches can be answered.
    pub fn warmed(&self, render: Arc<Render>) {
        let mut record = self.0.record.lock();
        (record.newest, record.deployed) = (None, None);
        record.warm = Some(render);
    }

    /// The task that follows a bus; subscribe before the bus starts.
    pub fn observe(&self, bus: &EventBus, clock: WallClock) -> Observer {
        let kinds = [
            EventKind::ConfigValidated,
            EventKind::ConfigInvalid,
            EventKind::BecameLeader,
            EventKind::HAProxyPodsDiscovered,
            EventKind::TemplateRendered,
            EventKind::ReconciliationFailed,
            EventKind::RenderGateCompleted,
            EventKind::DeploymentCompleted,
            EventKind::ReconciliationCompleted,
        ];
        Observer { events: bus.observe("Overview", &kinds), clock, overview: self.clone() }
    }

    /// How everything stands now. `health` = what `/healthz` says.
    pub fn document(&self, health: Report) -> StatusDocument {
        let process = self.0.process.read().clone();
        let iteration = self.0.iteration.read().clone();
        let mut record = self.0.record.lock().clone();
        // What this replica knew as a leader says nothing about now.
        if !leads(iteration.as_deref()) {
            record.forget_deployments();
        }
        let plugins = process.as_deref().map(|process| {
            let core = iteration.as_deref().map(|iteration| iteration.core.get());
            let states = process.plugins.borrow().clone();
            let serving = core.as_ref().map(|core| &*core.plugins);
            self.0.plugins.lock().list(&states, serving, process.clock.timestamp())
        });
        StatusDocument::new(health, process.as_deref(), iteration.as_deref(), &record, plugins.unwrap_or_default())
    }

    /// Asks about the render that serves, or else about the newest one; `None` = nothing is rendered yet. Takes time for
    /// a large configuration.
    pub fn explained<T>(&self, ask: impl FnOnce(Explained<'_>) -> T) -> Option<T> {
        let iteration = self.0.iteration.read().clone()?;
        let render = self.0.record.lock().shown(leads(Some(&iteration)))?;
        let core = iteration.core.get();
        Some(ask(Explained {
            rendered: &render.output.rendered,
            snapshot: &render.snapshot,
            renderer: &core.pipeline.renderer,
            sources: &core.sources,
        }))
    }

    fn take(&self, event: Event, clock: &WallClock) {
        self.0.record.lock().take(event, clock.timestamp());
    }
}

impl fmt::Debug for Overview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Overview")
    }
}

// === impl Observer ===

impl Observer {
    /// Ends when the bus is closed.
    pub async fn run(mut self) {
        while let Some(event) = self.events.next().await {
            self.overview.take(event, &self.clock);
        }
    }
}

/// Whether this process deploys.
fn leads(iteration: Option<&IterationFacts>) -> bool {
    match iteration.and_then(|iteration| iteration.cluster.as_ref()) {
        Some(cluster) => matches!(*cluster.leadership.borrow(), Leadership::Leader { .. }),
        None => true,
    }
}

#[cfg(test)]
mod tests;
