#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use haptic_model::{Mode, PlanId};

use super::*;
use crate::{
    events::Correlation,
    pod::PodReport,
    testing::{pod, render},
};

fn completed(render: &Arc<Render>, name: &str, outcome: PodOutcome) -> Event {
    let served: Option<PlanId> = (outcome != PodOutcome::Failed).then(|| render.plan());
    let report = PodReport {
        pod: name.into(),
        plan: render.plan(),
        outcome,
        verdict: None,
        mode: served.map(|_| Mode::Runtime),
        applied_plan: served,
        running_plan: served,
        haproxy: None,
        reasons: Vec::new(),
        ops_run: 0,
        error: served.is_none().then(|| "no route to host".to_owned()),
        diff: Duration::ZERO,
        apply: Duration::ZERO,
        course: None,
    };
    Event::DeploymentCompleted { correlation: Correlation(1), render: render.clone(), reports: [report].into() }
}

#[tokio::test]
async fn only_what_a_pod_serves_is_published_and_never_an_older_one_after_it() {
    let (first, second) = (render(1, "a"), render(2, "b"));
    let mut wanted = Wanted::default();
    let mut after = |event| {
        wanted.take(event, Timestamp(0));
        wanted.render.as_ref().map(|render| render.seq)
    };
    assert_eq!(after(completed(&first, "a", PodOutcome::Failed)), None);
    assert_eq!(after(completed(&first, "a", PodOutcome::Scheduled)), None);
    assert_eq!(after(completed(&second, "a", PodOutcome::Serving)), Some(2));
    assert_eq!(after(completed(&first, "b", PodOutcome::Serving)), Some(2));
}

#[tokio::test]
async fn a_deployment_that_replaces_another_in_a_mailbox_keeps_its_reports() {
    let render = render(1, "a");
    let bus = EventBus::new();
    let mut events = bus.subscribe("test", &[EventKind::DeploymentCompleted]);
    bus.start();
    bus.publish(completed(&render, "a", PodOutcome::Serving));
    bus.publish(completed(&render, "b", PodOutcome::Failed));
    bus.publish(completed(&render, "b", PodOutcome::Serving));
    let mut deployed = Deployed::default();
    deployed.discovered(&[pod("a"), pod("b")]);
    let Some(Event::DeploymentCompleted { reports, .. }) = events.next().await else { panic!("it is published") };
    reports.iter().for_each(|report| deployed.reported(report, Timestamp(0)));
    let entries = deployed.entries(&BTreeMap::new());
    let plan = render.plan().to_string();
    assert!(entries.iter().all(|entry| entry.applied_plan.as_ref() == Some(&plan) && entry.consecutive_errors == 0));
    assert_eq!(entries.len(), 2);
}

#[test]
fn publishing_takes_a_twentieth_of_the_time_at_most() {
    let settings = PublisherSettings::new(&Reporting::default(), Jitter::new(|| 0.5));
    let pause = |took| settings.pause_after(Duration::from_millis(took));
    assert_eq!(pause(10), Duration::from_secs(1), "the pace of small ones");
    assert_eq!(pause(500), Duration::from_secs(10));
    assert_eq!(pause(60_000), Duration::from_secs(30), "it ends in sight");
}
