#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use haptic_model::{Mode, Reason, ReasonCode, Verdict};

use crate::{
    commentator::line,
    events::{Cause, Trigger},
    pod::{PodOutcome, PodReport},
    testing::{change, render_of},
};

#[tokio::test]
async fn says_what_changed_and_what_it_took_in_one_line() {
    let change = change("services", "web");
    let mut render = render_of(1, "a", Trigger::new(Cause::Resource(change), tokio::time::Instant::now()));
    render.output.timing.render = Duration::from_micros(1_200);
    let report = report(&render, Mode::Runtime, 2);
    let text = line(Duration::from_micros(6_100), &render, &[report]);
    assert_eq!(
        text,
        "reconciled: Service shop/web changed → runtime (2 ops) in 6.1 ms (render 1.2, check async, apply 2.4), 0 findings"
    );
}

#[tokio::test]
async fn a_reload_says_why_and_a_failure_what() {
    let render = render_of(1, "a", crate::testing::trigger());
    let mut reload = report(&render, Mode::Reload, 0);
    reload.reasons.push(Reason::new(ReasonCode::ProfileAdded, "profile `p1` is new"));
    let text = line(Duration::from_millis(40), &render, &[reload.clone()]);
    assert!(text.contains("→ reload because profile `p1` is new in 40.0 ms"), "{text}");
    reload.outcome = PodOutcome::Failed;
    reload.error = Some("connection refused".to_owned());
    let text = line(Duration::from_millis(40), &render, &[reload]);
    assert!(text.contains("→ failed") && text.ends_with("pod local: connection refused"), "{text}");
}

fn report(render: &crate::pipeline::Render, mode: Mode, ops_run: usize) -> PodReport {
    PodReport {
        pod: "local".into(),
        plan: render.plan(),
        outcome: PodOutcome::Serving,
        verdict: Some(Verdict::Runtime),
        mode: Some(mode),
        applied_plan: None,
        running_plan: None,
        haproxy: None,
        reasons: Vec::new(),
        ops_run,
        error: None,
        diff: Duration::ZERO,
        apply: Duration::from_micros(2_400),
        course: None,
    }
}
