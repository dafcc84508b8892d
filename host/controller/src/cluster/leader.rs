//! Stage 6: the election of this iteration, and the leader-only stages of each of its terms.
//!
//! A term's stages are made when the Lease is taken and end when it is lost or kept for a successor: after that they
//! publish nothing and write nothing. Losing the Lease ends the term and not the iteration, which goes on as a follower
//! and stands for election again.

use std::{sync::Arc, time::Duration};

use haptic_kubernetes::{Candidate, Election, Ended, Ending, Leadership};
use thiserror::Error;
use tokio::{
    sync::{oneshot, watch},
    task::{JoinError, JoinHandle},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    agent_port::Connect,
    bus::EventBus,
    clock::WallClock,
    cluster::{discovery::Fleet, metrics::ClusterMetrics, writers::Writers},
    coordinator::Coordinator,
    core::ActiveCore,
    deployer::{Deployer, DeployerError},
    drift::DriftPreventionMonitor,
    events::Event,
    feed::GateParts,
    quarantine::Quarantine,
    render_gate::RenderGate,
    scheduler::DeploymentScheduler,
    supervisor::{IterationError, StageError, Supervisor},
};

/// How long the stages of a term may take to end; an apply that takes longer goes on at the agent, whose fence orders it.
const LAST_STEPS: Duration = Duration::from_secs(1);
/// How long after a later leader was met the agents are asked again at the latest.
const STAND_DOWN: Duration = Duration::from_secs(2);

/// What the leader-only stages are made of.
pub(crate) struct TermParts {
    pub bus: Arc<EventBus>,
    pub core: ActiveCore,
    pub quarantine: Arc<Quarantine>,
    pub clock: WallClock,
    pub gate: GateParts,
    pub connect: Connect,
    pub fleet: Fleet,
    pub writers: Writers,
    pub metrics: ClusterMetrics,
}

/// The task of the election; run it once.
pub(crate) struct LeaderElection {
    parts: TermParts,
    election: JoinHandle<Ended>,
    candidate: Candidate,
    leads: watch::Sender<bool>,
    told: oneshot::Receiver<(Ending, oneshot::Sender<Retired>)>,
}

/// The iteration's end of its election.
pub(crate) struct Leading {
    tell: Option<oneshot::Sender<(Ending, oneshot::Sender<Retired>)>>,
    pub leadership: watch::Receiver<Leadership>,
}

/// How an election was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retired {
    Leader,
    Follower,
}

#[derive(Debug, Error)]
pub enum LeaderError {
    #[error("the election stopped unexpectedly")]
    Election(#[source] JoinError),
    #[error("another process has this controller's identity and took its Lease; give each pod its own POD_NAME")]
    Superseded,
    #[error("a leader-only stage ended")]
    Term(#[source] Box<IterationError>),
}

/// The stages of one term.
struct Term {
    scope: Arc<EventBus>,
    supervisor: Supervisor,
    stop: CancellationToken,
    epoch: u64,
}

// === impl Leading ===

impl Leading {
    /// Waits until this iteration leads. Never ends if it does not.
    pub(crate) async fn until_leader(&self) {
        let mut leadership = self.leadership.clone();
        if leadership.wait_for(|leadership| matches!(leadership, Leadership::Leader { .. })).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Ends the term and then the election, and waits for both.
    pub(crate) async fn end(&mut self, ending: Ending) -> Retired {
        let Some(tell) = self.tell.take() else { return Retired::Follower };
        let (done, retired) = oneshot::channel();
        if tell.send((ending, done)).is_err() {
            return Retired::Follower;
        }
        retired.await.unwrap_or(Retired::Follower)
    }
}

// === impl LeaderElection ===

impl LeaderElection {
    /// `leads` tells the stages that rest while this replica leads.
    pub(crate) fn start(
        parts: TermParts,
        election: Election,
        candidate: Candidate,
        leads: watch::Sender<bool>,
    ) -> (Self, Leading) {
        let (tell, told) = oneshot::channel();
        let leadership = candidate.leadership();
        // What agents have seen by now counts from the first term on.
        candidate.saw(*parts.fleet.seen_epoch().borrow());
        let election = tokio::spawn(election.run());
        (Self { parts, election, candidate, leads, told }, Leading { tell: Some(tell), leadership })
    }

    /// Ends when it is told to through [`Leading::end`].
    ///
    /// # Errors
    /// When the election or a stage of a term ended by itself.
    pub(crate) async fn run(mut self) -> Result<(), LeaderError> {
        let mut leadership = self.candidate.leadership();
        let mut seen = self.parts.fleet.seen_epoch();
        let mut term: Option<Term> = None;
        loop {
            tokio::select! {
                biased;
                told = &mut self.told => {
                    let retired = if term.is_some() { Retired::Leader } else { Retired::Follower };
                    self.finish(term).await;
                    let (ending, done) = match told {
                        Ok((ending, done)) => (ending, Some(done)),
                        Err(_) => (Ending::Release, None),
                    };
                    self.candidate.end(ending);
                    let ended = (&mut self.election).await;
                    if let Some(done) = done {
                        // Whoever asked may have gone.
                        let _ = done.send(retired);
                    }
                    return ended.map(|_| ()).map_err(LeaderError::Election);
                }
                changed = leadership.changed() => {
                    if changed.is_err() {
                        std::future::pending::<()>().await;
                    }
                    let now = leadership.borrow_and_update().clone();
                    term = self.follow(now, term).await;
                }
                ended = ended_early(&mut term) => {
                    let stood_down = stood_down(&ended);
                    self.finish(term.take()).await;
                    if !stood_down {
                        return Err(LeaderError::Term(Box::new(ended)));
                    }
                    tracing::warn!("{ended}: asking the agents for their epochs");
                    term = self.after_a_later_leader(&mut leadership).await;
                }
                Ok(()) = seen.changed() => {
                    let epoch = *seen.borrow_and_update();
                    // Within a term agents tell its own epoch, too.
                    if term.as_ref().is_none_or(|term| epoch > term.epoch) {
                        self.candidate.saw(epoch);
                    }
                }
                ended = &mut self.election => {
                    self.finish(term).await;
                    return Err(match ended {
                        Err(error) => LeaderError::Election(error),
                        Ok(_) => LeaderError::Superseded,
                    });
                }
            }
        }
    }

    async fn follow(&self, leadership: Leadership, term: Option<Term>) -> Option<Term> {
        match (leadership, term) {
            (Leadership::Leader { epoch }, None) => Some(self.begin(epoch)),
            (Leadership::Leader { epoch }, Some(mut term)) => {
                if term.epoch != epoch {
                    tracing::info!(from = term.epoch, to = epoch, "the term goes on in a higher epoch");
                    term.epoch = epoch;
                    self.lead(&term);
                }
                Some(term)
            }
            (Leadership::Follower { holder }, term) => {
                if term.is_some() {
                    tracing::warn!(?holder, "leading no more");
                }
                self.finish(term).await;
                None
            }
        }
    }

    fn begin(&self, epoch: u64) -> Term {
        let TermParts { bus, core, quarantine, clock, gate, connect, fleet, writers, .. } = &self.parts;
        let scope = bus.scope();
        let stop = CancellationToken::new();
        let mut supervisor = Supervisor::default();
        self.leads.send_replace(true);

        supervisor.spawn("DriftPreventionMonitor", DriftPreventionMonitor::new(&scope, core.clone()).run());
        let haproxy = lowest_version(fleet).unwrap_or(gate.haproxy);
        let coordinator = Coordinator::new(&scope, core.clone(), quarantine.clone(), clock.clone(), haproxy);
        supervisor.spawn("Coordinator", coordinator.run());
        supervisor.spawn("DeploymentScheduler", DeploymentScheduler::new(&scope).run());
        let render_gate =
            RenderGate::new(&scope, core.clone(), gate.check.clone(), quarantine.clone(), haproxy, stop.clone());
        supervisor.spawn("RenderGate", render_gate.run());
        supervisor.spawn_fallible("Deployer", Deployer::new(&scope, connect.clone()).run());
        writers.spawn(&scope, core, &mut supervisor);

        let term = Term { scope, supervisor, stop, epoch };
        self.lead(&term);
        term
    }

    /// Tells the stages of the term what holds for it.
    fn lead(&self, term: &Term) {
        self.parts.metrics.leads(term.epoch);
        let correlation = term.scope.correlate();
        let pods = self.parts.fleet.pods().borrow().clone();
        // The pods first: the first render is made for their versions.
        if !pods.is_empty() {
            term.scope.publish(Event::HAProxyPodsDiscovered { correlation, pods });
        }
        term.scope.publish(Event::BecameLeader { correlation, epoch: term.epoch });
    }

    async fn finish(&self, term: Option<Term>) {
        let Some(Term { scope, supervisor, stop, .. }) = term else { return };
        stop.cancel();
        scope.close();
        // What does not end in time is aborted with the supervisor.
        match timeout(LAST_STEPS, supervisor.stopped()).await {
            Ok(Ok(())) | Err(_) => {}
            Ok(Err(error)) if stood_down(&error) => {}
            Ok(Err(error)) => tracing::warn!("a leader-only stage ended badly: {error}"),
        }
        self.parts.metrics.leads_no_more();
        self.leads.send_replace(false);
    }

    /// An agent has a higher epoch. Either the Lease is lost, which will be told, or it was made anew and a higher epoch
    /// has to be taken.
    async fn after_a_later_leader(&self, leadership: &mut watch::Receiver<Leadership>) -> Option<Term> {
        // One that does not answer keeps nobody waiting.
        let _ = timeout(STAND_DOWN, self.parts.fleet.ask_again().answered()).await;
        let epoch = *self.parts.fleet.seen_epoch().borrow();
        self.candidate.saw(epoch);
        // The Lease is written with a higher epoch before it is told here.
        let mut waiting = leadership.clone();
        let higher = waiting.wait_for(|now| match now {
            Leadership::Leader { epoch: own } => *own > epoch,
            Leadership::Follower { .. } => true,
        });
        // Without an answer the term goes on as it is said now.
        let _ = timeout(STAND_DOWN, higher).await;
        let now = leadership.borrow_and_update().clone();
        self.follow(now, None).await
    }
}

async fn ended_early(term: &mut Option<Term>) -> IterationError {
    match term {
        Some(term) => term.supervisor.ended_early().await,
        None => std::future::pending().await,
    }
}

fn stood_down(error: &IterationError) -> bool {
    matches!(error, IterationError::Failed { source: StageError::Deployer(DeployerError::StoodDown { .. }), .. })
}

/// The lowest HAProxy version of the fleet, which templates are rendered for; `None` = no pod told its version.
pub(super) fn lowest_version(fleet: &Fleet) -> Option<(u16, u16)> {
    fleet.pods().borrow().iter().filter_map(|pod| pod.haproxy).min()
}
