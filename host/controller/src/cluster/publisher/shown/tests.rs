#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn set(plan: &str) -> Set {
    Set { plan: plan.to_owned(), generation: Some(1), ..Set::default() }
}

fn entry(name: &str, plan: &str) -> PodDeploymentStatus {
    PodDeploymentStatus {
        pod_name: name.to_owned(),
        applied_plan: Some(plan.to_owned()),
        running_plan: Some(plan.to_owned()),
        ..PodDeploymentStatus::default()
    }
}

fn condition<'a>(status: &'a Value, kind: &str) -> (&'a str, &'a str) {
    let conditions = status["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
    (found["status"].as_str().unwrap(), found["reason"].as_str().unwrap())
}

#[test]
fn the_newest_shows_every_pod_and_an_older_one_those_that_still_have_it() {
    let entries = [entry("a", "new"), entry("b", "old")];
    let newest = set("new").status(&entries, Place::Newest, Timestamp(0)).unwrap();
    assert_eq!(newest["deployedToPods"].as_array().unwrap().len(), 2);
    assert_eq!(condition(&newest, "Synced"), ("False", "PodsDiffer"));
    let older = set("old").status(&entries, Place::Older, Timestamp(0)).unwrap();
    assert_eq!(older["deployedToPods"].as_array().unwrap().len(), 1);
    assert_eq!(condition(&older, "Synced"), ("False", "Superseded"));
    assert_eq!(set("gone").status(&entries, Place::Older, Timestamp(0)), None);
    let settled = set("new").status(&entries[..1], Place::Newest, Timestamp(0)).unwrap();
    assert_eq!(condition(&settled, "Synced"), ("True", "AllPodsServe"));
    assert_eq!(condition(&settled, "Published"), ("True", "Complete"));
}

#[test]
fn only_what_differs_is_written_and_what_is_gone_is_taken_away() {
    let mut set = set("new");
    let failing = PodDeploymentStatus { last_error: Some("no".to_owned()), consecutive_errors: 1, ..entry("a", "new") };
    let status = set.status(&[failing], Place::Newest, Timestamp(0)).unwrap();
    set.written(&json!({ "metadata": { "generation": 1 }, "status": status }));
    let status = set.status(&[entry("a", "new")], Place::Newest, Timestamp(0)).unwrap();
    assert_eq!(status["deployedToPods"][0].get("lastError"), None);
    assert_eq!(status.get("auxiliaryFiles"), None, "it is as it was");
    let mut object = json!({ "metadata": { "generation": 1 }, "status": set.status });
    object["status"].as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
    set.written(&object);
    assert_eq!(set.status(&[entry("a", "new")], Place::Newest, Timestamp(9)), None);
    let empty = set.status(&[], Place::Newest, Timestamp(9)).unwrap();
    assert_eq!(empty["deployedToPods"], json!([]));
}

#[test]
fn what_is_too_large_is_said_in_a_condition() {
    let withheld = vec![
        WithheldFile { path: "maps/huge.map".to_owned(), reason: WithheldReason::TooLarge },
        WithheldFile { path: "certs/a.pem".to_owned(), reason: WithheldReason::Certificate },
    ];
    let set = Set { withheld, ..set("new") };
    let status = set.status(&[], Place::Newest, Timestamp(0)).unwrap();
    assert_eq!(condition(&status, "Published"), ("False", "TooLarge"));
    let message = status["conditions"][1]["message"].as_str().unwrap();
    assert!(message.contains("maps/huge.map") && !message.contains("a.pem"), "{message}");
}

#[test]
fn the_newest_word_of_an_earlier_leader_counts() {
    let of = |created: &str, plan: &str| Set {
        created: Some(created.to_owned()),
        status: json!({ "deployedToPods": [entry("a", plan)] }),
        ..Set::default()
    };
    let known = remembered([of("2026-02-01T00:00:00Z", "new"), of("2026-01-01T00:00:00Z", "old")].iter());
    assert_eq!(known["a"].applied_plan.as_deref(), Some("new"));
}
