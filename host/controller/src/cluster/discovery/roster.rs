//! Every candidate, what its agent said, and the fleet that follows from it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use haptic_kubernetes::Update;
use haptic_store::{RawChange, RawObject};
use haptic_wire::API_VERSION;
use thiserror::Error;
use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, JoinError, JoinSet},
    time::Instant,
};

use crate::{
    agent_port::Connect,
    cluster::discovery::{
        candidate::Candidate,
        inquiry::{Answer, HaproxyVersion, Inquiry, Said, Silence},
        metrics::DiscoveryMetrics,
    },
    pod::{Endpoint, Pod},
};

/// How long a pod may take to answer before the fleet is told of it without its HAProxy version.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The oldest HAProxy that is served.
const OLDEST: (u16, u16) = (3, 0);

pub(super) struct Roster {
    agent_port: u16,
    connect: Connect,
    metrics: DiscoveryMetrics,
    wanted: watch::Sender<u64>,
    answers: mpsc::Sender<Answer>,
    inquiries: JoinSet<()>,
    next_inquiry: u64,
    pods: BTreeMap<Arc<str>, Known>,
    /// Pods of the first complete list that are still waited for; `None` = it did not come yet.
    first: Option<BTreeSet<Arc<str>>>,
    seen_epoch: u64,
}

struct Known {
    candidate: Candidate,
    inquiry: u64,
    task: AbortHandle,
    /// The newest round that was answered, by an answer or a failure.
    round: u64,
    standing: Standing,
}

enum Standing {
    Unheard { give_up: Instant, error: Option<Silence> },
    GivenUp,
    Admitted { haproxy: Option<(u16, u16)> },
    Rejected(Rejection),
}

/// Why a pod gets nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Rejection {
    #[error(
        "its HAProxy is {}, and {}.{} is the oldest that haptic configures; run a newer HAProxy image in the pod",
        .0, OLDEST.0, OLDEST.1
    )]
    OldHaproxy(String),
    #[error(
        "its agent speaks version {0} of the API, and this controller speaks {API_VERSION}; run agent and controller of \
         one release"
    )]
    OtherApi(u32),
}

// === impl Roster ===

impl Roster {
    pub(super) fn new(
        agent_port: u16,
        connect: Connect,
        metrics: DiscoveryMetrics,
        wanted: watch::Sender<u64>,
        answers: mpsc::Sender<Answer>,
    ) -> Self {
        Self {
            agent_port,
            connect,
            metrics,
            wanted,
            answers,
            inquiries: JoinSet::new(),
            next_inquiry: 0,
            pods: BTreeMap::new(),
            first: None,
            seen_epoch: 0,
        }
    }

    pub(super) fn take(&mut self, update: &Update) {
        for (change, _) in &update.changes {
            match change {
                RawChange::Upsert(pod) => self.look_at(pod),
                RawChange::Delete(key) => self.remove(&key.name),
            }
        }
        if update.synced {
            let unheard = self.pods.iter().filter(|(_, known)| known.is_unheard());
            self.first = Some(unheard.map(|(name, _)| name.clone()).collect());
        }
    }

    pub(super) fn hear(&mut self, answer: Answer) {
        let Some(known) = self.pods.get_mut(&answer.pod).filter(|known| known.inquiry == answer.inquiry) else {
            return;
        };
        known.round = known.round.max(answer.round);
        match answer.said {
            Ok(said) => {
                self.seen_epoch = self.seen_epoch.max(said.leader_epoch);
                if let Some(rejection) = known.judge(&said) {
                    self.metrics.rejected(&rejection);
                }
                self.settled(&answer.pod);
            }
            Err(silence) => {
                tracing::debug!(pod = %answer.pod, error = %silence, "the pod's agent does not say how it is");
                if let Standing::Unheard { error, .. } = &mut known.standing {
                    *error = Some(silence);
                }
            }
        }
    }

    /// Begins a new round of questions.
    pub(super) fn ask_again(&self) {
        self.wanted.send_modify(|wanted| *wanted += 1);
    }

    /// When the next pod has had time enough.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let deadlines = self.pods.values().filter_map(|known| match &known.standing {
            Standing::Unheard { give_up, .. } => Some(*give_up),
            _ => None,
        });
        deadlines.min()
    }

    pub(super) fn give_up(&mut self, now: Instant) {
        let late: Vec<_> =
            self.pods.iter_mut().filter_map(|(name, known)| known.give_up(now).then(|| name.clone())).collect();
        for name in late {
            self.settled(&name);
        }
    }

    /// Every pod that output is brought to, sorted by name; `None` before the first list.
    pub(super) fn fleet(&self) -> Option<Vec<Pod>> {
        self.first.as_ref()?;
        Some(self.pods.values().filter_map(Known::pod).collect())
    }

    /// Whether a pod may still answer in time.
    pub(super) fn is_waiting(&self) -> bool {
        self.pods.values().any(Known::is_unheard)
    }

    /// Whether the first list came, and each pod of it answered or was given up.
    pub(super) fn is_synced(&self) -> bool {
        self.first.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// The newest round that every pod was asked in.
    pub(super) fn settled_round(&self) -> u64 {
        if self.first.is_none() {
            return 0;
        }
        self.pods.values().map(|known| known.round).min().unwrap_or_else(|| *self.wanted.borrow())
    }

    pub(super) fn seen_epoch(&self) -> u64 {
        self.seen_epoch
    }

    /// Whether the HAProxy version of a pod that answered is not known yet.
    pub(super) fn lacks_version(&self) -> bool {
        self.pods.values().any(|known| matches!(known.standing, Standing::Admitted { haproxy: None }))
    }

    /// Forgets inquiries that have ended, which only those that were stopped do.
    pub(super) fn sweep(&mut self) -> Result<(), JoinError> {
        while let Some(ended) = self.inquiries.try_join_next() {
            if let Err(error) = ended
                && !error.is_cancelled()
            {
                return Err(error);
            }
        }
        let count = |is: fn(&Standing) -> bool| self.pods.values().filter(|known| is(&known.standing)).count();
        self.metrics.admitted.set(count(|standing| matches!(standing, Standing::Admitted { .. })) as u64);
        self.metrics.silent.set(count(|it| matches!(it, Standing::Unheard { .. } | Standing::GivenUp)) as u64);
        self.metrics.refused.set(count(|standing| matches!(standing, Standing::Rejected(_))) as u64);
        Ok(())
    }

    fn look_at(&mut self, pod: &RawObject) {
        let Some(candidate) = Candidate::of(pod, self.agent_port) else {
            self.remove(&pod.name);
            return;
        };
        let (mut round, mut standing) = (0, None);
        if let Some(known) = self.pods.get_mut(&candidate.name) {
            if known.candidate == candidate {
                return;
            }
            known.task.abort();
            if known.candidate.identity == candidate.identity {
                // A container was restarted: what is known holds until the agent says otherwise.
                round = known.round;
                standing = Some(std::mem::replace(&mut known.standing, Standing::GivenUp));
            }
        }
        let unheard = || Standing::Unheard { give_up: Instant::now() + PATIENCE, error: None };
        let standing = standing.unwrap_or_else(unheard);
        let (inquiry, task) = self.inquire(&candidate);
        self.pods.insert(candidate.name.clone(), Known { candidate, inquiry, task, round, standing });
    }

    fn inquire(&mut self, candidate: &Candidate) -> (u64, AbortHandle) {
        self.next_inquiry += 1;
        let inquiry = Inquiry {
            pod: candidate.name.clone(),
            number: self.next_inquiry,
            agent: (self.connect)(&Endpoint::Tls(candidate.identity.agent)),
            wanted: self.wanted.subscribe(),
            answers: self.answers.clone(),
        };
        (self.next_inquiry, self.inquiries.spawn(inquiry.run()))
    }

    fn remove(&mut self, name: &str) {
        if let Some(known) = self.pods.remove(name) {
            known.task.abort();
            tracing::info!(pod = name, "the pod has left the fleet");
        }
        self.settled(name);
    }

    /// Nobody waits for this pod any more.
    fn settled(&mut self, name: &str) {
        if let Some(first) = &mut self.first {
            first.remove(name);
        }
    }
}

// === impl Known ===

impl Known {
    fn is_unheard(&self) -> bool {
        matches!(self.standing, Standing::Unheard { .. })
    }

    /// The rejection if it is news.
    fn judge(&mut self, said: &Said) -> Option<Rejection> {
        let name = &self.candidate.name;
        match Rejection::of(said) {
            Some(rejection) => {
                if matches!(&self.standing, Standing::Rejected(known) if *known == rejection) {
                    return None;
                }
                tracing::warn!(pod = %name, "the pod gets no configuration: {rejection}");
                self.standing = Standing::Rejected(rejection.clone());
                Some(rejection)
            }
            None => {
                let before = match &self.standing {
                    Standing::Admitted { haproxy } => *haproxy,
                    _ => {
                        let haproxy = said.haproxy.as_ref().map_or("not running yet", |version| version.full.as_str());
                        tracing::info!(pod = %name, agent = %self.candidate.identity.agent, haproxy, "the pod has joined the fleet");
                        None
                    }
                };
                // An HAProxy that ends is started again from the same image.
                let haproxy = said.haproxy.as_ref().map(|version| version.minor).or(before);
                self.standing = Standing::Admitted { haproxy };
                None
            }
        }
    }

    /// Whether it is given up now.
    fn give_up(&mut self, now: Instant) -> bool {
        let Standing::Unheard { give_up, error } = &self.standing else { return false };
        if *give_up > now {
            return false;
        }
        let why = error.as_ref().map_or_else(|| Silence::TimedOut.to_string(), ToString::to_string);
        tracing::warn!(
            pod = %self.candidate.name, agent = %self.candidate.identity.agent, error = %why,
            "the pod's agent has not answered for {PATIENCE:?}; it is asked again and counts as failed until then: look \
             at the log of its agent, at the certificates of both sides, and whether a NetworkPolicy is between them"
        );
        self.standing = Standing::GivenUp;
        true
    }

    fn pod(&self) -> Option<Pod> {
        let haproxy = match &self.standing {
            Standing::Admitted { haproxy } => *haproxy,
            Standing::GivenUp => None,
            Standing::Unheard { .. } | Standing::Rejected(_) => return None,
        };
        let Candidate { name, identity, .. } = &self.candidate;
        Some(Pod { name: name.clone(), uid: identity.uid.clone(), endpoint: Endpoint::Tls(identity.agent), haproxy })
    }
}

// === impl Rejection ===

impl Rejection {
    fn of(said: &Said) -> Option<Self> {
        if said.api_version != API_VERSION {
            return Some(Self::OtherApi(said.api_version));
        }
        let HaproxyVersion { minor, full } = said.haproxy.as_ref()?;
        (*minor < OLDEST).then(|| Self::OldHaproxy(full.clone()))
    }
}
