//! The stages of a term that write to the API server.

use std::sync::Arc;

use haptic_kubernetes::{Api, Jitter};
use tokio::sync::watch;

use crate::{
    bus::EventBus,
    clock::WallClock,
    cluster::{
        Shared,
        own_writes::OwnWrites,
        publisher::{ConfigPublisher, PublisherSettings},
        standing::ConfigStanding,
        status_applier::{ClusterStatusApplier, Reporter, WriteSettings},
    },
    core::ActiveCore,
    feed::ManifestFindings,
    plugin_loader::PluginState,
    supervisor::Supervisor,
};

/// What these stages are made of, for each term anew.
pub(crate) struct Writers {
    api: Api,
    identity: Arc<str>,
    standing: watch::Receiver<Arc<ConfigStanding>>,
    manifests: watch::Receiver<ManifestFindings>,
    plugins: watch::Receiver<Arc<Vec<PluginState>>>,
    own_writes: OwnWrites,
    clock: WallClock,
}

// === impl Writers ===

impl Writers {
    pub(super) fn of(shared: &Shared) -> Self {
        Self {
            api: shared.api.clone(),
            identity: shared.identity.clone(),
            standing: shared.standing.subscribe(),
            manifests: shared.findings.clone(),
            plugins: shared.gate.plugins.subscribe(),
            own_writes: shared.own_writes.clone(),
            clock: shared.clock.clone(),
        }
    }

    /// Makes each stage, subscribed to its events, and hands its task to the supervisor.
    pub(crate) fn spawn(&self, bus: &Arc<EventBus>, core: &ActiveCore, supervisor: &mut Supervisor) {
        let jitter = Jitter::random();
        let settings = PublisherSettings::new(&core.get().reporting, jitter.clone());
        let publisher = ConfigPublisher::new(bus, &self.api, self.standing.clone(), self.clock.clone(), settings);
        supervisor.spawn("ConfigPublisher", publisher.run());
        let status = ClusterStatusApplier::new(
            bus,
            &self.api,
            core.clone(),
            self.standing.clone(),
            self.manifests.clone(),
            self.plugins.clone(),
            self.own_writes.clone(),
            self.clock.clone(),
            Reporter::new(&self.identity),
            WriteSettings::new(jitter),
        );
        supervisor.spawn("StatusApplier", status.run());
    }
}
