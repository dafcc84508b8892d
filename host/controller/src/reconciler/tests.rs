#![allow(clippy::unwrap_used, reason = "tests")]

use tokio::time::Instant;

use crate::{
    bus::EventBus,
    events::{Correlation, Event, EventKind},
    reconciler::Reconciler,
    testing::{change, index_updated, next},
};

#[tokio::test(start_paused = true)]
async fn triggers_at_once_for_everything_but_the_initial_sync() {
    let bus = EventBus::new();
    let mut triggers = bus.subscribe("test", &[EventKind::ReconciliationTriggered]);
    let reconciler = tokio::spawn(Reconciler::new(&bus).run());
    bus.start();
    let began = Instant::now();

    let mut initial = change("services", "a");
    initial.initial_sync = true;
    bus.publish(Event::ResourceIndexUpdated { correlation: Correlation(1), change: initial });
    bus.publish(Event::IndexSynchronized { correlation: Correlation(2) });
    let first = next(&mut triggers).await;
    assert_eq!(first.correlation(), Correlation(2), "the initial sync triggers nothing of its own");

    for (correlation, verify) in [(3, false), (4, true), (5, true)] {
        bus.publish(match correlation {
            3 => index_updated(3, "services", "b"),
            4 => Event::DriftPreventionTriggered { correlation: Correlation(4) },
            _ => Event::BecameLeader { correlation: Correlation(5), epoch: 1 },
        });
        let Event::ReconciliationTriggered { correlation: of, trigger } = next(&mut triggers).await else { panic!() };
        assert_eq!((of, trigger.verify), (Correlation(correlation), verify));
    }
    assert_eq!(began.elapsed(), std::time::Duration::ZERO, "there is no second debounce");
    bus.close();
    reconciler.await.unwrap();
}
