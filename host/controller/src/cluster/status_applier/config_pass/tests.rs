#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_api::ConfigReason;
use haptic_kubernetes::{Access, Limits, connect};

use super::*;
use crate::{
    clock::Timestamp,
    events::{Correlation, Event},
    pod::{PodOutcome, PodReport},
    testing::{core, pod, render},
};

/// Nothing is asked of this server.
async fn api() -> Api {
    let access = Access::Plain { url: "http://127.0.0.1:1".to_owned() };
    Api::new(connect(&access, Duration::from_secs(1)).await.unwrap(), Limits::default())
}

fn deployed(drafts: &[Draft]) -> Option<&str> {
    let kind = ConfigConditionType::Deployed.to_string();
    drafts.iter().find(|draft| draft.kind == kind).map(|draft| draft.reason.as_str())
}

#[tokio::test(start_paused = true)]
async fn a_change_that_pods_take_in_time_is_no_news_and_a_failure_is_news_at_once() {
    let grace = Duration::from_secs(2);
    let core = ActiveCore::new(Arc::new(core("global\n")));
    let mut pass = ConfigPass::new(api().await, core, OwnWrites::default(), WallClock::fixed(0), grace);
    let mut picture = Picture::default();
    let first = render(1, "a");
    let correlation = Correlation(1);
    picture.take(Event::HAProxyPodsDiscovered { correlation, pods: [pod("a")].into() }, Timestamp(0));
    picture.take(Event::TemplateRendered { correlation, render: first.clone() }, Timestamp(0));
    let (drafts, again) = pass.drafts(&picture);
    assert_eq!((deployed(&drafts), again), (None, Some(grace)));
    let report = |outcome| PodReport {
        pod: "a".into(),
        plan: first.plan(),
        outcome,
        verdict: None,
        mode: None,
        applied_plan: (outcome == PodOutcome::Serving).then(|| first.plan()),
        running_plan: None,
        haproxy: None,
        reasons: Vec::new(),
        ops_run: 0,
        error: Some("no route to host".to_owned()),
        diff: Duration::ZERO,
        apply: Duration::ZERO,
        course: None,
    };
    let completed = |outcome| {
        let reports = [report(outcome)].into();
        Event::DeploymentCompleted { correlation, render: first.clone(), reports }
    };
    picture.take(completed(PodOutcome::Serving), Timestamp(0));
    let (drafts, again) = pass.drafts(&picture);
    assert_eq!((deployed(&drafts), again), (Some("AllPodsServe"), None));
    pass.asserted = Some(Asserted { uid: "".into(), drafts, audit: 0 });

    picture.take(Event::TemplateRendered { correlation, render: render(2, "b") }, Timestamp(0));
    assert_eq!(deployed(&pass.drafts(&picture).0), Some("AllPodsServe"));
    tokio::time::advance(grace).await;
    assert_eq!(deployed(&pass.drafts(&picture).0), Some(ConfigReason::Deploying.to_string().as_str()));

    picture.take(Event::TemplateRendered { correlation, render: render(3, "c") }, Timestamp(0));
    picture.take(completed(PodOutcome::Failed), Timestamp(0));
    let (drafts, again) = pass.drafts(&picture);
    assert_eq!((deployed(&drafts), again), (Some("DeploymentFailed"), None));
}
