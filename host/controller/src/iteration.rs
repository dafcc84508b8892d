//! The stages of one iteration, wired. This is DESIGN §2 in code: watch → store → render → check → plan → deploy →
//! status. What only a cluster has (election, webhook) is not here; who has it publishes the same events.

use std::{path::PathBuf, sync::Arc};

use tokio_util::sync::CancellationToken;

use crate::{
    agent_port::Connect,
    bus::EventBus,
    clock::WallClock,
    commentator::{Commentator, History},
    coordinator::Coordinator,
    core::ActiveCore,
    deployer::Deployer,
    drift::DriftPreventionMonitor,
    feed::{Feed, FeedStart, GateParts, SourceFindings},
    metrics::{Metrics, MetricsObserver},
    quarantine::Quarantine,
    reconciler::Reconciler,
    render_gate::RenderGate,
    scheduler::DeploymentScheduler,
    status::StatusApplier,
    supervisor::Supervisor,
    traces::Traces,
};

/// What the stages are made of.
pub struct Parts {
    pub start: FeedStart,
    pub core: ActiveCore,
    pub quarantine: Arc<Quarantine>,
    pub gate: GateParts,
    pub connect: Connect,
    pub clock: WallClock,
    pub findings: Arc<SourceFindings>,
    pub status_folder: PathBuf,
    pub history: History,
    pub metrics: Metrics,
    pub traces: Traces,
    /// Ends the feed and running checks; the bus is closed after it.
    pub stop: CancellationToken,
}

/// Makes every stage, each subscribed to its events, and hands its task to the supervisor. The bus is not started.
pub fn wire(parts: Parts, bus: &Arc<EventBus>, supervisor: &mut Supervisor) {
    let Parts { start, core, quarantine, gate, connect, clock, findings, status_folder, history, metrics, .. } = parts;
    let (traces, stop) = (parts.traces, parts.stop);
    let haproxy = gate.haproxy;
    let manifests = findings.subscribe();
    let plugins = gate.plugins.subscribe();

    // 1. A watch event updates the store's index; bursts coalesce per resource in its debounce window.
    let feed = Feed::new(bus, start, core.clone(), quarantine.clone(), gate.clone(), findings, stop.clone());
    supervisor.spawn_fallible("ResourceWatcher", feed.run());

    // 2. What can change the render triggers at once, and the pipeline runs synchronously.
    supervisor.spawn("Reconciler", Reconciler::new(bus).run());
    supervisor.spawn("DriftPreventionMonitor", DriftPreventionMonitor::new(bus, core.clone()).run());
    let coordinator = Coordinator::new(bus, core.clone(), quarantine.clone(), clock.clone(), haproxy);
    supervisor.spawn("Coordinator", coordinator.run());

    // 3. A render and discovered pods make a deployment, while HAProxy checks the newest render beside it.
    supervisor.spawn("DeploymentScheduler", DeploymentScheduler::new(bus).run());
    let render_gate = RenderGate::new(bus, core.clone(), gate.check, quarantine, haproxy, stop);
    supervisor.spawn("RenderGate", render_gate.run());

    // 4. Every pod gets the diff against its own baseline; results, then status.
    supervisor.spawn_fallible("Deployer", Deployer::new(bus, connect).run());
    let status = StatusApplier::new(bus, core, manifests, plugins, clock.clone(), status_folder);
    supervisor.spawn("StatusApplier", status.run());

    // Observers decide nothing.
    supervisor.spawn("Commentator", Commentator::new(bus, clock.clone(), history).run());
    supervisor.spawn("Metrics", MetricsObserver::new(bus, metrics, clock.clone()).run());
    if let Some(observer) = traces.observe(bus, 1, clock) {
        supervisor.spawn("Traces", observer.run());
    }
}
