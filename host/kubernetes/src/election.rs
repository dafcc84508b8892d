//! Who leads: one holder of a Lease, and the fencing epoch of its term.
//!
//! A term begins with one optimistic write that takes the Lease *and* records the term's epoch, which is higher than
//! every epoch that was recorded or that an agent has seen. So nothing of an earlier term is accepted after the first
//! apply of a later one, whatever clocks say. Whether a holder is alive is judged by the own monotonic clock: it is not
//! when its Lease did not change for as long as the Lease says. The clock that is passed in is only written down.
//!
//! An election under the identity of the holder takes the Lease over at once, in a term of its own: so a successor in
//! the same process resumes with no vacancy, and its predecessor ends without releasing.

mod lease;
mod observe;
mod term;

use std::{fmt, sync::Arc, time::Duration, time::SystemTime};

use http::Method;
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use crate::{Api, Jitter, Malformed, Trouble};

use lease::{Claim, Claims};
use observe::Observer;
use term::{Lost, Term};

pub use lease::FENCING_EPOCH;

/// The Lease, and who wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionSettings {
    pub namespace: String,
    /// Of the Lease.
    pub name: String,
    /// Unique to a process, such as the name of its pod.
    pub identity: Arc<str>,
    /// For how long others leave a holder alone that does not renew. Default: 30 s.
    pub lease_duration: Duration,
    /// A leader that could not renew for this long is none any more; at most two thirds of the lease count, because
    /// others count from when they saw the last renewal. Default: 20 s.
    pub renew_deadline: Duration,
    /// How often a leader renews, and how often a follower looks who is not told of changes; at most a quarter of the
    /// deadline counts. Default: 5 s.
    pub retry_period: Duration,
}

/// What an election says about this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Another one leads, or nobody.
    Follower { holder: Option<Arc<str>> },
    /// This one leads, and its epoch is in the Lease.
    Leader { epoch: u64 },
}

/// The time of day, as an argument.
#[derive(Clone)]
pub struct ElectionClock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

/// How an election ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Gives the Lease up, so that another one can lead at once.
    Release,
    /// Leaves the Lease to a successor of the same identity.
    Keep,
}

/// Why an election ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As it was told to.
    Told(Ending),
    /// A successor of the same identity has the Lease.
    Superseded,
}

/// The task of an election; run it once.
pub struct Election {
    api: Api,
    settings: ElectionSettings,
    clock: ElectionClock,
    jitter: Jitter,
    leadership: watch::Sender<Leadership>,
    problem: watch::Sender<LeaseProblem>,
    seen: watch::Receiver<u64>,
    /// The highest epoch that the Lease ever said or that was taken: a Lease that was deleted says none any more.
    heard: u64,
    ending: watch::Receiver<Option<Ending>>,
}

/// Why the Lease cannot be read or written now; `None` = it can.
pub type LeaseProblem = Option<Arc<Trouble>>;

/// The caller's end of an election.
pub struct Candidate {
    leadership: watch::Receiver<Leadership>,
    problem: watch::Receiver<LeaseProblem>,
    seen: watch::Sender<u64>,
    ending: watch::Sender<Option<Ending>>,
}

// === impl ElectionSettings ===

impl ElectionSettings {
    /// With the default times.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(30),
            renew_deadline: Duration::from_secs(20),
            retry_period: Duration::from_secs(5),
        }
    }

    /// Times under which there are never two leaders and a failed renewal is tried again.
    fn safe(mut self) -> Self {
        self.renew_deadline = self.renew_deadline.min(self.lease_duration * 2 / 3);
        self.retry_period = self.retry_period.min(self.renew_deadline / 4);
        self
    }

    /// A request that takes longer than this is tried anew, while there is time for that.
    fn attempt(&self) -> Duration {
        self.renew_deadline / 4
    }
}

// === impl ElectionClock ===

impl ElectionClock {
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    fn now(&self) -> MicroTime {
        MicroTime(Timestamp::try_from((self.0)()).unwrap_or(Timestamp::UNIX_EPOCH))
    }
}

impl fmt::Debug for ElectionClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ElectionClock")
    }
}

// === impl Candidate ===

impl Candidate {
    /// Changes as leadership does. A leader's epoch rises within a term when agents have seen a higher one.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    pub fn problem(&self) -> watch::Receiver<LeaseProblem> {
        self.problem.clone()
    }

    /// An agent has seen this epoch. A leader whose epoch is not higher takes a higher one at once: its Lease may have
    /// been deleted, and agents must not refuse it for ever.
    pub fn saw(&self, epoch: u64) {
        self.seen.send_if_modified(|seen| {
            let higher = epoch > *seen;
            *seen = epoch.max(*seen);
            higher
        });
    }

    /// Ends the election. The first ending counts.
    pub fn end(&self, ending: Ending) {
        self.ending.send_if_modified(|current| {
            let first = current.is_none();
            current.get_or_insert(ending);
            first
        });
    }
}

// === impl Election ===

impl Election {
    pub fn new(api: Api, settings: ElectionSettings, clock: ElectionClock, jitter: Jitter) -> (Self, Candidate) {
        let (leadership, leadership_receiver) = watch::channel(Leadership::Follower { holder: None });
        let (problem, problem_receiver) = watch::channel(None);
        let (seen_sender, seen) = watch::channel(0);
        let (ending_sender, ending) = watch::channel(None);
        let candidate = Candidate {
            leadership: leadership_receiver,
            problem: problem_receiver,
            seen: seen_sender,
            ending: ending_sender,
        };
        let settings = settings.safe();
        (Self { api, settings, clock, jitter, leadership, problem, seen, heard: 0, ending }, candidate)
    }

    /// Runs until it is told to end or a successor has the Lease. A candidate that is dropped keeps the Lease.
    pub async fn run(mut self) -> Ended {
        let mut ending = self.ending.clone();
        loop {
            let mut term = tokio::select! {
                biased;
                told = told(&mut ending) => return Ended::Told(told),
                term = self.campaign() => term,
            };
            let told = tokio::select! {
                biased;
                told = told(&mut ending) => told,
                lost = self.lead(&mut term) => {
                    let holder = lost.holder();
                    self.follow(holder);
                    if matches!(lost, Lost::Superseded) {
                        return Ended::Superseded;
                    }
                    continue;
                }
            };
            // First nothing more is done in its name, then others may begin.
            self.follow(Some(Arc::clone(&self.settings.identity)).filter(|_| told == Ending::Keep));
            if told == Ending::Release {
                self.release(term).await;
            }
            return Ended::Told(told);
        }
    }

    /// Waits until the Lease is free and takes it.
    async fn campaign(&mut self) -> Term {
        let mut observer = Observer::new(&self.api, &self.settings);
        // What was seen last, and when it was seen to change.
        let mut last: Option<(Option<Lease>, Instant)> = None;
        loop {
            let expiry = last.as_ref().and_then(|(lease, since)| Some(*since + lease.as_ref()?.duration()?));
            let lease = tokio::select! {
                observed = observer.next() => match observed {
                    Ok(lease) => lease,
                    Err(trouble) => {
                        self.note(Some(trouble));
                        sleep(self.jitter.at_least(0.5, self.settings.retry_period)).await;
                        continue;
                    }
                },
                () = at(expiry) => {
                    let (lease, _) = last.clone().expect("what is not there does not expire");
                    tracing::info!(holder = ?lease.as_ref().and_then(Claims::holder), "the lease expired");
                    match self.take(lease, &mut observer).await {
                        Ok(term) => return term,
                        // Whoever was faster is seen next.
                        Err(Missed::Race) => last = None,
                        // It stays expired as long as the server cannot say otherwise.
                        Err(Missed::Trouble) => {}
                    }
                    continue;
                }
            };
            self.note(None);
            self.heard = self.heard.max(lease.as_ref().map_or(0, Claims::epoch));
            let holder = lease.as_ref().and_then(Claims::holder).map(Arc::<str>::from);
            let was_held = last.as_ref().is_some_and(|(lease, _)| lease.is_some());
            self.follow(holder.clone());
            if lease.is_none() && was_held {
                // Its holder, if it is alive, makes it again: let it.
                sleep(self.jitter.at_least(0.5, self.settings.retry_period / 2)).await;
                last = Some((None, Instant::now()));
                observer.forget();
                continue;
            }
            if holder.as_ref().is_none_or(|holder| *holder == self.settings.identity) {
                if let Ok(term) = self.take(lease, &mut observer).await {
                    return term;
                }
                last = None;
                continue;
            }
            let renewed = last.as_ref().is_none_or(|(before, _)| !same_claim(before.as_ref(), lease.as_ref()));
            let since = last.filter(|_| !renewed).map_or_else(Instant::now, |(_, since)| since);
            last = Some((lease, since));
        }
    }

    /// One try, after which the observer looks anew.
    async fn take(&mut self, lease: Option<Lease>, observer: &mut Observer) -> Result<Term, Missed> {
        let sent = Instant::now();
        let seen = self.heard.max(*self.seen.borrow());
        let claim = Claim::new(lease.as_ref(), &self.settings, self.clock.now(), seen);
        let method = if lease.is_some() { Method::PUT } else { Method::POST };
        match self.write(method, &claim.lease).await {
            Ok(lease) => {
                self.note(None);
                self.heard = claim.epoch;
                tracing::info!(identity = %self.settings.identity, epoch = claim.epoch, "leading");
                Ok(Term { lease, epoch: claim.epoch, renewed: sent })
            }
            Err(trouble) => {
                observer.forget();
                // Where there is no Lease to be gone, it is the namespace that is not there.
                let raced = trouble.is_conflict() || (lease.is_some() && trouble.is_not_found());
                let missed = if raced { Missed::Race } else { Missed::Trouble };
                let pause = match missed {
                    Missed::Race => self.settings.retry_period / 50,
                    Missed::Trouble => self.settings.retry_period / 2,
                };
                if missed == Missed::Trouble {
                    self.note(Some(trouble));
                }
                sleep(self.jitter.at_least(0.5, pause)).await;
                Err(missed)
            }
        }
    }

    fn follow(&self, holder: Option<Arc<str>>) {
        let next = Leadership::Follower { holder };
        self.leadership.send_if_modified(|leadership| {
            let changed = *leadership != next;
            *leadership = next;
            changed
        });
    }

    fn note(&self, trouble: Option<Trouble>) {
        if let Some(trouble) = &trouble {
            let error: &(dyn std::error::Error + 'static) = trouble;
            let (namespace, name) = (&self.settings.namespace, &self.settings.name);
            tracing::warn!(%namespace, %name, error, "the lease cannot be read or written");
        }
        self.problem.send_if_modified(|problem| {
            let changed = problem.is_some() || trouble.is_some();
            *problem = trouble.map(Arc::new);
            changed
        });
    }

    async fn read(&self) -> Result<Option<Lease>, Trouble> {
        observe::read(&self.api, &self.settings).await
    }

    async fn write(&self, method: Method, lease: &Lease) -> Result<Lease, Trouble> {
        let uri = match method {
            Method::POST => observe::leases(&self.settings),
            _ => observe::path(&self.settings),
        };
        let body = serde_json::to_vec(lease).expect("a Lease is valid JSON");
        let attempt = self.settings.attempt();
        let written = timeout(attempt, self.api.write(method, &uri, body)).await;
        let written = written.map_err(|_| Trouble::TimedOut(attempt))??;
        Ok(serde_json::from_slice(&written).map_err(Malformed::Json)?)
    }
}

/// Why the Lease was not taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missed {
    /// It is not what it was: another one was faster.
    Race,
    Trouble,
}

/// Renewals make a difference, other writes do not.
fn same_claim(a: Option<&Lease>, b: Option<&Lease>) -> bool {
    a.map(|lease| &lease.spec) == b.map(|lease| &lease.spec)
}

/// When it is told to end. A candidate that was dropped cannot tell any more.
async fn told(ending: &mut watch::Receiver<Option<Ending>>) -> Ending {
    match ending.wait_for(Option::is_some).await {
        Ok(ending) => (*ending).unwrap_or(Ending::Keep),
        Err(_) => Ending::Keep,
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
