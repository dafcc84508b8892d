#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use haptic_model::{FindingCode, Mode};

use super::*;
use crate::{
    events::Correlation,
    pod::{PodOutcome, PodReport},
    testing::{pod, refused, render},
};

fn completed(render: &Arc<Render>, pods: &[(&str, PodOutcome)]) -> Event {
    let report = |(name, outcome): &(&str, PodOutcome)| PodReport {
        pod: (*name).into(),
        plan: render.plan(),
        outcome: *outcome,
        verdict: None,
        mode: Some(Mode::Runtime),
        applied_plan: Some(render.plan()),
        running_plan: Some(render.plan()),
        haproxy: None,
        reasons: Vec::new(),
        ops_run: 1,
        error: None,
        diff: Duration::ZERO,
        apply: Duration::ZERO,
        course: None,
    };
    let reports = pods.iter().map(report).collect();
    Event::DeploymentCompleted { correlation: Correlation(1), render: render.clone(), reports }
}

#[tokio::test]
async fn the_settled_render_is_the_newest_that_every_pod_acknowledged() {
    let (first, second) = (render(1, "a"), render(2, "b"));
    let mut picture = Picture::default();
    let mut settled = |events: Vec<Event>| {
        for event in events {
            picture.take(event, Timestamp(0));
        }
        picture.settled.as_ref().map(|render| render.seq)
    };
    let rendered =
        |render: &Arc<Render>| Event::TemplateRendered { correlation: Correlation(1), render: render.clone() };
    let found = |names: &[&str]| Event::HAProxyPodsDiscovered {
        correlation: Correlation(1),
        pods: names.iter().map(|name| pod(name)).collect(),
    };
    let serving = PodOutcome::Serving;
    assert_eq!(settled(vec![found(&["a", "b"]), rendered(&first), completed(&first, &[("a", serving)])]), None);
    assert_eq!(settled(vec![completed(&first, &[("b", PodOutcome::Scheduled)])]), None);
    assert_eq!(settled(vec![completed(&first, &[("b", serving)])]), Some(1));
    assert_eq!(settled(vec![rendered(&second), completed(&second, &[("a", serving)])]), Some(1));
    // The pod that did not take it is gone.
    assert_eq!(settled(vec![found(&["a"])]), Some(2));
}

#[tokio::test]
async fn what_is_wrong_is_what_is_wrong_now() {
    let mut picture = Picture::default();
    let broken = Arc::new({
        let mut render = crate::testing::render_of(1, "a", crate::testing::trigger());
        render.output.findings = vec![Finding::error(FindingCode::InvalidValue, "no such port")];
        render
    });
    let outcome = |seq, verdict| {
        let (passed_by, checked_by) = (std::collections::BTreeSet::new(), Vec::new());
        let plan = render(seq, "a").plan();
        let duration = Duration::ZERO;
        Arc::new(GateOutcome { seq, plan, verdict, passed_by, checked_by, duration, quarantined: 0 })
    };
    let correlation = Correlation(1);
    picture.take(Event::TemplateRendered { correlation, render: broken }, Timestamp(0));
    picture.take(Event::RenderGateCompleted { correlation, outcome: outcome(1, refused()) }, Timestamp(0));
    let codes: Vec<_> = picture.findings().map(|finding| finding.code).collect();
    assert_eq!(codes, [FindingCode::InvalidValue, FindingCode::RefusedByHAProxy]);
    picture.take(Event::TemplateRendered { correlation, render: render(2, "b") }, Timestamp(0));
    picture.take(Event::RenderGateCompleted { correlation, outcome: outcome(2, GateVerdict::Passed) }, Timestamp(0));
    assert_eq!(picture.findings().count(), 0);
}
