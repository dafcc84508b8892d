//! The DeploymentScheduler (leader-only): joins the newest render with the discovered pods. Latest wins; the render
//! gate's latch holds what must wait. `minDeploymentInterval` is not here: it acts per pod after the diff.

use std::sync::Arc;

use crate::{
    bus::{EventBus, Subscription},
    events::{Event, EventKind, GateVerdict},
    latch::Latch,
    pipeline::Render,
    pod::Pod,
};

pub struct DeploymentScheduler {
    bus: Arc<EventBus>,
    events: Subscription,
    latch: Latch,
    /// The newest render that the latch let pass.
    admitted: Option<Arc<Render>>,
    pods: Option<Arc<[Pod]>>,
}

// === impl DeploymentScheduler ===

impl DeploymentScheduler {
    pub fn new(bus: &Arc<EventBus>) -> Self {
        let events = bus.subscribe(
            "DeploymentScheduler",
            &[
                EventKind::BecameLeader,
                EventKind::TemplateRendered,
                EventKind::HAProxyPodsDiscovered,
                EventKind::RenderGateCompleted,
            ],
        );
        Self { bus: bus.clone(), events, latch: Latch::of_a_new_term(), admitted: None, pods: None }
    }

    /// Ends when the bus is closed.
    pub async fn run(mut self) {
        while let Some(event) = self.events.next().await {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::BecameLeader { .. } => {
                self.latch = Latch::of_a_new_term();
                self.admitted = None;
            }
            Event::TemplateRendered { render, .. } => {
                if let Some(render) = self.latch.admit(render) {
                    self.schedule(render);
                }
            }
            Event::RenderGateCompleted { outcome, .. } => {
                if matches!(outcome.verdict, GateVerdict::Refused { .. }) {
                    // A pod that is discovered later must not get what is known to be refused.
                    self.admitted.take_if(|render| render.plan() == outcome.plan);
                }
                if let Some(render) = self.latch.judge(outcome.plan, &outcome.verdict, self.admitted.as_ref()) {
                    self.schedule(render);
                }
            }
            Event::HAProxyPodsDiscovered { pods, .. } => {
                self.pods = Some(pods);
                if let Some(render) = self.admitted.clone() {
                    self.schedule(render);
                }
            }
            _ => {}
        }
    }

    fn schedule(&mut self, render: Arc<Render>) {
        self.admitted = Some(render.clone());
        if let Some(pods) = self.pods.clone() {
            self.bus.publish(Event::DeploymentScheduled { correlation: render.correlation, render, pods });
        }
    }
}

#[cfg(test)]
mod tests;
