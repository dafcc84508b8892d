#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_api::ConditionStatus::{False, True};
use serde_json::json;

use super::*;

fn draft(kind: &str, status: ConditionStatus, generation: i64) -> Draft {
    Draft::new(kind, status, "Reason", "message", Some(generation))
}

#[test]
fn only_own_conditions_change_and_the_time_only_with_the_status() {
    let theirs = json!({ "type": "Theirs", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z" });
    let present = merged(Some(&json!([theirs])), &[draft("Ours", True, 1)], Timestamp(0)).unwrap();
    assert_eq!(present[0], theirs);
    assert_eq!(present[1]["lastTransitionTime"], "1970-01-01T00:00:00Z");
    assert_eq!(merged(Some(&present), &[draft("Ours", True, 1)], Timestamp(60)), None);

    let next = merged(Some(&present), &[draft("Ours", True, 2)], Timestamp(60)).unwrap();
    assert_eq!(
        (&next[1]["lastTransitionTime"], &next[1]["observedGeneration"]),
        (&json!("1970-01-01T00:00:00Z"), &json!(2))
    );
    let turned = merged(Some(&next), &[draft("Ours", False, 2)], Timestamp(60)).unwrap();
    assert_eq!(turned[1]["lastTransitionTime"], "1970-01-01T00:01:00Z");
    assert_eq!(turned[0], theirs);
}

#[test]
fn what_somebody_knows_of_a_newer_generation_stays() {
    let present = merged(None, &[draft("Ours", True, 5)], Timestamp(0)).unwrap();
    assert_eq!(merged(Some(&present), &[draft("Ours", False, 4)], Timestamp(60)), None);
    assert!(merged(Some(&present), &[draft("Ours", False, 5)], Timestamp(60)).is_some());
}

#[test]
fn that_nothing_is_known_is_said_only_where_nothing_was() {
    let pending = Draft::pending("Ours", "Pending", "wait", None);
    assert_eq!(merged(None, std::slice::from_ref(&pending), Timestamp(0)).unwrap()[0]["status"], "Unknown");
    let present = merged(None, &[draft("Ours", True, 5)], Timestamp(0)).unwrap();
    assert_eq!(merged(Some(&present), &[pending], Timestamp(60)), None);
}

#[test]
fn long_messages_are_cut_between_characters() {
    assert_eq!(shortened("short", 5), "short");
    let cut = shortened(&"ä".repeat(10), 12);
    assert_eq!(cut, "ääää…");
    assert!(shortened(&"x".repeat(5000), 1024).len() <= 1024);
}
