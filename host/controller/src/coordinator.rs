//! The Coordinator (leader-only): runs the pipeline for every trigger, one at a time, on a blocking thread. Triggers
//! that arrive during a run coalesce in its mailbox to one more run, so the latest input always wins.

use std::{collections::VecDeque, sync::Arc};

use haptic_model::{Finding, FindingCode};
use tokio::{task::JoinError, time::Instant};

use crate::{
    bus::{EventBus, Subscription},
    clock::WallClock,
    core::{ActiveCore, Core, fingerprint},
    events::{Correlation, Event, EventKind, Trigger},
    pipeline::{Phase, PipelineError, Render},
    pod::Pod,
    quarantine::Quarantine,
};

/// Renders that wait for their deployment and are remembered for their duration; older ones were superseded.
const OPEN: usize = 64;

pub struct Coordinator {
    bus: Arc<EventBus>,
    events: Subscription,
    core: ActiveCore,
    quarantine: Arc<Quarantine>,
    clock: WallClock,
    leads: bool,
    /// A trigger that came before leadership did.
    early: Option<(Correlation, Trigger)>,
    seq: u64,
    /// The lowest HAProxy version of the fleet.
    haproxy: (u16, u16),
    /// Renders whose deployment has not completed: sequence number and the start of their cause.
    open: VecDeque<(u64, Instant)>,
}

// === impl Coordinator ===

impl Coordinator {
    /// `haproxy` is what templates see until pods are discovered.
    pub fn new(
        bus: &Arc<EventBus>,
        core: ActiveCore,
        quarantine: Arc<Quarantine>,
        clock: WallClock,
        haproxy: (u16, u16),
    ) -> Self {
        let events = bus.subscribe(
            "Coordinator",
            &[
                EventKind::BecameLeader,
                EventKind::HAProxyPodsDiscovered,
                EventKind::ReconciliationTriggered,
                EventKind::DeploymentCompleted,
            ],
        );
        Self {
            bus: bus.clone(),
            events,
            core,
            quarantine,
            clock,
            leads: false,
            early: None,
            seq: 0,
            haproxy,
            open: VecDeque::new(),
        }
    }

    /// Ends when the bus is closed.
    pub async fn run(mut self) {
        while let Some(event) = self.events.next().await {
            match event {
                Event::BecameLeader { .. } => {
                    self.leads = true;
                    if let Some((correlation, trigger)) = self.early.take() {
                        self.reconcile(correlation, trigger).await;
                    }
                }
                Event::HAProxyPodsDiscovered { pods, .. } => self.learn_versions(&pods),
                Event::ReconciliationTriggered { correlation, trigger } if self.leads => {
                    self.reconcile(correlation, trigger).await;
                }
                Event::ReconciliationTriggered { correlation, trigger } => self.early = Some((correlation, trigger)),
                Event::DeploymentCompleted { correlation, render, .. } => self.complete(correlation, render),
                _ => {}
            }
        }
    }

    async fn reconcile(&mut self, correlation: Correlation, trigger: Trigger) {
        self.bus.publish(Event::ReconciliationStarted { correlation });
        self.seq += 1;
        let render = self.execute(correlation, trigger.clone());
        match tokio::task::spawn_blocking(render).await.unwrap_or_else(|error| Err(panicked(&error))) {
            Ok(render) => {
                if self.open.len() == OPEN {
                    self.open.pop_front();
                }
                self.open.push_back((render.seq, trigger.since));
                self.bus.publish(Event::TemplateRendered { correlation, render: Arc::new(render) });
            }
            Err(error) => {
                self.bus.publish(Event::ReconciliationFailed { correlation, error: Arc::new(error), trigger });
            }
        }
    }

    fn execute(
        &self,
        correlation: Correlation,
        trigger: Trigger,
    ) -> impl FnOnce() -> Result<Render, PipelineError> + Send + use<> {
        let (core, quarantine, clock) = (self.core.get(), self.quarantine.clone(), self.clock.clone());
        render_once(core, quarantine, clock, self.seq, self.haproxy, correlation, trigger)
    }

    fn learn_versions(&mut self, pods: &[Pod]) {
        if let Some(lowest) = pods.iter().filter_map(|pod| pod.haproxy).min() {
            self.haproxy = lowest;
        }
    }

    fn complete(&mut self, correlation: Correlation, render: Arc<Render>) {
        // Renders before this one were superseded: their change is part of this one.
        let mut since = None;
        while let Some((seq, began)) = self.open.front().copied()
            && seq <= render.seq
        {
            since = Some(since.map_or(began, |earlier: Instant| earlier.min(began)));
            self.open.pop_front();
        }
        // `None` = a retry or a pod that joined later; the reconciliation itself is closed already.
        if let Some(since) = since {
            self.bus.publish(Event::ReconciliationCompleted { correlation, duration: since.elapsed(), render });
        }
    }
}

/// One execution of the pipeline with what the store has when it runs. Blocks.
pub(crate) fn render_once(
    core: Arc<Core>,
    quarantine: Arc<Quarantine>,
    clock: WallClock,
    seq: u64,
    haproxy: (u16, u16),
    correlation: Correlation,
    trigger: Trigger,
) -> impl FnOnce() -> Result<Render, PipelineError> + Send + use<> {
    move || {
        // What templates and plugins say meanwhile is about this change.
        let _span = tracing::info_span!("render", %correlation).entered();
        let started = Instant::now();
        let (snapshot, left_out_by_store) = {
            let store = core.store.lock();
            (store.snapshot(), store.findings())
        };
        let mut left_out = quarantine.left_out(|object| fingerprint(&snapshot, object));
        left_out.findings.extend(left_out_by_store);
        let mut memo = core.memo.lock();
        let located = |findings| core.sources.all_in_manifests(findings);
        let mut output = core
            .pipeline
            .execute(&snapshot, haproxy, left_out, &mut memo, clock.now())
            .map_err(|error| PipelineError { findings: located(error.findings), ..error })?;
        output.findings = located(output.findings);
        Ok(Render { seq, correlation, trigger, output, started, snapshot, pacing: core.settings.pacing })
    }
}

fn panicked(error: &JoinError) -> PipelineError {
    let finding = Finding::error(FindingCode::TemplateFailed, format!("the render stopped unexpectedly: {error}"))
        .hint("report this with the configuration that causes it; the last good configuration goes on serving");
    PipelineError { phase: Phase::Render, findings: vec![finding] }
}

#[cfg(test)]
mod tests;
