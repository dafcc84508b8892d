//! Cluster mode: the same stages, fed by the API server, for a fleet of pods, with one leader among the controllers.
//!
//! [`run_cluster`] is the reinitialization loop. An iteration serves one accepted configuration; a change builds a
//! successor beside it, which takes over the Lease with no vacancy, and only then the predecessor is torn down.
//!
//! ```text
//! ConfigWatch ─▶ ConfigChangeHandler ─▶ ReloadAuthority ─▶ successor: Stages 1–5 ─▶ hand-over ─▶ Stages 6–8
//! watched objects ─▶ store ─▶ FollowerWarmer (followers) or the leader-only stages of a term
//! ```

mod accepted;
pub mod certificates;
mod condition;
mod config_change;
mod config_watch;
pub mod credentials;
mod deployed;
pub mod discovery;
mod fault;
mod follower;
mod iteration;
mod leader;
mod metrics;
mod objects;
mod on_demand;
pub mod own_writes;
pub mod probes;
pub mod publisher;
pub mod rbac;
mod reload_authority;
mod resource_feed;
mod revise;
mod schema;
pub mod standing;
pub mod status_applier;
mod webhook;
mod writers;

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fmt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use haptic_haproxy::check::Checker;
use haptic_kubernetes::{Api, Ending, Jitter, SourceEnded, SourceSettings, States};
use haptic_model::Finding;
use haptic_plugins::PluginHost;
use thiserror::Error;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    check::Checkers,
    clock::{WallClock, until},
    cluster::{
        accepted::{AcceptedSnapshot, Loader, NotAccepted},
        config_watch::{ConfigPicture, ConfigPictures, ConfigWatch},
        iteration::{Iteration, StartError},
        metrics::{ClusterMetrics, Reinitialized},
        reload_authority::Reload,
        writers::Writers,
    },
    commentator::History,
    feed::{GateParts, ManifestFindings},
    metrics::Metrics,
    overview::ProcessFacts,
    plugin_loader::{FETCH_PATIENCE, FetchingError, PluginLoader, fetching},
    traces::Traces,
};

pub use certificates::{
    CertificateKeeper, CertificateMetrics, CertificateNames, CertificateSettings, CertificateSettingsError, Keys,
    Lifetimes, WebhookCertificate,
};
pub use config_watch::ConfigName;
pub use credentials::{AgentCredentials, CredentialsChange};
pub use discovery::{Discovery, DiscoveryError, DiscoveryMetrics, DiscoverySettings, Fleet, RejectedPod, Round};
pub use fault::{HandOverFault, InvalidHandOverFault};
pub use leader::LeaderError;
pub use own_writes::OwnWrites;
pub use probes::{
    DebugServer, Debugged, Health, IterationHealth, MetricsServer, ProbeServer, Report, ServeError, SharedRegistry,
    Stage, Variables,
};
pub use publisher::{ConfigPublisher, PublisherSettings};
pub use rbac::{Access, AccessNames};
pub use reload_authority::ReloadReason;
pub use standing::{ConfigOwner, ConfigStanding, Refused, Served};
pub use status_applier::{ClusterStatusApplier, Reporter, WriteSettings, tell_of_standing};
pub use webhook::{FailurePolicy, WebhookConfiguration, WebhookDoor, WebhookNames, WebhookServer};

/// Pauses between attempts to build an iteration, doubling.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(2);

pub struct ClusterOptions {
    pub config: ConfigName,
    /// Unique to this process: the name of its pod. Holder of the Lease and reporter of Events.
    pub identity: Arc<str>,
    pub api: Api,
    /// Holds caches of plugin modules; nothing that must survive.
    pub state_dir: PathBuf,
    /// One for each HAProxy minor version that is to judge renders; the last is asked while no pod is known.
    pub checkers: Vec<Checker>,
    /// The version of the last checker.
    pub haproxy: (u16, u16),
    /// Where the agents of HAProxy pods listen. Default of the command line: 5555.
    pub agent_port: u16,
    /// `None` = certificates are somebody else's work.
    pub certificates: Option<CertificateSettings>,
    pub plugin_host: Arc<PluginHost>,
    /// Plugin modules that come with the binary, by the name that manifests use.
    pub builtin_plugins: BTreeMap<String, Bytes>,
    pub clock: WallClock,
    pub history: History,
    pub health: Health,
    pub debugged: Debugged,
    /// Where the iteration that serves says who judges admission requests; `None` = there is no webhook.
    pub webhook: Option<WebhookDoor>,
    /// For tests only.
    pub fault: Option<HandOverFault>,
    pub traces: Traces,
    /// Ends the run: the Lease is given up.
    pub stop: CancellationToken,
}

#[derive(Debug, Error)]
pub enum ClusterError {
    #[error(transparent)]
    Modules(#[from] FetchingError),
    #[error("watching the configuration stopped")]
    ConfigWatch(#[from] SourceEnded),
    #[error("the configuration cannot be watched: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    ConfigName(Vec<Finding>),
    #[error("certificates cannot be kept: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    CertificateNames(Vec<Finding>),
    #[error("a task of the process stopped unexpectedly")]
    Task(#[from] tokio::task::JoinError),
}

/// What all iterations of the process share.
struct Shared {
    api: Api,
    config: ConfigName,
    identity: Arc<str>,
    agent_port: u16,
    gate: GateParts,
    clock: WallClock,
    history: History,
    metrics: Metrics,
    cluster_metrics: ClusterMetrics,
    discovery_metrics: DiscoveryMetrics,
    traces: Traces,
    health: Health,
    debugged: Debugged,
    webhook: Option<WebhookDoor>,
    pictures: ConfigPictures,
    standing: Arc<watch::Sender<Arc<ConfigStanding>>>,
    /// How the watches of the configuration stand.
    config_states: watch::Receiver<States>,
    findings: watch::Receiver<ManifestFindings>,
    /// Whether an iteration serves.
    serves: watch::Sender<bool>,
    own_writes: OwnWrites,
    fault: Option<HandOverFault>,
    stop: CancellationToken,
}

/// Runs until `stop` is cancelled. What is wrong with the cluster or the configuration is waited out; what serves, serves.
///
/// # Errors
/// When the process itself cannot go on.
pub async fn run_cluster(options: ClusterOptions, registry: &SharedRegistry) -> Result<(), ClusterError> {
    let standing: Arc<watch::Sender<Arc<ConfigStanding>>> = Arc::default();
    let keeper = certificate_keeper(&options, registry, &standing)?;
    let (metrics, cluster_metrics, discovery_metrics) = {
        let mut registry = registry.write();
        registry.register_collector(Box::new(options.plugin_host.metrics()));
        let metrics = Metrics::register(&mut registry);
        let of_cluster = ClusterMetrics::register(&mut registry, metrics.clone(), standing.subscribe());
        (metrics, of_cluster, DiscoveryMetrics::register(&mut registry))
    };
    let modules = fetching(&options.state_dir)?;
    let gate = GateParts {
        check: Arc::new(Checkers::new(options.checkers)),
        loader: PluginLoader::new(options.plugin_host, options.builtin_plugins, modules.clone()),
        haproxy: options.haproxy,
        clock: options.clock.clone(),
        fetch_patience: FETCH_PATIENCE,
        plugins: Arc::default(),
    };
    let settings = SourceSettings::new(Jitter::random());
    let (config_watch, pictures, findings) =
        ConfigWatch::start(options.api.clone(), &options.config, settings).map_err(ClusterError::ConfigName)?;
    let config_states = config_watch.states();
    // Ends with the run, after the iterations.
    let background = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    if let Some(keeper) = keeper {
        let ends = background.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = ends.cancelled() => Ok(()),
                ended = keeper.run() => ended.map(|never| match never {}),
            }
        });
    }
    let ends = background.clone();
    tasks.spawn(async move {
        tokio::select! {
            () = ends.cancelled() => Ok(()),
            ended = config_watch.run(ends.clone()) => ended,
        }
    });
    let ends = background.clone();
    tasks.spawn(async move {
        tokio::select! {
            () = ends.cancelled() => {}
            () = modules.run() => {}
        }
        Ok(())
    });
    options.debugged.overview().begin(ProcessFacts {
        identity: options.identity.clone(),
        clock: options.clock.clone(),
        manifests: findings.clone(),
        plugins: gate.plugins.subscribe(),
        standing: Some(standing.subscribe()),
    });
    let shared = Arc::new(Shared {
        api: options.api,
        config: options.config,
        identity: options.identity,
        agent_port: options.agent_port,
        gate,
        clock: options.clock,
        history: options.history,
        metrics,
        cluster_metrics,
        discovery_metrics,
        traces: options.traces,
        health: options.health,
        debugged: options.debugged,
        webhook: options.webhook,
        pictures,
        standing,
        config_states,
        findings,
        serves: watch::Sender::new(false),
        own_writes: OwnWrites::default(),
        fault: options.fault,
        stop: CancellationToken::new(),
    });
    let (ends, idle) = (background.clone(), shared.clone());
    tasks.spawn(async move {
        tokio::select! {
            () = ends.cancelled() => {}
            never = tell_while_nothing_serves(&idle) => match never {},
        }
        Ok(())
    });
    let mut reinitialization = Reinitialization::new(shared.clone());
    let outcome = tokio::select! {
        biased;
        () = options.stop.cancelled() => Ok(()),
        Some(ended) = tasks.join_next() => match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.into()),
            Err(error) => Err(error.into()),
        },
        never = reinitialization.run() => match never {},
    };
    shared.health.stop();
    // Every path gives the Lease up, also one in the middle of a hand-over.
    reinitialization.shut_down().await;
    background.cancel();
    while tasks.join_next().await.is_some() {}
    outcome
}

/// Lives as long as the process: without what it issues no configuration may be loadable.
fn certificate_keeper(
    options: &ClusterOptions,
    registry: &SharedRegistry,
    standing: &Arc<watch::Sender<Arc<ConfigStanding>>>,
) -> Result<Option<CertificateKeeper>, ClusterError> {
    let Some(settings) = options.certificates.clone() else { return Ok(None) };
    let keeper = CertificateKeeper::start(
        options.api.clone(),
        settings,
        options.clock.clone(),
        Keys::random(),
        Jitter::random(),
        CertificateMetrics::register(&mut registry.write()),
        standing.clone(),
    );
    keeper.map(Some).map_err(ClusterError::CertificateNames)
}

/// The loop: what serves, and what is to take its place.
struct Reinitialization {
    shared: Arc<Shared>,
    number: u64,
    serving: Option<Iteration>,
    successor: Option<Iteration>,
    /// Accepted while a start-up waited.
    next: Option<Box<AcceptedSnapshot>>,
    /// Reasons whose reload has not succeeded yet.
    pending: BTreeSet<ReloadReason>,
    failures: u32,
    /// The configuration as it was when the last attempt failed.
    failed: Option<Arc<ConfigPicture>>,
    /// When live state is tried again.
    retry: Option<Instant>,
}

/// What to build an iteration from.
enum Attempt {
    Snapshot(Box<AcceptedSnapshot>),
    Live,
}

enum Built {
    Made,
    Failed(StartError),
    /// Something newer is to be built, or nothing any more.
    GivenUp,
}

// === impl Reinitialization ===

impl Reinitialization {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            number: 0,
            serving: None,
            successor: None,
            next: None,
            pending: BTreeSet::new(),
            failures: 0,
            failed: None,
            retry: Some(Instant::now()),
        }
    }

    /// Never ends. Dropped at any point it leaves the iterations to [`Self::shut_down`].
    async fn run(&mut self) -> Infallible {
        loop {
            let Some(attempt) = self.next_attempt().await else { continue };
            match self.build(attempt).await {
                Built::Made => self.hand_over().await,
                Built::GivenUp => self.shared.cluster_metrics.reinitialized(Reinitialized::GivenUp),
                Built::Failed(error) => {
                    self.shared.cluster_metrics.reinitialized(Reinitialized::Failed);
                    self.failed(&error);
                    self.drop_successor().await;
                }
            }
        }
    }

    /// Waits for a reason to build an iteration; `None` = what served is gone.
    async fn next_attempt(&mut self) -> Option<Attempt> {
        let retry = self.retry;
        if let Some(next) = self.next.take() {
            return Some(Attempt::Snapshot(next));
        }
        if retry.is_none() {
            // Nothing follows at once on what was given up.
            self.drop_successor().await;
        }
        let Some(serving) = &mut self.serving else {
            // What was wrong may be made right at any time.
            let mut pictures = self.shared.pictures.clone();
            pictures.mark_unchanged();
            tokio::select! {
                () = until(retry) => {}
                Ok(()) = pictures.changed() => {}
            }
            return Some(Attempt::Live);
        };
        let authority = serving.authority.clone();
        tokio::select! {
            ended = serving.ended_early() => {
                tracing::error!(iteration = serving.number, "{}", Chain(&ended));
                self.lost().await;
                None
            }
            Reload { reasons, snapshot } = authority.next() => {
                tracing::info!(?reasons, "a successor is built");
                self.pending.extend(reasons);
                self.failures = 0;
                // A schema change that no successor has taken up yet holds for this snapshot, too.
                let snapshot = snapshot.filter(|_| !self.pending.contains(&ReloadReason::Schema));
                Some(snapshot.map_or(Attempt::Live, Attempt::Snapshot))
            }
            () = until(retry) => {
                self.retry = None;
                // What failed was taken back, or a newer one is judged by the iteration that serves.
                let failed = self.shared.pictures.borrow().clone().zip(self.failed.as_ref());
                let stands = failed.is_none_or(|(now, failed)| now.makes_the_same(failed));
                if !stands && self.pending.iter().all(|reason| *reason == ReloadReason::Config) {
                    self.pending.clear();
                    return None;
                }
                Some(Attempt::Live)
            }
        }
    }

    async fn build(&mut self, attempt: Attempt) -> Built {
        self.retry = None;
        self.number += 1;
        let next = Iteration::new(self.shared.clone(), self.number);
        // After the next one began: given up is not ended, for who asks for health.
        self.drop_successor().await;
        let snapshot = match attempt {
            Attempt::Snapshot(snapshot) => Some(snapshot),
            Attempt::Live => None,
        };
        let successor = self.successor.insert(next);
        let Some(serving) = &self.serving else {
            // What is accepted meanwhile cancels the waits of the start-up.
            return tokio::select! {
                biased;
                made = successor.make(snapshot, None) => made.map_or_else(Built::Failed, |()| Built::Made),
                newer = accepted_meanwhile(&self.shared) => {
                    tracing::info!("a newer configuration is accepted during the start-up, which begins anew");
                    self.next = Some(Box::new(newer));
                    Built::GivenUp
                }
            };
        };
        let mut news = serving.authority.watch();
        news.mark_unchanged();
        tokio::select! {
            biased;
            made = successor.make(snapshot, Some(serving)) => made.map_or_else(Built::Failed, |()| Built::Made),
            Ok(()) = news.changed() => {
                tracing::info!("a newer configuration came: the successor is given up");
                // Its own reason is retired; the others stay.
                self.pending.remove(&ReloadReason::Config);
                if !self.pending.is_empty() {
                    self.retry = Some(Instant::now());
                }
                Built::GivenUp
            }
        }
    }

    /// Stage 6 of the successor follows on the end of the predecessor's term, under the same identity.
    async fn hand_over(&mut self) {
        let Some(successor) = &mut self.successor else { return };
        let led = match &mut self.serving {
            Some(predecessor) => predecessor.retire().await,
            None => false,
        };
        if let Err(error) = successor.serve(led).await {
            tracing::error!(iteration = successor.number, "it failed after the hand-over: {}", Chain(&error));
            self.shared.cluster_metrics.reinitialized(Reinitialized::Failed);
            // Nothing of the two leads any more: both begin anew.
            self.drop_successor().await;
            self.lost().await;
            return;
        }
        tracing::info!(iteration = successor.number, "serving");
        self.shared.cluster_metrics.reinitialized(Reinitialized::Served);
        (self.failures, self.retry) = (0, None);
        self.pending.clear();
        let predecessor = std::mem::replace(&mut self.serving, self.successor.take());
        self.shared.serves.send_replace(true);
        if let Some(predecessor) = predecessor {
            predecessor.tear_down(Ending::Keep).await;
        }
    }

    fn failed(&mut self, error: &StartError) {
        if let Some(successor) = &self.successor {
            successor.tell_failure(error);
        }
        let picture = self.shared.pictures.borrow().clone();
        self.failed.clone_from(&picture);
        self.failures = self.failures.saturating_add(1);
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(8)).min(LONGEST_PAUSE);
        self.retry = Some(Instant::now() + pause);
        tracing::error!(iteration = self.number, ?pause, "the iteration was not made: {}", Chain(error));
        let findings: Arc<[Finding]> = match error {
            StartError::NotProved(findings)
            | StartError::NotSynced(findings)
            | StartError::NotAccepted(NotAccepted::Refused { findings, .. }) => findings.as_slice().into(),
            _ => return,
        };
        let generation = picture.as_ref().map_or(0, |picture| picture.generation);
        match &self.serving {
            Some(serving) => serving.refused(generation, findings),
            None => {
                let owner = picture.and_then(|picture| picture.owner.clone());
                let refused = Refused { generation, findings };
                self.shared.standing.send_modify(|standing| {
                    let standing = Arc::make_mut(standing);
                    (standing.owner, standing.refused) = (owner, Some(refused));
                });
            }
        }
    }

    /// What served is gone; live state is tried at once, and then with pauses.
    async fn lost(&mut self) {
        self.shared.serves.send_replace(false);
        if let Some(serving) = self.serving.take() {
            serving.tear_down(Ending::Release).await;
        }
        self.failures += 1;
        let pause = if self.failures > 1 { FIRST_PAUSE } else { Duration::ZERO };
        self.retry = Some(Instant::now() + pause);
    }

    async fn drop_successor(&mut self) {
        if let Some(successor) = self.successor.take() {
            successor.tear_down(Ending::Keep).await;
        }
    }

    async fn shut_down(mut self) {
        // The successor first: it may hold the Lease by now.
        if let Some(successor) = self.successor.take() {
            successor.tear_down(Ending::Release).await;
        }
        if let Some(serving) = self.serving.take() {
            serving.tear_down(Ending::Release).await;
        }
    }
}

// === impl Shared ===

impl Shared {
    fn loader(&self) -> Loader {
        Loader { api: self.api.clone(), gate: self.gate.clone(), config: self.config.clone() }
    }

    /// The newest complete picture of the configuration, once there is one.
    async fn picture(&self) -> Arc<ConfigPicture> {
        let mut pictures = self.pictures.clone();
        let picture = match pictures.wait_for(Option::is_some).await {
            Ok(picture) => picture.clone(),
            Err(_) => None,
        };
        match picture {
            Some(picture) => picture,
            // The watch of the configuration ended, and the process with it.
            None => std::future::pending().await,
        }
    }

    fn writers(&self) -> Writers {
        Writers::of(self)
    }
}

/// Without a leader nobody else tells why nothing serves.
async fn tell_while_nothing_serves(shared: &Shared) -> Infallible {
    let mut serves = shared.serves.subscribe();
    loop {
        let told = tell_of_standing(
            shared.api.clone(),
            shared.standing.subscribe(),
            shared.gate.plugins.subscribe(),
            shared.own_writes.clone(),
            shared.clock.clone(),
            Reporter::new(&shared.identity),
            WriteSettings::new(Jitter::random()),
        );
        tokio::select! {
            never = told => match never {},
            Ok(_) = serves.wait_for(|serves| *serves) => {}
        }
        if serves.wait_for(|serves| !*serves).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A candidate that passes while the start-up with an older one waits. The first picture is the older one.
async fn accepted_meanwhile(shared: &Shared) -> AcceptedSnapshot {
    let mut pictures = shared.pictures.clone();
    let mut judged = shared.picture().await;
    pictures.mark_unchanged();
    loop {
        if pictures.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        let newest = pictures.borrow_and_update().clone();
        let Some(picture) = newest.filter(|picture| !picture.makes_the_same(&judged)) else { continue };
        judged = picture.clone();
        match shared.loader().load(picture).await {
            Ok(snapshot) => return snapshot,
            Err(error) => tracing::warn!("a newer configuration came during the start-up: {}", Chain(&error)),
        }
    }
}

/// An error with its causes.
struct Chain<'a>(&'a dyn std::error::Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Display for ConfigName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HAProxyTemplateConfig {}/{}", self.namespace, self.name)
    }
}
