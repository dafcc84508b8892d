//! Discovery of the HAProxy pods: which there are, which HAProxy each runs, and the highest leader epoch that one of
//! them has seen.
//!
//! Pods come from a watch of the API server, versions and epochs from the agents in them. Each pod is asked by a task
//! of its own, so one that never answers delays nobody. While the API server is away nothing is withdrawn.
//!
//! ```text
//! pods (watch) ─▶ candidates ─▶ an inquiry each ─▶ Roster ─▶ HAProxyPodsDiscovered, Fleet
//! ```

mod candidate;
mod inquiry;
mod metrics;
mod roster;

use std::{collections::BTreeMap, sync::Arc};

use haptic_api as api;
use haptic_kubernetes::{Api, Source, SourceEnded, SourceSettings, Update, Wanted};
use haptic_model::{Finding, FindingCode};
use haptic_store::WatchedResource;
use thiserror::Error;
use tokio::{
    sync::{mpsc, watch},
    task::JoinError,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    agent_port::Connect,
    bus::{EventBus, Subscription},
    clock::until,
    cluster::discovery::{inquiry::Answer, roster::Roster},
    events::{Event, EventKind},
    pod::Pod,
};

pub use metrics::DiscoveryMetrics;

/// Answers that wait to be looked at; who finds no place waits.
const ANSWERS: usize = 64;

/// Runs on every replica, one in an iteration.
pub struct Discovery {
    bus: Arc<EventBus>,
    events: Subscription,
    api: Api,
    wanted: Wanted,
    source: SourceSettings,
    stop: CancellationToken,
    roster: Roster,
    answers: mpsc::Receiver<Answer>,
    rounds: watch::Receiver<u64>,
    told: Told,
    /// What was published; `None` = nothing yet.
    published: Option<Arc<[Pod]>>,
}

/// Which pods are looked for, and how.
#[derive(Clone, Debug)]
pub struct DiscoverySettings {
    wanted: Wanted,
    agent_port: u16,
    source: SourceSettings,
    metrics: DiscoveryMetrics,
}

/// What discovery knows. Cheap to clone; stays readable after discovery has ended.
#[derive(Clone, Debug)]
pub struct Fleet {
    pods: watch::Receiver<Arc<[Pod]>>,
    rejected: watch::Receiver<Arc<[RejectedPod]>>,
    seen_epoch: watch::Receiver<u64>,
    synced: watch::Receiver<bool>,
    wanted: watch::Sender<u64>,
    settled: watch::Receiver<u64>,
}

/// A pod that gets no configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedPod {
    pub name: Arc<str>,
    /// Why, and the next step.
    pub reason: Arc<str>,
}

/// One round of questions to every pod.
#[derive(Debug)]
#[must_use]
pub struct Round {
    number: u64,
    settled: watch::Receiver<u64>,
}

#[derive(Debug, Error)]
pub enum DiscoveryError {
    #[error("following the HAProxy pods failed")]
    Source(#[from] SourceEnded),
    #[error("asking an agent stopped unexpectedly")]
    Inquiry(#[source] JoinError),
}

/// Where updates of pods come from.
trait PodUpdates: Send {
    /// Safe to cancel.
    fn next(&mut self) -> impl Future<Output = Result<Update, SourceEnded>> + Send;
}

/// The sending halves of a [`Fleet`].
struct Told {
    pods: watch::Sender<Arc<[Pod]>>,
    rejected: watch::Sender<Arc<[RejectedPod]>>,
    seen_epoch: watch::Sender<u64>,
    synced: watch::Sender<bool>,
    settled: watch::Sender<u64>,
}

// === impl DiscoverySettings ===

impl DiscoverySettings {
    /// The pods of `namespace` that have all of `match_labels` and whose agents listen on `agent_port`.
    ///
    /// # Errors
    /// When there are no labels, which would take every pod of the namespace for an HAProxy, or one is not a label.
    pub fn new(
        namespace: &str,
        match_labels: &BTreeMap<String, String>,
        agent_port: u16,
        source: SourceSettings,
        metrics: DiscoveryMetrics,
    ) -> Result<Self, Vec<Finding>> {
        if match_labels.is_empty() {
            let message = "spec.podSelector.matchLabels is empty, so no pod is known to run HAProxy";
            let finding = Finding::error(FindingCode::ConfigInvalid, message);
            return Err(vec![finding.hint("write the labels of the HAProxy pods into spec.podSelector.matchLabels")]);
        }
        let labels: Vec<_> = match_labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
        let spec = api::WatchedResource {
            api_version: Some("v1".to_owned()),
            resources: "pods".to_owned(),
            kind: Some("Pod".to_owned()),
            namespaces: vec![namespace.to_owned()],
            label_selector: Some(labels.join(",")),
            ..api::WatchedResource::default()
        };
        let wanted = Wanted::whole(WatchedResource::new("spec.podSelector", &spec, &[])?);
        Ok(Self { wanted, agent_port, source, metrics })
    }
}

// === impl Discovery ===

impl Discovery {
    /// Nothing is asked before [`Self::run`].
    pub fn new(
        bus: &Arc<EventBus>,
        api: Api,
        settings: DiscoverySettings,
        connect: Connect,
        stop: CancellationToken,
    ) -> (Self, Fleet) {
        let DiscoverySettings { wanted, agent_port, source, metrics } = settings;
        let (rounds, answers) = (watch::Sender::new(1), mpsc::channel(ANSWERS));
        let told = Told {
            pods: watch::Sender::new([].into()),
            rejected: watch::Sender::new([].into()),
            seen_epoch: watch::Sender::new(0),
            synced: watch::Sender::new(false),
            settled: watch::Sender::new(0),
        };
        let fleet = Fleet {
            pods: told.pods.subscribe(),
            rejected: told.rejected.subscribe(),
            seen_epoch: told.seen_epoch.subscribe(),
            synced: told.synced.subscribe(),
            wanted: rounds.clone(),
            settled: told.settled.subscribe(),
        };
        let kinds = [EventKind::DriftPreventionTriggered, EventKind::DeploymentCompleted];
        let discovery = Self {
            bus: bus.clone(),
            events: bus.subscribe("Discovery", &kinds),
            api,
            wanted,
            source,
            stop,
            rounds: rounds.subscribe(),
            roster: Roster::new(agent_port, connect, metrics, rounds, answers.0),
            answers: answers.1,
            told,
            published: None,
        };
        (discovery, fleet)
    }

    /// Ends when it is stopped or the bus is closed.
    ///
    /// # Errors
    /// When one of its own tasks stopped unexpectedly; what the API server or an agent does is no error.
    pub async fn run(self) -> Result<(), DiscoveryError> {
        let source = Source::start(self.api.clone(), [self.wanted.clone()], self.source.clone());
        self.follow(source).await
    }

    async fn follow(mut self, mut updates: impl PodUpdates) -> Result<(), DiscoveryError> {
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ok(()),
                event = self.events.next() => match event {
                    Some(event) => self.ask_after(&event),
                    None => return Ok(()),
                },
                update = updates.next() => self.roster.take(&update?),
                Some(answer) = self.answers.recv() => self.roster.hear(answer),
                () = until(self.roster.next_deadline()) => self.roster.give_up(Instant::now()),
                // Of an empty fleet every round is answered at once.
                Ok(()) = self.rounds.changed() => {}
            }
            // Pods that answer together are told together.
            while let Ok(answer) = self.answers.try_recv() {
                self.roster.hear(answer);
            }
            self.roster.sweep().map_err(DiscoveryError::Inquiry)?;
            self.tell();
        }
    }

    fn ask_after(&self, event: &Event) {
        // The first apply starts HAProxy, and then its version can be known.
        if !matches!(event, Event::DeploymentCompleted { .. }) || self.roster.lacks_version() {
            self.roster.ask_again();
        }
    }

    fn tell(&mut self) {
        self.told.seen_epoch.send_if_modified(|seen| update(seen, self.roster.seen_epoch()));
        self.told.rejected.send_if_modified(|rejected| update(rejected, self.roster.rejected().into()));
        if let Some(pods) = self.roster.fleet()
            && self.published.as_deref() != Some(&pods[..])
            // A fleet of nobody is not the first that is told of while pods are about to answer.
            && !(self.published.is_none() && pods.is_empty() && self.roster.is_waiting())
        {
            let pods: Arc<[Pod]> = pods.into();
            self.published = Some(pods.clone());
            self.told.pods.send_replace(pods.clone());
            self.bus.publish(Event::HAProxyPodsDiscovered { correlation: self.bus.correlate(), pods });
        }
        self.told.settled.send_if_modified(|settled| update(settled, self.roster.settled_round()));
        // Once true it stays true, and whoever waited for it finds the pods.
        self.told.synced.send_if_modified(|synced| !*synced && update(synced, self.roster.is_synced()));
    }
}

// === impl Source ===

impl PodUpdates for Source {
    async fn next(&mut self) -> Result<Update, SourceEnded> {
        Self::next(self).await
    }
}

// === impl Fleet ===

impl Fleet {
    /// The admitted pods, sorted by name; empty before the first list.
    pub fn pods(&self) -> watch::Receiver<Arc<[Pod]>> {
        self.pods.clone()
    }

    /// The pods that get no configuration, sorted by name.
    pub fn rejected(&self) -> watch::Receiver<Arc<[RejectedPod]>> {
        self.rejected.clone()
    }

    /// The highest leader epoch that an agent has told of since discovery started. It never falls.
    pub fn seen_epoch(&self) -> watch::Receiver<u64> {
        self.seen_epoch.clone()
    }

    /// Becomes true, and stays so, when the first list came and each pod of it answered or was given up: 10 s after
    /// the list at the latest. While the API server is away it does not come.
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.synced.clone()
    }

    /// Asks every pod now, whenever it was asked last.
    pub fn ask_again(&self) -> Round {
        let mut number = 0;
        self.wanted.send_modify(|wanted| {
            *wanted += 1;
            number = *wanted;
        });
        Round { number, settled: self.settled.clone() }
    }
}

// === impl Round ===

impl Round {
    /// Waits until every pod was asked after the round began, and has answered or failed to: 10 s at most for a pod
    /// that hangs, but without bound while the first list of pods does not come. Ends with discovery too.
    pub async fn answered(mut self) {
        // Discovery ended: nobody will answer.
        let _ = self.settled.wait_for(|settled| *settled >= self.number).await;
    }
}

fn update<T: PartialEq>(current: &mut T, new: T) -> bool {
    let modified = *current != new;
    *current = new;
    modified
}

#[cfg(test)]
mod tests;
