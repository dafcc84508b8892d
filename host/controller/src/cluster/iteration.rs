//! One iteration: Stages 1 to 5 make it, Stages 6 to 8 make it serve. Its tasks are its own and are joined before the
//! next iteration takes its place.

use std::{convert::Infallible, sync::Arc, time::Duration};

use haptic_kubernetes::{
    Election, ElectionClock, ElectionSettings, Ending, Jitter, SourceEnded, SourceSettings, States,
};
use haptic_model::{Finding, FindingCode};
use haptic_store::Store;
use thiserror::Error;
use tokio::{
    sync::watch,
    task::{JoinError, spawn_blocking},
    time::{Sleep, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    admission::{Admission, Pinned, ReadFromApi},
    agent_port::Connect,
    agents,
    bus::EventBus,
    check::CancelOnDrop,
    cluster::{
        Shared,
        accepted::{AcceptedSnapshot, Loader, NotAccepted},
        config_change::ConfigChangeHandler,
        config_watch::{ConfigPicture, ConfigPictures},
        credentials::AgentCredentials,
        discovery::{Discovery, DiscoverySettings, Fleet},
        fault::HandOverFault,
        follower::{FollowerWarmer, WARM_UP},
        leader::{LeaderElection, Leading, Retired, TermParts, lowest_version},
        on_demand::OnDemandReader,
        probes::{IterationHealth, Stage, Variables},
        reload_authority::ReloadAuthority,
        resource_feed::{ResourceFeed, announce_initial_sync},
        schema::SchemaWatch,
        standing::{ConfigStanding, Refused, Served},
        webhook::{self, Judge},
    },
    commentator::Commentator,
    config::Candidate,
    core::{ActiveCore, fingerprint},
    events::Event,
    feed::GateParts,
    load_gate::{Accepted, Serving, Vetted},
    metrics::MetricsObserver,
    overview::{ClusterFacts, IterationFacts},
    quarantine::Quarantine,
    reconciler::Reconciler,
    supervisor::{IterationError, Supervisor},
};

pub(crate) struct Iteration {
    pub number: u64,
    pub authority: Arc<ReloadAuthority>,
    shared: Arc<Shared>,
    bus: Arc<EventBus>,
    supervisor: Supervisor,
    stop: CancellationToken,
    health: IterationHealth,
    made: Option<Made>,
    leading: Option<Leading>,
}

/// What Stages 2 to 5 made.
struct Made {
    picture: Arc<ConfigPicture>,
    core: ActiveCore,
    quarantine: Arc<Quarantine>,
    fleet: Fleet,
    leader_election: ElectionSettings,
    served: Served,
    /// How the watches of the resources stand.
    states: watch::Receiver<States>,
    leads: watch::Sender<bool>,
    gate: GateParts,
    connect: Connect,
    /// The watched resources in the versions in which they are read.
    pinned: Vec<Pinned>,
}

/// Why an iteration was not made.
#[derive(Debug, Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    NotAccepted(#[from] NotAccepted),
    /// Under it an object that serves today would be lost, or HAProxy refuses it.
    #[error("the configuration does not hold for the objects that are there: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    NotProved(Vec<Finding>),
    /// Watched resources were not read in time.
    #[error("watched resources cannot be read: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    NotSynced(Vec<Finding>),
    #[error(transparent)]
    Source(#[from] SourceEnded),
    #[error(transparent)]
    Iteration(#[from] IterationError),
    #[error("proving the configuration stopped unexpectedly")]
    Proof(#[source] JoinError),
}

// === impl Iteration ===

impl Iteration {
    /// Stage 1. Nothing of it is started before [`Self::make`].
    pub(crate) fn new(shared: Arc<Shared>, number: u64) -> Self {
        let health = shared.health.iteration(number);
        health.stage(Stage::ConfigManagement);
        let bus = EventBus::counted(&shared.cluster_metrics.buses);
        let mut supervisor = Supervisor::default();
        let stop = shared.stop.child_token();
        let commentator = Commentator::new(&bus, shared.clock.clone(), shared.history.clone());
        supervisor.spawn("Commentator", commentator.run());
        let observer = MetricsObserver::new(&bus, shared.metrics.clone(), shared.clock.clone());
        supervisor.spawn("Metrics", observer.run());
        if let Some(observer) = shared.traces.observe(&bus, number, shared.clock.clone()) {
            supervisor.spawn("Traces", observer.run());
        }
        supervisor.spawn("Overview", shared.debugged.overview().observe(&bus, shared.clock.clone()).run());
        Self { number, authority: Arc::default(), shared, bus, supervisor, stop, health, made: None, leading: None }
    }

    /// Stages 2 to 5 and the warm-up: from an accepted snapshot, or from live state. `serving` is what serves today.
    /// A future that is dropped has started tasks: [`Self::tear_down`] ends them.
    ///
    /// # Errors
    /// When the configuration does not pass or a stage ends. What serves is not touched.
    pub(crate) async fn make(
        &mut self,
        snapshot: Option<Box<AcceptedSnapshot>>,
        serving: Option<&Self>,
    ) -> Result<(), StartError> {
        let mut loader = self.shared.loader();
        if let Some(version) = serving.and_then(|serving| lowest_version(&serving.made.as_ref()?.fleet)) {
            loader.gate.haproxy = version;
        }

        self.health.stage(Stage::AcceptedConfig);
        let snapshot = match snapshot {
            Some(snapshot) => *snapshot,
            None => {
                let picture = tokio::select! {
                    picture = self.shared.picture() => picture,
                    never = tell_what_is_waited_for(CONFIG, self.shared.config_states.clone(), &self.health) => {
                        match never {}
                    }
                };
                self.health.component(CONFIG, None);
                loader.load(picture).await?
            }
        };
        let AcceptedSnapshot { picture, candidate, vetted, resolution, credentials, mut warnings, waits } = snapshot;

        self.health.stage(Stage::ResourceWatchers);
        let resources = vetted.resources.clone();
        let mut feed = ResourceFeed::start(
            self.shared.api.clone(),
            &resources,
            &resolution,
            SourceSettings::new(Jitter::random()),
        );
        let reader = OnDemandReader::new(self.shared.api.clone(), resolution.clone());
        let mut store = Store::on_demand(resources.clone(), Arc::new(reader));
        let states = feed.states();
        // A first start has nothing better to do; a successor that waits keeps a dead predecessor from being noticed.
        let patience = serving.map(|_| sleep(PATIENCE));
        tokio::select! {
            synced = feed.wait_for_all_sync(&mut store) => synced?,
            never = tell_what_is_waited_for(WATCHERS, states.clone(), &self.health) => match never {},
            () = ends(patience) => return Err(StartError::NotSynced(unread(&states.borrow(), &candidate.name))),
        }
        self.health.component(WATCHERS, None);
        let accepted = self.prove(&loader, &candidate, vetted, store, serving).await?;
        let Accepted { core, warnings: proved, refused } = accepted;
        warnings.extend(proved);

        self.health.stage(Stage::ConfigWatchers);
        // A term without an identity could ask nobody, so a snapshot always has one.
        let connect = agents::connect(credentials.identity());
        self.supervisor.spawn(
            "CredentialsWatch",
            follow_credentials(
                credentials,
                self.shared.pictures.clone(),
                self.shared.standing.clone(),
                self.stop.clone(),
            ),
        );
        // What an earlier attempt was refused for is over: the handler judges anew whatever is newer than this.
        self.shared.standing.send_if_modified(|standing| {
            standing.refused.is_some() && Arc::make_mut(standing).refused.take().is_some()
        });
        let handler = ConfigChangeHandler {
            bus: self.bus.clone(),
            pictures: self.shared.pictures.clone(),
            active: picture.clone(),
            active_waits: waits,
            loader: loader.clone(),
            authority: self.authority.clone(),
            standing: self.shared.standing.clone(),
            stop: self.stop.clone(),
        };
        self.supervisor.spawn("ConfigChangeHandler", handler.run());
        let pinned = webhook::pinned(&resources, &resolution);
        let schema = SchemaWatch::new(
            &self.shared.api,
            &resources,
            resolution,
            feed.definitions(),
            self.authority.clone(),
            self.stop.clone(),
        );
        self.supervisor.spawn("SchemaWatch", schema.run());

        self.health.stage(Stage::Reconciliation);
        let quarantine = Arc::new(Quarantine::default());
        let snapshot = core.store.lock().snapshot();
        quarantine.add(refused, |object| fingerprint(&snapshot, object));
        announce_initial_sync(&self.bus, &core.store.lock());
        let core = ActiveCore::new(Arc::new(core));
        let spec = &candidate.cluster;
        let discovery = DiscoverySettings::new(
            &self.shared.config.namespace,
            &spec.pod_labels,
            self.shared.agent_port,
            SourceSettings::new(Jitter::random()),
            self.shared.discovery_metrics.clone(),
        )
        .map_err(|findings| NotAccepted::Refused { findings, waits: false })?;
        let (discovery, fleet) =
            Discovery::new(&self.bus, self.shared.api.clone(), discovery, connect.clone(), self.stop.clone());
        self.supervisor.spawn_fallible("Discovery", discovery.run());
        self.supervisor.spawn("Reconciler", Reconciler::new(&self.bus).run());
        let (leads, rests) = watch::channel(false);
        let (warmer, mut warm) = FollowerWarmer::new(
            &self.bus,
            core.clone(),
            quarantine.clone(),
            self.shared.clock.clone(),
            fleet.clone(),
            loader.gate.haproxy,
            rests,
        );
        self.supervisor.spawn("FollowerWarmer", warmer.telling(self.shared.debugged.overview()).run());
        let (own_writes, stop) = (self.shared.own_writes.clone(), self.stop.clone());
        self.supervisor.spawn_fallible("ResourceWatcher", feed.run(self.bus.clone(), core.clone(), own_writes, stop));
        self.bus.publish(Event::IndexSynchronized { correlation: self.bus.correlate() });
        self.bus.start();

        let leader_election = ElectionSettings {
            lease_duration: spec.leader_election.lease_duration.get(),
            renew_deadline: spec.leader_election.renew_deadline.get(),
            retry_period: spec.leader_election.retry_period.get(),
            ..ElectionSettings::new(
                &*self.shared.config.namespace,
                spec.leader_election.lease_name.clone(),
                self.shared.identity.clone(),
            )
        };
        let gate = loader.gate;
        let served = Served { generation: picture.generation, warnings: warnings.into() };
        self.made = Some(Made {
            picture,
            core,
            quarantine,
            fleet,
            leader_election,
            served,
            states,
            leads,
            gate,
            connect,
            pinned,
        });
        // A render that is not warm by then is cold in the term; that costs time and nothing else.
        let warmed = async {
            let _ = warm.wait_for(|warm| *warm).await;
        };
        tokio::select! {
            ended = self.supervisor.ended_early() => Err(ended.into()),
            failure = self.bus.failed() => Err(IterationError::from(failure).into()),
            _ = timeout(WARM_UP, warmed) => Ok(()),
        }
    }

    /// Stages 6 to 8. `resumes` = this process leads: then the Lease is taken over before anything else goes on.
    ///
    /// # Errors
    /// When a stage ends meanwhile.
    pub(crate) async fn serve(&mut self, resumes: bool) -> Result<(), IterationError> {
        let Some(made) = &self.made else { return Ok(()) };
        self.health.stage(Stage::LeaderElection);
        let clock = ElectionClock::new(self.shared.clock.reader());
        let jitter = Jitter::random();
        let (election, candidate) = Election::new(self.shared.api.clone(), made.leader_election.clone(), clock, jitter);
        let parts = TermParts {
            bus: self.bus.clone(),
            core: made.core.clone(),
            quarantine: made.quarantine.clone(),
            clock: self.shared.clock.clone(),
            gate: made.gate.clone(),
            connect: made.connect.clone(),
            fleet: made.fleet.clone(),
            writers: self.shared.writers(),
            metrics: self.shared.cluster_metrics.clone(),
        };
        self.shared.cluster_metrics.serves(self.number, made.core.clone());
        self.shared.standing.send_modify(|standing| {
            let standing = Arc::make_mut(standing);
            standing.owner.clone_from(&made.picture.owner);
            standing.serving = Some(made.served.clone());
        });
        let (leader, leading) = LeaderElection::start(parts, election, candidate, made.leads.clone());
        self.supervisor.spawn_fallible("LeaderElection", leader.run());
        if resumes {
            let resumed = timeout(made.leader_election.renew_deadline, leading.until_leader());
            tokio::select! {
                ended = self.supervisor.ended_early() => return Err(ended),
                // The API server may be away: then it is a follower that stands for election.
                _ = resumed => {}
            }
            if self.shared.fault.as_ref().is_some_and(HandOverFault::fires) {
                self.leading = Some(leading);
                return Err(IterationError::EndedEarly { stage: "HandOverFault" });
            }
        }
        let leadership = leading.leadership.clone();
        self.leading = Some(leading);

        self.health.stage(Stage::Webhook);
        self.admit(made).await?;
        self.health.stage(Stage::Debug);
        self.shared.debugged.overview().serves(IterationFacts {
            number: self.number,
            core: made.core.clone(),
            cluster: Some(ClusterFacts {
                leadership: leadership.clone(),
                fleet: made.fleet.clone(),
                states: made.states.clone(),
            }),
        });
        self.shared.debugged.register(
            self.number,
            Variables::default()
                .leadership(leadership)
                .fleet(&made.fleet)
                .mailboxes(self.bus.clone())
                .resources(made.core.clone())
                .reconciliations(self.shared.history.clone()),
        );
        self.health.serving();
        Ok(())
    }

    /// Stage 7: from now on this iteration judges what API servers ask.
    async fn admit(&self, made: &Made) -> Result<(), IterationError> {
        let Some(door) = &self.shared.webhook else {
            tracing::info!(iteration = self.number, "there is no --webhook-listen, so no write is judged");
            return Ok(());
        };
        let fresh = Arc::new(ReadFromApi::new(self.shared.api.clone(), made.pinned.clone()));
        let (core, quarantine, gate, clock) =
            (made.core.clone(), made.quarantine.clone(), made.gate.clone(), self.shared.clock.clone());
        let check = door.timed(gate.check.clone());
        let fleet = made.fleet.clone();
        let haproxy = move || lowest_version(&fleet).unwrap_or(gate.haproxy);
        let admission = spawn_blocking(move || Admission::warm(core, quarantine, check, clock, haproxy, fresh)).await;
        let admission = admission.map_err(IterationError::Panicked)?;
        door.install(Judge::new(self.number, made.pinned.clone(), admission, self.shared.api.clone()));
        Ok(())
    }

    /// Why it is to be replaced, or why it ended. Safe to cancel.
    pub(crate) async fn ended_early(&mut self) -> IterationError {
        tokio::select! {
            ended = self.supervisor.ended_early() => ended,
            failure = self.bus.failed() => failure.into(),
        }
    }

    /// The leader-only stages stop and the election stops with the Lease kept. Says whether it led.
    pub(crate) async fn retire(&mut self) -> bool {
        match &mut self.leading {
            Some(leading) => leading.end(Ending::Keep).await == Retired::Leader,
            None => false,
        }
    }

    /// A candidate that this iteration accepted did not hold: it goes on serving.
    pub(crate) fn refused(&self, generation: i64, findings: Arc<[Finding]>) {
        let refused = Refused { generation, findings: findings.clone() };
        self.shared.standing.send_modify(|standing| Arc::make_mut(standing).refused = Some(refused));
        let name = self.shared.config.to_string().into();
        self.bus.publish(Event::ConfigInvalid { correlation: self.bus.correlate(), name, findings });
    }

    /// Ends everything of it and joins it. The Lease is given up if `ending` says so and it was not kept before.
    pub(crate) async fn tear_down(mut self, ending: Ending) {
        if let Some(leading) = &mut self.leading {
            leading.end(ending).await;
        }
        self.health.retired();
        self.shared.debugged.withdraw(self.number);
        // At the end of the process it goes on judging until API servers have heard of it.
        if let Some(door) = self.shared.webhook.as_ref().filter(|_| !self.shared.health.is_stopping()) {
            door.withdraw(self.number);
        }
        self.shared.cluster_metrics.withdraw(self.number);
        self.stop.cancel();
        self.bus.close();
        if let Err(error) = self.supervisor.stopped().await {
            let error: &(dyn std::error::Error + 'static) = &error;
            tracing::warn!(iteration = self.number, error, "a stage ended badly");
        }
    }

    /// For who asks for its health.
    pub(crate) fn tell_failure(&self, error: &StartError) {
        self.health.failed(error.to_string());
    }

    async fn prove(
        &self,
        loader: &Loader,
        candidate: &Candidate,
        vetted: Vetted,
        store: Store,
        serving: Option<&Self>,
    ) -> Result<Accepted, StartError> {
        let gate = loader.gate.clone();
        let serving = serving.and_then(|serving| serving.made.as_ref()).map(|made| Serving {
            quarantined: made.quarantine.units(),
            core: made.core.get(),
            haproxy: gate.haproxy,
        });
        let candidate = candidate.clone();
        let guard = CancelOnDrop::default();
        let cancelled = guard.cancellation();
        let proved = spawn_blocking(move || {
            let request = gate.request(&candidate, &cancelled);
            vetted.prove(&request, store, serving.as_ref())
        })
        .await;
        proved.map_err(StartError::Proof)?.map_err(StartError::NotProved)
    }
}

/// How long a successor waits for its watched resources.
const PATIENCE: Duration = Duration::from_secs(30);

async fn ends(patience: Option<Sleep>) {
    match patience {
        Some(patience) => patience.await,
        None => std::future::pending().await,
    }
}

/// What was not read yet, and why.
fn waits(states: &States) -> impl Iterator<Item = (&Arc<str>, String)> {
    let unread = states.iter().filter(|(_, state)| !state.is_synced());
    unread.map(|(name, state)| {
        (name, state.trouble().map_or_else(|| "the server has not sent all of it".to_owned(), ToString::to_string))
    })
}

/// One finding for each resource that was not read yet.
fn unread(states: &States, config: &str) -> Vec<Finding> {
    waits(states)
        .map(|(name, reason)| {
            let message = format!("{config}: watchedResources.{name} is not read: {reason}");
            Finding::error(FindingCode::ConfigInvalid, message)
                .hint("correct the resource, or apply what `haptic rbac` says for this configuration")
        })
        .collect()
}

/// The names of the watchers where health is told.
const CONFIG: &str = "ConfigWatch";
const WATCHERS: &str = "ResourceWatcher";

/// Why a start-up waits, for who asks for its health.
async fn tell_what_is_waited_for(
    component: &'static str,
    mut states: watch::Receiver<States>,
    health: &IterationHealth,
) -> Infallible {
    loop {
        let waits: Vec<String> =
            waits(&states.borrow_and_update()).map(|(name, reason)| format!("{name}: {reason}")).collect();
        health.component(component, Some(waits.join("; ")).filter(|waits| !waits.is_empty()));
        if states.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Renewed credentials are taken over while everything goes on; what is wrong with them is told. Ends when it is told
/// to stop.
async fn follow_credentials(
    mut credentials: AgentCredentials,
    mut pictures: ConfigPictures,
    standing: Arc<watch::Sender<Arc<ConfigStanding>>>,
    stop: CancellationToken,
) {
    pictures.mark_changed();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            changed = pictures.changed() => {
                if changed.is_err() {
                    return stop.cancelled().await;
                }
                let newest = pictures.borrow_and_update().clone();
                // Another Secret is another configuration, which has credentials of its own.
                if let Some(secret) = newest.as_ref().and_then(|picture| picture.credentials.as_ref())
                    && credentials.is_of(&secret.key.namespace, &secret.key.name)
                {
                    credentials.update(secret.object.as_ref());
                }
            }
            () = sleep(EXPIRY) => credentials.check_expiry(),
        }
        let findings: Arc<[Finding]> = credentials.findings().into();
        standing.send_if_modified(|standing| {
            let differs = standing.credentials != findings;
            if differs {
                Arc::make_mut(standing).credentials = findings;
            }
            differs
        });
    }
}

/// How often the end of the certificate is looked at.
const EXPIRY: Duration = Duration::from_mins(10);
