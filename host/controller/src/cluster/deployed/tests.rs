#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use haptic_model::{Mode, Reason, ReasonCode};

use super::*;
use crate::testing::{pod, render};

fn report(name: &str, plan: PlanId, outcome: PodOutcome) -> PodReport {
    let served = (outcome != PodOutcome::Failed).then_some(plan);
    PodReport {
        pod: name.into(),
        plan,
        outcome,
        verdict: None,
        mode: (outcome != PodOutcome::Failed).then_some(Mode::Reload),
        applied_plan: served,
        running_plan: served,
        haproxy: None,
        reasons: vec![Reason { code: ReasonCode::SectionChanged, message: "section global changed".to_owned() }],
        ops_run: 0,
        error: (outcome == PodOutcome::Failed).then(|| "no route to host".to_owned()),
        diff: Duration::ZERO,
        apply: Duration::ZERO,
        course: None,
    }
}

#[test]
fn a_render_is_settled_only_when_every_pod_serves_it() {
    let (old, new) = (render(1, "old").plan(), render(2, "new").plan());
    let mut deployed = Deployed::default();
    assert_eq!(deployed.of(new), Standing::Unknown);
    deployed.discovered(&[]);
    assert_eq!(deployed.of(new), Standing::NoPods);
    deployed.discovered(&[pod("a"), pod("b")]);
    deployed.reported(&report("a", new, PodOutcome::Serving), Timestamp(1));
    deployed.reported(&report("b", old, PodOutcome::Serving), Timestamp(1));
    assert_eq!(deployed.of(new), Standing::Apart(vec![Apart { pod: "b".into(), why: Why::Silent }]));
    deployed.reported(&report("b", new, PodOutcome::Scheduled), Timestamp(1));
    assert_eq!(deployed.of(new), Standing::Apart(vec![Apart { pod: "b".into(), why: Why::Scheduled }]));
    deployed.reported(&report("b", new, PodOutcome::Failed), Timestamp(1));
    let why = Why::Failed("no route to host".to_owned());
    assert_eq!(deployed.of(new), Standing::Apart(vec![Apart { pod: "b".into(), why }]));
    deployed.discovered(&[pod("a")]);
    assert_eq!(deployed.of(new), Standing::Settled { pods: 1 });
}

#[test]
fn a_failure_keeps_the_last_success_and_the_time_it_was_first_seen() {
    let (old, new) = (render(1, "old").plan(), render(2, "new").plan());
    let mut deployed = Deployed::default();
    deployed.discovered(&[pod("a")]);
    deployed.reported(&report("a", old, PodOutcome::Serving), Timestamp(1));
    deployed.reported(&report("a", new, PodOutcome::Failed), Timestamp(2));
    deployed.reported(&report("a", new, PodOutcome::Failed), Timestamp(3));
    let entry = deployed.entries(&BTreeMap::new()).remove(0);
    assert_eq!(entry.applied_plan, Some(old.to_string()));
    assert_eq!(entry.deployed_at.as_deref(), Some("1970-01-01T00:00:01Z"));
    assert_eq!((entry.mode.as_deref(), entry.consecutive_errors), (Some("reload"), 2));
    assert_eq!(entry.reload_reasons, ["section global changed"]);
    assert_eq!(entry.last_error.as_deref(), Some("no route to host"));
    assert_eq!(entry.last_error_first_seen_at.as_deref(), Some("1970-01-01T00:00:02Z"));

    deployed.reported(&report("a", new, PodOutcome::Serving), Timestamp(4));
    let entry = deployed.entries(&BTreeMap::new()).remove(0);
    assert_eq!((entry.last_error, entry.last_error_first_seen_at, entry.consecutive_errors), (None, None, 0));
    assert_eq!(entry.applied_plan, Some(new.to_string()));
}

#[test]
fn what_an_earlier_leader_knew_stands_until_the_pod_says_otherwise() {
    let plan = render(1, "old").plan();
    let before = PodDeploymentStatus {
        pod_name: "a".to_owned(),
        applied_plan: Some(plan.to_string()),
        deployed_at: Some("2020-01-01T00:00:00Z".to_owned()),
        last_error: Some("no route to host".to_owned()),
        last_error_first_seen_at: Some("2021-01-01T00:00:00Z".to_owned()),
        consecutive_errors: 7,
        ..PodDeploymentStatus::default()
    };
    let known = BTreeMap::from([("a".to_owned(), before.clone()), ("gone".to_owned(), before.clone())]);
    let mut deployed = Deployed::default();
    deployed.discovered(&[pod("a")]);
    assert_eq!(deployed.entries(&known), std::slice::from_ref(&before));
    deployed.reported(&report("a", plan, PodOutcome::Failed), Timestamp(9));
    let failing = deployed.entries(&known).remove(0);
    assert_eq!(failing.last_error_first_seen_at, before.last_error_first_seen_at);
    assert_eq!((failing.applied_plan, failing.consecutive_errors), (before.applied_plan.clone(), 1));
    deployed.reported(&report("a", plan, PodOutcome::Serving), Timestamp(10));
    assert_eq!(deployed.entries(&known).remove(0).deployed_at, before.deployed_at);
}

#[test]
fn a_report_may_come_before_discovery_and_is_not_shown_before_it() {
    let plan = render(1, "a").plan();
    let mut deployed = Deployed::default();
    deployed.discovered(&[]);
    deployed.reported(&report("a", plan, PodOutcome::Serving), Timestamp(1));
    assert_eq!(deployed.of(plan), Standing::NoPods);
    deployed.discovered(&[pod("a")]);
    assert_eq!(deployed.of(plan), Standing::Settled { pods: 1 });
}

#[test]
fn a_pod_is_in_trouble_after_some_failures_and_told_apart_from_one_that_never_answered() {
    let plan = render(1, "a").plan();
    let mut deployed = Deployed::default();
    deployed.discovered(&[pod("a"), pod("b")]);
    deployed.reported(&report("a", plan, PodOutcome::Serving), Timestamp(1));
    for _ in 0..2 {
        deployed.reported(&report("a", plan, PodOutcome::Failed), Timestamp(1));
        deployed.reported(&report("b", plan, PodOutcome::Failed), Timestamp(1));
    }
    assert_eq!(deployed.troubled(), []);
    deployed.reported(&report("a", plan, PodOutcome::Failed), Timestamp(1));
    deployed.reported(&report("b", plan, PodOutcome::Failed), Timestamp(1));
    let answered: Vec<_> = deployed.troubled().into_iter().map(|pod| (pod.pod.to_string(), pod.answered)).collect();
    assert_eq!(answered, [("a".to_owned(), true), ("b".to_owned(), false)]);
}
