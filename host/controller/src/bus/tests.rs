#![allow(clippy::unwrap_used, reason = "tests")]

use crate::{
    bus::{EventBus, MAILBOX_KEYS},
    events::{Correlation, Event, EventKind},
    testing::{change, index_updated, render},
};

const ALL: &[EventKind] = &EventKind::ALL;

#[tokio::test]
async fn replays_in_order_what_was_published_before_the_start() {
    let bus = EventBus::new();
    let mut events = bus.subscribe("test", ALL);
    bus.publish(Event::BecameLeader { correlation: Correlation(1), epoch: 7 });
    bus.publish(Event::IndexSynchronized { correlation: Correlation(2) });
    assert_eq!(events.depth(), 0, "nothing is delivered before the start");
    bus.start();
    assert!(matches!(events.next().await, Some(Event::BecameLeader { epoch: 7, .. })));
    assert!(matches!(events.next().await, Some(Event::IndexSynchronized { .. })));
}

#[tokio::test]
async fn coalesces_over_the_whole_queue_and_the_latest_takes_its_place_at_the_end() {
    let bus = EventBus::new();
    let mut events = bus.subscribe("test", ALL);
    bus.start();
    // Alternating kinds must not grow the mailbox.
    for round in 0..10_000 {
        bus.publish(index_updated(round, "services", "a"));
        bus.publish(Event::DriftPreventionTriggered { correlation: Correlation(round) });
    }
    assert_eq!(events.depth(), 2);
    let Some(Event::ResourceIndexUpdated { correlation, change }) = events.next().await else { panic!("wrong order") };
    assert_eq!((correlation, change.total), (Correlation(9_999), 10_000));
    assert!(matches!(events.next().await, Some(Event::DriftPreventionTriggered { correlation: Correlation(9_999) })));
}

#[tokio::test]
async fn events_of_one_kind_with_other_keys_do_not_coalesce() {
    let bus = EventBus::new();
    let mut events = bus.subscribe("test", ALL);
    bus.start();
    bus.publish(index_updated(1, "services", "a"));
    bus.publish(index_updated(2, "ingresses", "b"));
    bus.publish(index_updated(3, "services", "c"));
    let Some(Event::ResourceIndexUpdated { change, .. }) = events.next().await else { panic!("missing") };
    assert_eq!(&*change.resource, "ingresses");
    let Some(Event::ResourceIndexUpdated { change, .. }) = events.next().await else { panic!("missing") };
    let names: Vec<_> = change.objects.iter().map(|changed| &*changed.object.name).collect();
    assert_eq!(names, ["a", "c"], "the later event keeps the causes of the earlier one");
}

#[tokio::test]
async fn a_mailbox_that_would_lose_an_event_fails_the_bus_by_name() {
    let bus = EventBus::new();
    let _events = bus.subscribe("Slow", ALL);
    bus.start();
    for resource in 0..=MAILBOX_KEYS {
        bus.publish(Event::ResourceIndexUpdated {
            correlation: Correlation(0),
            change: change(&format!("resource-{resource}"), "a"),
        });
    }
    let failure = bus.failed().await;
    assert_eq!((failure.subscriber, failure.kind), ("Slow", EventKind::ResourceIndexUpdated));
    assert!(failure.to_string().contains("ResourceIndexUpdatedEvent"), "{failure}");
}

#[tokio::test]
async fn an_observer_sees_every_event_and_its_losses_are_counted() {
    let bus = EventBus::new();
    let mut seen = bus.observe("observer", ALL);
    bus.start();
    for seq in 0..3 {
        bus.publish(Event::TemplateRendered { correlation: Correlation(seq), render: render(seq, "a") });
    }
    for seq in 0..3 {
        assert_eq!(seen.next().await.unwrap().correlation(), Correlation(seq));
    }
    for seq in 0..1_000 {
        bus.publish(Event::IndexSynchronized { correlation: Correlation(seq) });
    }
    assert_eq!(bus.observer_losses(), 1_000 - super::OBSERVER_BACKLOG as u64);
}

#[tokio::test]
async fn subscribers_end_with_the_bus_after_what_waits() {
    let bus = EventBus::new();
    let mut events = bus.subscribe("test", ALL);
    bus.start();
    bus.publish(Event::IndexSynchronized { correlation: Correlation(1) });
    bus.close();
    bus.publish(Event::IndexSynchronized { correlation: Correlation(2) });
    assert_eq!(events.next().await.unwrap().correlation(), Correlation(1));
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_scope_ends_what_subscribed_through_it_and_nothing_else() {
    let bus = EventBus::new();
    let term = bus.scope();
    let (mut all, mut of_term) = (bus.subscribe("all", ALL), term.subscribe("term", ALL));
    bus.start();
    term.publish(Event::IndexSynchronized { correlation: bus.correlate() });
    term.close();
    term.publish(Event::DriftPreventionTriggered { correlation: term.correlate() });
    assert!(matches!(of_term.next().await, Some(Event::IndexSynchronized { .. })), "what waits is still read");
    assert!(of_term.next().await.is_none());
    bus.publish(Event::BecameLeader { correlation: bus.correlate(), epoch: 2 });
    assert!(matches!(all.next().await, Some(Event::IndexSynchronized { .. })));
    assert!(matches!(all.next().await, Some(Event::BecameLeader { .. })), "what a closed scope publishes is dropped");
    assert!(term.subscribe("late", ALL).next().await.is_none());
    let next = bus.scope();
    bus.close();
    assert!(next.subscribe("later", ALL).next().await.is_none(), "a scope ends with its bus");
}
