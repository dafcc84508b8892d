#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_model::ObjectRef;
use prometheus_client::{encoding::text::encode, registry::Registry};

use super::*;

fn proposal(name: &str) -> Proposal {
    Proposal { object: ObjectRef::new("Service", "shop", name), changes: Vec::new() }
}

fn desk() -> (Arc<Desk>, Registry) {
    let mut registry = Registry::default();
    let metrics = WebhookMetrics::register(&mut registry);
    (Desk::new(metrics), registry)
}

fn depth(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    let line = text.lines().find(|line| line.starts_with("haptic_admission_queue_depth ")).unwrap();
    line.rsplit(' ').next().unwrap().to_owned()
}

fn names(tickets: &[Ticket]) -> Vec<&str> {
    tickets.iter().map(|ticket| &*ticket.proposal.object.name).collect()
}

#[tokio::test(start_paused = true)]
async fn those_that_wait_are_taken_together_and_each_object_once() {
    let (desk, registry) = desk();
    let waiting: Vec<_> = ["a", "b", "a", "c"].map(|name| desk.enter(proposal(name)).unwrap()).into();
    assert_eq!(depth(&registry), "4");
    let first = desk.next().await;
    assert_eq!(names(&first), ["a", "b", "c"]);
    assert_eq!(depth(&registry), "1");
    assert_eq!(names(&desk.next().await), ["a"], "the second write of it is judged after the first");
    for ticket in first {
        ticket.answer.send(Opinion::Allowed { warnings: Vec::new() }).unwrap();
    }
    let mut waiting = waiting.into_iter();
    let opinion = waiting.next().unwrap().opinion(Duration::from_secs(9)).await;
    assert!(matches!(opinion, Some(Opinion::Allowed { .. })));
}

#[tokio::test(start_paused = true)]
async fn who_waits_no_more_leaves_the_queue() {
    let (desk, registry) = desk();
    drop(desk.enter(proposal("gone")).unwrap());
    assert_eq!(depth(&registry), "0");
    let slow = desk.enter(proposal("slow")).unwrap();
    assert!(slow.opinion(Duration::from_secs(9)).await.is_none(), "its time ran out");
    assert_eq!(depth(&registry), "0");
    let (stays, judged) = (desk.enter(proposal("stays")).unwrap(), desk.enter(proposal("judged")).unwrap());
    let mut taken = desk.next().await;
    drop(judged);
    // Whoever judges is told, and goes on for the others.
    taken[1].answer.closed().await;
    assert!(!taken[0].answer.is_closed());
    drop(stays);
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded() {
    let (desk, _registry) = desk();
    let waiting: Vec<_> = (0..MOST_WAITING).map(|number| desk.enter(proposal(&number.to_string())).unwrap()).collect();
    assert!(desk.enter(proposal("late")).is_err());
    let batch = desk.next().await;
    assert_eq!(batch.len(), MOST_TOGETHER, "and so is what is judged together");
    assert!(desk.enter(proposal("late")).is_ok());
    drop(waiting);
}
