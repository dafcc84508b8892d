#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::task::yield_now;

use crate::{
    bus::{EventBus, Subscription},
    events::{Correlation, Event, EventKind, GateOutcome, GateVerdict},
    pipeline::Render,
    scheduler::DeploymentScheduler,
    testing::{next, pod, refused, render},
};

#[tokio::test(start_paused = true)]
async fn deploys_only_when_both_a_judged_render_and_pods_are_there() {
    let (bus, mut scheduled) = scene();
    let first = render(1, "a");
    rendered(&bus, &first);
    judged(&bus, &first, GateVerdict::Passed);
    settle().await;
    assert_eq!(scheduled.depth(), 0, "no pods yet");
    bus.publish(Event::HAProxyPodsDiscovered { correlation: Correlation(9), pods: [pod("a")].into() });
    let Event::DeploymentScheduled { render, pods, .. } = next(&mut scheduled).await else { panic!() };
    assert_eq!((render.seq, pods.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_joins_later_gets_the_newest_admitted_render_and_never_a_refused_one() {
    let (bus, mut scheduled) = scene();
    let (first, bad) = (render(1, "a"), render(2, "bad"));
    bus.publish(Event::HAProxyPodsDiscovered { correlation: Correlation(9), pods: [pod("a")].into() });
    rendered(&bus, &first);
    judged(&bus, &first, GateVerdict::Passed);
    next(&mut scheduled).await;
    rendered(&bus, &bad);
    next(&mut scheduled).await;
    judged(&bus, &bad, refused());
    settle().await;
    bus.publish(Event::HAProxyPodsDiscovered { correlation: Correlation(10), pods: [pod("a"), pod("b")].into() });
    settle().await;
    assert_eq!(scheduled.depth(), 0);
}

fn scene() -> (Arc<EventBus>, Subscription) {
    let bus = EventBus::new();
    let scheduled = bus.subscribe("test", &[EventKind::DeploymentScheduled]);
    tokio::spawn(DeploymentScheduler::new(&bus).run());
    bus.start();
    (bus, scheduled)
}

fn rendered(bus: &EventBus, render: &Arc<Render>) {
    bus.publish(Event::TemplateRendered { correlation: render.correlation, render: render.clone() });
}

fn judged(bus: &EventBus, render: &Render, verdict: GateVerdict) {
    let outcome = GateOutcome {
        seq: render.seq,
        plan: render.plan(),
        verdict,
        passed_by: BTreeSet::new(),
        checked_by: Vec::new(),
        duration: Duration::ZERO,
        quarantined: 0,
    };
    bus.publish(Event::RenderGateCompleted { correlation: render.correlation, outcome: Arc::new(outcome) });
}

/// Lets every task that can run do so; time stands still.
async fn settle() {
    for _ in 0..32 {
        yield_now().await;
    }
}
