//! The Deployer (leader-only): brings the scheduled render to every pod in parallel and reports per pod and in sum.
//!
//! Each pod has an actor of its own (`pod_actor`) with a latest-wins inbox, so a pod that is slow, reloading or dead
//! delays nobody else, unless the configuration says how many pods are written to at a time (`turns`). What the gate
//! said travels to the actors too: a refusal reverts pods that took the plan without loading it, a pass is named on the
//! next apply so that the agent promotes its rollback baseline.

mod inbox;
mod known;
mod patch;
mod plan_upload;
mod pod_actor;
mod request;
mod turns;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haptic_wire::Token;
use thiserror::Error;
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    agent_port::Connect,
    bus::{EventBus, Subscription},
    deployer::{
        inbox::{Assignment, Inbox, Validated},
        pod_actor::{PodActor, PodDone, PodEnd},
        turns::TurnsOf,
    },
    events::{Event, EventKind, GateVerdict},
    pipeline::Render,
    pod::{Pod, PodOutcome, PodReport},
};

/// Results that wait to be aggregated; actors wait when it is full.
pub(crate) const RESULTS: usize = 256;

pub struct Deployer {
    bus: Arc<EventBus>,
    events: Subscription,
    connect: Connect,
    /// Fencing epoch of this term; nothing is applied before it is known.
    epoch: Option<u64>,
    actors: BTreeMap<Arc<str>, Actor>,
    tasks: JoinSet<PodEnd>,
    results: (mpsc::Sender<PodDone>, mpsc::Receiver<PodDone>),
    deployments: BTreeMap<u64, Deployment>,
    turns: TurnsOf,
    next: u64,
}

/// Why the deployer ended before its bus did.
#[derive(Debug, Error)]
pub enum DeployerError {
    #[error("a later leader has written to pod {pod}: {message}; this one stands down")]
    StoodDown { pod: Arc<str>, message: String },
    #[error("the deployment task of a pod ended early")]
    PodTask(#[source] tokio::task::JoinError),
}

struct Actor {
    pod: Pod,
    inbox: Arc<Inbox>,
}

/// One scheduled render on its way to the pods.
struct Deployment {
    render: Arc<Render>,
    waiting: BTreeSet<Arc<str>>,
    reports: Vec<PodReport>,
}

// === impl Deployer ===

impl Deployer {
    pub fn new(bus: &Arc<EventBus>, connect: Connect) -> Self {
        let events = bus.subscribe(
            "Deployer",
            &[
                EventKind::BecameLeader,
                EventKind::HAProxyPodsDiscovered,
                EventKind::DeploymentScheduled,
                EventKind::RenderGateCompleted,
            ],
        );
        Self {
            bus: bus.clone(),
            events,
            connect,
            epoch: None,
            actors: BTreeMap::new(),
            tasks: JoinSet::new(),
            results: mpsc::channel(RESULTS),
            deployments: BTreeMap::new(),
            turns: TurnsOf::default(),
            next: 0,
        }
    }

    /// Ends when the bus is closed, or when this term must not write any more.
    pub async fn run(mut self) -> Result<(), DeployerError> {
        loop {
            tokio::select! {
                event = self.events.next() => match event {
                    Some(event) => self.handle(event),
                    None => break,
                },
                Some(done) = self.results.1.recv() => self.collect(done),
                Some(ended) = self.tasks.join_next() => match ended.map_err(DeployerError::PodTask)? {
                    PodEnd::Retired => {}
                    PodEnd::StoodDown { pod, message } => return Err(DeployerError::StoodDown { pod, message }),
                },
            }
        }
        for actor in self.actors.values() {
            actor.inbox.close();
        }
        // An apply that is under way is finished: its answer decides what the pod serves.
        while let Some(ended) = self.tasks.join_next().await {
            ended.map_err(DeployerError::PodTask)?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::BecameLeader { epoch, .. } => self.epoch = Some(epoch),
            Event::HAProxyPodsDiscovered { pods, .. } => self.retire_all_but(&pods),
            Event::DeploymentScheduled { render, pods, .. } => self.deploy(&render, &pods),
            Event::RenderGateCompleted { outcome, .. } => {
                for actor in self.actors.values() {
                    match outcome.verdict {
                        GateVerdict::Passed => {
                            let versions = outcome.passed_by.clone();
                            actor.inbox.validated(Validated { plan: outcome.plan, versions });
                        }
                        GateVerdict::Refused { .. } => actor.inbox.refused(outcome.plan),
                        GateVerdict::Unknown { .. } => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn deploy(&mut self, render: &Arc<Render>, pods: &[Pod]) {
        let Some(leader_epoch) = self.epoch else {
            tracing::error!("a deployment was scheduled before this controller became leader");
            return;
        };
        let (correlation, plan) = (render.correlation, render.plan());
        self.bus.publish(Event::DeploymentStarted { correlation, plan, pods: pods.len() });
        let id = self.next;
        self.next += 1;
        let waiting = pods.iter().map(|pod| pod.name.clone()).collect();
        self.deployments.insert(id, Deployment { render: render.clone(), waiting, reports: Vec::new() });
        let token = Token { leader_epoch, render_seq: render.seq };
        let turns = self.turns.of(render.pacing.most_at_once);
        for pod in pods {
            let inbox = self.inbox_of(pod);
            let (render, turns) = (render.clone(), turns.clone());
            let replaced = inbox.assign(Assignment { deployment: id, render, token, turns });
            if let Some(replaced) = replaced {
                self.superseded(replaced.deployment, &pod.name);
            }
        }
        if pods.is_empty() {
            self.close_if_done(id);
        }
    }

    /// The actor's inbox; a pod that came back under the same name or moved to another endpoint is another pod.
    fn inbox_of(&mut self, pod: &Pod) -> Arc<Inbox> {
        if let Some(actor) = self.actors.get(&pod.name)
            && (&actor.pod.uid, &actor.pod.endpoint) == (&pod.uid, &pod.endpoint)
        {
            return actor.inbox.clone();
        }
        self.retire(&pod.name.clone());
        let inbox = Inbox::new();
        let actor = PodActor::new(pod.clone(), (self.connect)(&pod.endpoint), inbox.clone(), self.results.0.clone());
        self.tasks.spawn(actor.run());
        self.actors.insert(pod.name.clone(), Actor { pod: pod.clone(), inbox: inbox.clone() });
        inbox
    }

    fn retire_all_but(&mut self, pods: &[Pod]) {
        let gone: Vec<_> =
            self.actors.keys().filter(|name| pods.iter().all(|pod| pod.name != **name)).cloned().collect();
        for name in gone {
            self.retire(&name);
        }
    }

    fn retire(&mut self, pod: &Arc<str>) {
        let Some(actor) = self.actors.remove(pod) else { return };
        actor.inbox.close();
        let open: Vec<_> = self.deployments.keys().copied().collect();
        for deployment in open {
            self.superseded(deployment, pod);
        }
    }

    fn superseded(&mut self, deployment: u64, pod: &Arc<str>) {
        if let Some(open) = self.deployments.get_mut(&deployment) {
            open.waiting.remove(pod);
            self.close_if_done(deployment);
        }
    }

    fn collect(&mut self, done: PodDone) {
        let PodDone { deployment, render, report } = done;
        if report.outcome == PodOutcome::Failed {
            let correlation = render.correlation;
            self.bus.publish(Event::InstanceDeploymentFailed { correlation, report: Arc::new(report.clone()) });
        }
        let awaited = self.deployments.get_mut(&deployment).filter(|open| open.waiting.contains(&report.pod));
        if let Some(open) = awaited {
            open.waiting.remove(&report.pod);
            open.reports.push(report);
            return self.close_if_done(deployment);
        }
        // A retry, or the end of a scheduled reload: its deployment has been reported before.
        let correlation = render.correlation;
        self.bus.publish(Event::DeploymentCompleted { correlation, render, reports: [report].into() });
    }

    fn close_if_done(&mut self, id: u64) {
        if self.deployments.get(&id).is_none_or(|open| !open.waiting.is_empty()) {
            return;
        }
        let Some(mut done) = self.deployments.remove(&id) else { return };
        // Superseded on every pod: a later deployment reports for it.
        if done.reports.is_empty() {
            return;
        }
        done.reports.sort_by(|a, b| a.pod.cmp(&b.pod));
        let (correlation, render) = (done.render.correlation, done.render);
        self.bus.publish(Event::DeploymentCompleted { correlation, render, reports: done.reports.into() });
    }
}

#[cfg(test)]
mod tests;
