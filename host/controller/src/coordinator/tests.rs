#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use serde_json::json;

use crate::{
    bus::{EventBus, Subscription},
    clock::WallClock,
    coordinator::Coordinator,
    core::ActiveCore,
    events::{Correlation, Event, EventKind, Trigger},
    pipeline::Phase,
    quarantine::Quarantine,
    testing::{core, next, raw, trigger},
};

const COUNT: &str = "# {{ resources.services.list() | length }} services\nglobal\n";

#[tokio::test]
async fn renders_only_as_leader_and_what_was_triggered_before_is_not_lost() {
    let (bus, mut events, _) = scene(COUNT);
    bus.publish(triggered(1, trigger()));
    bus.publish(Event::DriftPreventionTriggered { correlation: Correlation(9) });
    tokio::task::yield_now().await;
    assert_eq!(events.depth(), 0);
    bus.publish(Event::BecameLeader { correlation: Correlation(2), epoch: 1 });
    assert!(matches!(next(&mut events).await, Event::ReconciliationStarted { correlation: Correlation(1) }));
    let Event::TemplateRendered { render, .. } = next(&mut events).await else { panic!() };
    assert_eq!((render.seq, render.correlation), (1, Correlation(1)));
}

#[tokio::test]
async fn a_failed_render_is_told_with_its_phase_and_the_next_one_runs() {
    let text = "global\n{{ resources.services.get_single('shop') .nothing.here }}\n";
    let (bus, mut events, core) = scene(text);
    bus.publish(Event::BecameLeader { correlation: Correlation(1), epoch: 1 });
    bus.publish(triggered(2, trigger()));
    assert!(matches!(next(&mut events).await, Event::ReconciliationStarted { .. }));
    let Event::ReconciliationFailed { error, .. } = next(&mut events).await else { panic!() };
    assert_eq!(error.phase, Phase::Render);
    assert!(error.to_string().starts_with("render: "), "{error}");
    core.replace(Arc::new(crate::testing::core(COUNT)));
    bus.publish(triggered(3, trigger()));
    assert!(matches!(next(&mut events).await, Event::ReconciliationStarted { .. }));
    assert!(matches!(next(&mut events).await, Event::TemplateRendered { .. }));
}

#[tokio::test]
async fn completes_once_for_a_deployment_and_all_renders_it_supersedes() {
    let (bus, mut events, core) = scene(COUNT);
    bus.publish(Event::BecameLeader { correlation: Correlation(1), epoch: 1 });
    let mut newest = None;
    for correlation in 2..4 {
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "namespace": "shop", "name": format!("s{correlation}") },
        });
        core.get().store.lock().sync(&[haptic_store::RawChange::Upsert(raw(&service))]);
        bus.publish(triggered(correlation, trigger()));
        assert!(matches!(next(&mut events).await, Event::ReconciliationStarted { .. }));
        let Event::TemplateRendered { render, .. } = next(&mut events).await else { panic!() };
        newest = Some(render);
    }
    let render = newest.unwrap();
    for _ in 0..2 {
        let (correlation, render) = (render.correlation, render.clone());
        bus.publish(Event::DeploymentCompleted { correlation, render, reports: [].into() });
    }
    let Event::ReconciliationCompleted { correlation, .. } = next(&mut events).await else { panic!() };
    assert_eq!(correlation, Correlation(3));
    bus.publish(triggered(4, trigger()));
    assert!(
        matches!(next(&mut events).await, Event::ReconciliationStarted { .. }),
        "the second completion was a retry and closes nothing"
    );
}

fn scene(text: &str) -> (Arc<EventBus>, Subscription, ActiveCore) {
    let bus = EventBus::new();
    let kinds = [
        EventKind::ReconciliationStarted,
        EventKind::TemplateRendered,
        EventKind::ReconciliationFailed,
        EventKind::ReconciliationCompleted,
    ];
    let events = bus.observe("test", &kinds);
    let core = ActiveCore::new(Arc::new(core(text)));
    let coordinator =
        Coordinator::new(&bus, core.clone(), Arc::new(Quarantine::default()), WallClock::fixed(0), (3, 2));
    tokio::spawn(coordinator.run());
    bus.start();
    (bus, events, core)
}

fn triggered(correlation: u64, trigger: Trigger) -> Event {
    Event::ReconciliationTriggered { correlation: Correlation(correlation), trigger }
}
