#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use haptic_model::Digest;
use haptic_wire::ApplyMode;
use tokio::{task::JoinHandle, time::Instant};

use crate::{
    bus::{EventBus, Subscription},
    deployer::{Deployer, DeployerError},
    events::{Correlation, Event, EventKind, GateOutcome, GateVerdict},
    pipeline::{Pacing, Render},
    pod::{PodOutcome, PodReport},
    testing::{FakeAgent, Fault, next, pod, refused, render},
};

struct Scene {
    bus: Arc<EventBus>,
    completed: Subscription,
    failed: Subscription,
    agent: FakeAgent,
    deployer: JoinHandle<Result<(), DeployerError>>,
}

#[tokio::test(start_paused = true)]
async fn the_first_deployment_sends_the_whole_set_and_later_ones_name_their_baseline() {
    let mut scene = Scene::new();
    let (first, second) = (render(1, "a"), render(2, "b"));
    scene.schedule(&first);
    assert_eq!(scene.report().await.outcome, PodOutcome::Serving);
    scene.schedule(&second);
    scene.report().await;
    let applies = scene.agent.applies();
    assert_eq!((applies[0].mode, applies[0].expected_plan), (ApplyMode::Reload, None));
    assert_eq!(applies[0].parts.len(), 1, "content that the agent does not have");
    assert_eq!((applies[1].expected_plan, applies[1].token.render_seq), (Some(first.plan()), 2));
}

#[tokio::test(start_paused = true)]
async fn the_interval_between_reloads_goes_with_every_apply() {
    let mut scene = Scene::new();
    for (seq, seconds) in [(1, 2), (2, 7)] {
        let pacing = Pacing { reload_interval: Duration::from_secs(seconds), ..Pacing::default() };
        let render = Render { pacing, ..Render::clone(&render(seq, &seq.to_string())) };
        scene.schedule(&Arc::new(render));
        scene.report().await;
    }
    let intervals: Vec<_> = scene.agent.applies().iter().map(|apply| apply.reload_interval_ms).collect();
    assert_eq!(intervals, [Some(2_000), Some(7_000)]);
}

#[tokio::test(start_paused = true)]
async fn the_same_plan_is_not_sent_twice() {
    let mut scene = Scene::new();
    scene.schedule(&render(1, "a"));
    scene.report().await;
    scene.schedule(&render(2, "a"));
    assert_eq!(scene.report().await.outcome, PodOutcome::Serving);
    assert_eq!(scene.agent.applies().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_followed_by_the_state_and_not_by_a_blind_repeat() {
    let mut scene = Scene::new();
    scene.agent.fail_next(Fault::LoseAnswer);
    scene.schedule(&render(1, "a"));
    assert_eq!(scene.report().await.outcome, PodOutcome::Failed);
    let Event::InstanceDeploymentFailed { report, .. } = next(&mut scene.failed).await else { panic!() };
    assert!(report.error.as_ref().unwrap().contains("connection refused"), "{:?}", report.error);
    // The retry reads that the plan is applied; without its document it must be loaded once more to be sure.
    let retried = scene.report().await;
    assert_eq!(retried.outcome, PodOutcome::Serving);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fell_back_gets_the_last_render_again() {
    let mut scene = Scene::new();
    let (first, second) = (render(1, "a"), render(2, "b"));
    for one in [&first, &second] {
        scene.schedule(one);
        scene.report().await;
    }
    scene.agent.fall_back(first.plan());
    let again = scene.report().await;
    assert_eq!((again.outcome, again.applied_plan), (PodOutcome::Serving, Some(second.plan())));
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_with_growing_pauses() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        scene.agent.fail_next(Fault::Unreachable);
    }
    let began = Instant::now();
    scene.schedule(&render(1, "a"));
    for _ in 0..3 {
        assert_eq!(scene.report().await.outcome, PodOutcome::Failed);
    }
    assert_eq!(scene.report().await.outcome, PodOutcome::Serving);
    assert_eq!(began.elapsed(), Duration::from_millis(250 + 500 + 1_000));
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_got_there_first_is_diffed_against_again() {
    let mut scene = Scene::new();
    scene.schedule(&render(1, "a"));
    scene.report().await;
    let foreign = haptic_model::PlanId(Digest::of(b"foreign"));
    scene.agent.fail_next(Fault::Moved(foreign));
    scene.schedule(&render(2, "b"));
    assert_eq!(scene.report().await.outcome, PodOutcome::Serving);
    let applies = scene.agent.applies();
    assert_eq!(applies.last().unwrap().expected_plan, Some(foreign));
    assert_eq!(applies.last().unwrap().mode, ApplyMode::Reload, "the document of a foreign plan is not known");
}

#[tokio::test(start_paused = true)]
async fn files_that_the_agent_misses_are_sent() {
    let mut scene = Scene::new();
    scene.schedule(&render(1, "a"));
    scene.report().await;
    scene.agent.fail_next(Fault::MissFiles);
    scene.schedule(&render(2, "b"));
    assert_eq!(scene.report().await.outcome, PodOutcome::Serving);
}

#[tokio::test(start_paused = true)]
async fn a_later_leader_makes_it_stand_down() {
    let scene = Scene::new();
    scene.agent.fail_next(Fault::LaterLeader);
    scene.schedule(&render(1, "a"));
    let ended = scene.deployer.await.unwrap();
    assert!(matches!(ended, Err(DeployerError::StoodDown { .. })), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_reload_reports_haproxys_own_words_and_is_not_repeated_at_once() {
    let mut scene = Scene::new();
    scene.agent.fail_next(Fault::RefuseReload("[ALERT] unknown keyword 'bogus'"));
    scene.schedule(&render(1, "a"));
    let report = scene.report().await;
    assert_eq!(
        (report.outcome, report.error.as_deref()),
        (PodOutcome::Failed, Some("[ALERT] unknown keyword 'bogus'"))
    );
    let began = Instant::now();
    assert_eq!(scene.report().await.outcome, PodOutcome::Serving);
    assert_eq!(began.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_reload_is_reported_again_when_it_is_done() {
    let mut scene = Scene::new();
    scene.agent.fail_next(Fault::Schedule);
    scene.schedule(&render(1, "a"));
    assert_eq!(scene.report().await.outcome, PodOutcome::Scheduled);
    scene.agent.reload_now();
    assert_eq!(scene.report().await.outcome, PodOutcome::Serving);
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_reload_that_a_death_of_haproxy_took_away_is_sent_again() {
    let mut scene = Scene::new();
    let (first, second) = (render(1, "a"), render(2, "b"));
    scene.schedule(&first);
    scene.report().await;
    scene.agent.fail_next(Fault::Schedule);
    scene.schedule(&second);
    assert_eq!(scene.report().await.outcome, PodOutcome::Scheduled);
    scene.agent.fall_back(first.plan());
    assert_eq!(scene.report().await.outcome, PodOutcome::Failed);
    let again = scene.report().await;
    assert_eq!((again.outcome, again.applied_plan), (PodOutcome::Serving, Some(second.plan())));
}

#[tokio::test(start_paused = true)]
async fn a_pass_is_named_so_that_the_agent_promotes_and_only_by_its_own_version() {
    let mut scene = Scene::new();
    scene.schedule(&render(1, "a"));
    scene.report().await;
    let second = runtime_render(2, "a");
    scene.schedule(&second);
    scene.report().await;
    scene.judge(&second, GateVerdict::Passed, (3, 4));
    let before = scene.agent.applies().len();
    assert!(scene.nothing_after(before).await, "3.4 says nothing about 3.2");
    scene.judge(&second, GateVerdict::Passed, (3, 2));
    let applies = scene.agent.applied(before + 1).await;
    assert_eq!(applies.last().unwrap().validated_plan, Some(second.plan()));
    assert_eq!(scene.agent.state_now().lkg_plan, Some(second.plan()));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_reverts_what_was_taken_without_a_reload_and_leaves_the_rest_alone() {
    let mut scene = Scene::new();
    let (first, second) = (render(1, "a"), runtime_render(2, "a"));
    scene.schedule(&first);
    scene.report().await;
    scene.judge(&first, refused(), (3, 2));
    assert!(scene.nothing_after(1).await, "nothing is sent");
    assert_eq!(scene.agent.state_now().applied_plan, Some(first.plan()), "its own HAProxy has loaded it");
    scene.schedule(&second);
    scene.report().await;
    let before = scene.agent.applies().len();
    scene.judge(&second, refused(), (3, 2));
    let applies = scene.agent.applied(before + 1).await;
    assert_eq!(applies.last().unwrap().mode, ApplyMode::RevertLkg);
    assert_eq!(scene.agent.state_now().applied_plan, Some(first.plan()));
}

#[tokio::test(start_paused = true)]
async fn renders_that_come_while_a_pod_is_busy_are_superseded_by_the_newest() {
    let mut scene = Scene::new();
    let busy = scene.agent.gate.clone().acquire_owned().await.unwrap();
    scene.schedule(&render(1, "a"));
    scene.idle().await;
    for seq in 2..10 {
        scene.schedule(&render(seq, &format!("text {seq}")));
    }
    scene.idle().await;
    drop(busy);
    scene.report().await;
    assert_eq!(scene.report().await.plan, render(9, "text 9").plan());
    assert_eq!(scene.agent.applies().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_plan_document_is_stored_after_the_apply_and_at_the_latest_when_it_ends() {
    let mut scene = Scene::new();
    let first = render(1, "a");
    scene.schedule(&first);
    scene.report().await;
    assert_eq!(scene.agent.document(), None, "not on the path");
    assert!(scene.nothing_after(1).await, "nothing is sent");
    assert_eq!(scene.agent.document(), Some(first.plan()));
    let second = render(2, "b");
    scene.schedule(&second);
    scene.report().await;
    scene.bus.close();
    scene.deployer.await.unwrap().unwrap();
    assert_eq!(scene.agent.document(), Some(second.plan()));
}

#[tokio::test(start_paused = true)]
async fn so_many_pods_as_the_configuration_says_are_written_to_at_a_time() {
    for (most_at_once, expected) in [(2, 2), (0, 5)] {
        let mut scene = Scene::new();
        // The agent of every pod is held up in its first apply.
        scene.agent.gate.forget_permits(1);
        let pacing = Pacing { most_at_once, ..Pacing::default() };
        let render = Arc::new(Render { pacing, ..Render::clone(&render(1, "a")) });
        scene.schedule_to(&render, &["a", "b", "c", "d", "e"]);
        scene.idle().await;
        assert_eq!(scene.agent.waiting(), expected);
        scene.agent.gate.add_permits(1);
        let Event::DeploymentCompleted { reports, .. } = next(&mut scene.completed).await else { panic!() };
        assert!(reports.iter().all(|report| report.outcome == PodOutcome::Serving), "{reports:?}");
        assert_eq!(reports.len(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_his_turn_gets_the_newest_and_nothing_that_was_refused_meanwhile() {
    let mut scene = Scene::new();
    let pacing = Pacing { most_at_once: 1, ..Pacing::default() };
    let [first, second] = [render(1, "a"), render(2, "b")].map(|it| Arc::new(Render { pacing, ..Render::clone(&it) }));
    let busy = scene.agent.gate.clone().acquire_owned().await.unwrap();
    for render in [&first, &second] {
        scene.schedule_to(render, &["x", "y"]);
        scene.idle().await;
    }
    scene.judge(&second, refused(), (3, 2));
    scene.idle().await;
    drop(busy);
    let mut said = Vec::new();
    while said.len() < 3 {
        let Event::DeploymentCompleted { reports, .. } = next(&mut scene.completed).await else { panic!() };
        said.extend(reports.iter().map(|report| (report.plan == second.plan(), report.error.clone())));
    }
    let refused: Vec<_> = said.iter().filter_map(|(second, error)| second.then_some(error.clone()?)).collect();
    assert_eq!(refused.len(), 2, "{said:?}");
    assert!(refused.iter().all(|error| error.contains("haproxy -c refuses")), "{said:?}");
    assert!(scene.agent.applies().iter().all(|apply| apply.token.render_seq == 1), "the second was never sent");
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_takes_too_long_is_told_and_tried_again() {
    let mut scene = Scene::new();
    let busy = scene.agent.gate.clone().acquire_owned().await.unwrap();
    let pacing = Pacing { timeout: Duration::from_secs(5), ..Pacing::default() };
    let began = Instant::now();
    scene.schedule(&Arc::new(Render { pacing, ..Render::clone(&render(1, "a")) }));
    let failed = scene.report().await;
    assert_eq!((failed.outcome, began.elapsed()), (PodOutcome::Failed, Duration::from_secs(5)));
    assert!(failed.error.as_ref().unwrap().contains("not done within 5s (deployment.deploymentTimeout)"), "{failed:?}");
    drop(busy);
    assert_eq!(scene.report().await.outcome, PodOutcome::Serving);
}

impl Scene {
    /// Until no task has anything to do: only then does the paused clock move.
    async fn idle(&self) {
        let _ = tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await;
    }

    /// Whether no apply follows the first `count` ones for a long while.
    async fn nothing_after(&self, count: usize) -> bool {
        tokio::time::timeout(Duration::from_secs(10), self.agent.applied(count + 1)).await.is_err()
    }

    fn new() -> Self {
        let bus = EventBus::new();
        let completed = bus.observe("test", &[EventKind::DeploymentCompleted]);
        let failed = bus.observe("test", &[EventKind::InstanceDeploymentFailed]);
        let agent = FakeAgent::new();
        let deployer = tokio::spawn(Deployer::new(&bus, agent.connect()).run());
        bus.start();
        bus.publish(Event::BecameLeader { correlation: Correlation(0), epoch: 3 });
        Self { bus, completed, failed, agent, deployer }
    }

    fn schedule(&self, render: &Arc<Render>) {
        self.schedule_to(render, &["local"]);
    }

    fn schedule_to(&self, render: &Arc<Render>, pods: &[&str]) {
        let (correlation, render) = (render.correlation, render.clone());
        let pods = pods.iter().map(|name| pod(name)).collect();
        self.bus.publish(Event::DeploymentScheduled { correlation, render, pods });
    }

    fn judge(&self, render: &Render, verdict: GateVerdict, version: (u16, u16)) {
        let passed = matches!(verdict, GateVerdict::Passed);
        let outcome = GateOutcome {
            seq: render.seq,
            plan: render.plan(),
            verdict,
            passed_by: if passed { BTreeSet::from([version]) } else { BTreeSet::new() },
            checked_by: Vec::new(),
            duration: Duration::ZERO,
            quarantined: 0,
        };
        self.bus.publish(Event::RenderGateCompleted { correlation: render.correlation, outcome: Arc::new(outcome) });
    }

    async fn report(&mut self) -> PodReport {
        let Event::DeploymentCompleted { reports, .. } = next(&mut self.completed).await else { panic!() };
        reports[0].clone()
    }
}

/// The sections of `text`, and a file beside them that no worker has to load.
fn runtime_render(seq: u64, text: &str) -> Arc<Render> {
    crate::testing::with_note(seq, text, "note")
}
