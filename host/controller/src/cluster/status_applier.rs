//! The StatusApplier of a cluster (leader-only): conditions of the configuration object and of plugins, the load
//! balancer status of Ingresses, and Events about rejected objects.
//!
//! One half collects what the stages say into a `Picture`; the others each write one kind of thing from the newest
//! picture, at their own pace and with their own backoff, so that a slow API server delays no event and one refused
//! write stops no other. When the bus or its scope is closed the stage ends at once and writes nothing more.
//!
//! ```text
//! events, standing, findings, plugins ─▶ Picture ─┬▶ ConfigPass ─▶ HAProxyTemplateConfig.status
//!                                                 ├▶ PluginPass ─▶ HAProxyPlugin.status
//!                                                 ├▶ IngressPass ─▶ Ingress.status.loadBalancer
//!                                                 └▶ EventPass ─▶ Events
//! ```

mod conditions;
mod config_pass;
mod event_pass;
mod ingress_pass;
mod pass;
mod picture;
mod plugin_pass;
mod publish_service;

use std::{convert::Infallible, sync::Arc, time::Duration};

use haptic_kubernetes::{Api, Backoff, Failures, Jitter};
use tokio::sync::watch;

pub(in crate::cluster) use conditions::accepted;
pub(crate) use conditions::refusal;

use crate::{
    bus::{EventBus, Subscription},
    clock::WallClock,
    cluster::{
        OwnWrites,
        standing::ConfigStanding,
        status_applier::{
            config_pass::ConfigPass, event_pass::EventPass, ingress_pass::IngressPass, pass::follow, picture::Picture,
            plugin_pass::PluginPass,
        },
    },
    core::ActiveCore,
    events::EventKind,
    feed::ManifestFindings,
    plugin_loader::PluginState,
};

/// Who speaks in Events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// The controller, as a qualified name. Default: `haptic.rs/controller`.
    pub controller: Arc<str>,
    /// This process: the name of its pod.
    pub instance: Arc<str>,
}

/// How often and how patiently is written.
#[derive(Clone, Debug)]
pub struct WriteSettings {
    /// The least time between two rounds of writes of one kind. Default: 1 s.
    pub pace: Duration,
    /// How long pods may take to answer before the status says that they do not yet. Default: 2 s.
    pub grace: Duration,
    pub backoff: Backoff,
    pub jitter: Jitter,
}

pub struct ClusterStatusApplier {
    events: Subscription,
    standing: watch::Receiver<Arc<ConfigStanding>>,
    manifests: watch::Receiver<ManifestFindings>,
    plugins: watch::Receiver<Arc<Vec<PluginState>>>,
    clock: WallClock,
    picture: watch::Sender<Picture>,
    settings: WriteSettings,
    config: ConfigPass,
    plugin: PluginPass,
    ingress: IngressPass,
    event: EventPass,
}

// === impl Reporter ===

impl Reporter {
    pub fn new(instance: &str) -> Self {
        Self { controller: "haptic.rs/controller".into(), instance: instance.into() }
    }
}

// === impl WriteSettings ===

impl WriteSettings {
    /// The defaults.
    pub fn new(jitter: Jitter) -> Self {
        let (pace, grace) = (Duration::from_secs(1), Duration::from_secs(2));
        Self { pace, grace, backoff: Backoff::default(), jitter }
    }

    pub(super) fn failures(&self) -> Failures {
        Failures::new(self.backoff, self.jitter.clone())
    }
}

// === impl ClusterStatusApplier ===

impl ClusterStatusApplier {
    #[expect(clippy::too_many_arguments, reason = "it is made in one place, of parts that have nothing in common")]
    pub fn new(
        bus: &Arc<EventBus>,
        api: &Api,
        core: ActiveCore,
        standing: watch::Receiver<Arc<ConfigStanding>>,
        manifests: watch::Receiver<ManifestFindings>,
        plugins: watch::Receiver<Arc<Vec<PluginState>>>,
        own_writes: OwnWrites,
        clock: WallClock,
        reporter: Reporter,
        settings: WriteSettings,
    ) -> Self {
        let kinds = [
            EventKind::HAProxyPodsDiscovered,
            EventKind::TemplateRendered,
            EventKind::ReconciliationFailed,
            EventKind::RenderGateCompleted,
            EventKind::DeploymentCompleted,
            EventKind::DriftPreventionTriggered,
        ];
        let grace = settings.grace;
        Self {
            events: bus.subscribe("StatusApplier", &kinds),
            standing,
            manifests,
            plugins,
            picture: watch::Sender::new(Picture::default()),
            settings,
            config: ConfigPass::new(api.clone(), core.clone(), own_writes.clone(), clock.clone(), grace),
            plugin: PluginPass::new(api.clone(), Some(core.clone()), own_writes.clone(), clock.clone()),
            ingress: IngressPass::new(api.clone(), core, own_writes),
            event: EventPass::new(api.clone(), clock.clone(), reporter),
            clock,
        }
    }

    /// Ends when the bus, or the scope of it that this subscribed to, is closed.
    pub async fn run(self) {
        let Self { mut events, mut standing, mut manifests, mut plugins, clock, picture, settings, .. } = self;
        let (seen, pace) = (|| picture.subscribe(), settings.pace);
        let writers = (
            follow(self.config, seen(), pace, settings.failures()),
            follow(self.plugin, seen(), pace, settings.failures()),
            follow(self.ingress, seen(), pace, settings.failures()),
            follow(self.event, seen(), pace, settings.failures()),
        );
        let collector = async {
            let (mut standing_open, mut manifests_open, mut plugins_open) = (true, true, true);
            loop {
                picture.send_modify(|picture| {
                    picture.standing = standing.borrow_and_update().clone();
                    picture.manifests = manifests.borrow_and_update().clone();
                    picture.plugins = plugins.borrow_and_update().clone();
                });
                tokio::select! {
                    event = events.next() => match event {
                        Some(event) => picture.send_modify(|picture| picture.take(event, clock.timestamp())),
                        None => return,
                    },
                    changed = standing.changed(), if standing_open => standing_open = changed.is_ok(),
                    changed = manifests.changed(), if manifests_open => manifests_open = changed.is_ok(),
                    changed = plugins.changed(), if plugins_open => plugins_open = changed.is_ok(),
                }
            }
        };
        tokio::select! {
            // First, so that nothing is written any more once the term has ended.
            biased;
            () = collector => {}
            never = writers.0 => match never {},
            never = writers.1 => match never {},
            never = writers.2 => match never {},
            never = writers.3 => match never {},
        }
    }
}

/// Writes how the configuration and its plugins stand as long as nothing serves and nobody leads. Any replica may run
/// it, several at a time: they write only what differs, and never over what is known of a newer generation. What keeps
/// certificates from being issued is an Event already: without them nobody may ever lead. Ends never; dropping it ends
/// the writing.
pub async fn tell_of_standing(
    api: Api,
    mut standing: watch::Receiver<Arc<ConfigStanding>>,
    mut plugins: watch::Receiver<Arc<Vec<PluginState>>>,
    own_writes: OwnWrites,
    clock: WallClock,
    reporter: Reporter,
    settings: WriteSettings,
) -> Infallible {
    let (picture, certificates) = (watch::Sender::new(Picture::default()), watch::Sender::new(Picture::default()));
    let collector = async {
        let (mut standing_open, mut plugins_open) = (true, true);
        loop {
            picture.send_modify(|picture| {
                picture.standing = standing.borrow_and_update().clone();
                picture.plugins = plugins.borrow_and_update().clone();
            });
            let findings = standing.borrow().certificates.clone();
            certificates.send_modify(|picture| {
                picture.standing = Arc::new(ConfigStanding { certificates: findings, ..ConfigStanding::default() });
            });
            tokio::select! {
                changed = standing.changed(), if standing_open => standing_open = changed.is_ok(),
                changed = plugins.changed(), if plugins_open => plugins_open = changed.is_ok(),
                else => std::future::pending().await,
            }
        }
    };
    let config = ConfigPass::standing_only(api.clone(), own_writes.clone(), clock.clone());
    let event = EventPass::new(api.clone(), clock.clone(), reporter);
    let plugin = PluginPass::new(api, None, own_writes, clock);
    tokio::select! {
        never = collector => never,
        never = follow(config, picture.subscribe(), settings.pace, settings.failures()) => never,
        never = follow(plugin, picture.subscribe(), settings.pace, settings.failures()) => never,
        never = follow(event, certificates.subscribe(), settings.pace, settings.failures()) => never,
    }
}
