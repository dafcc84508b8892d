#![allow(clippy::unwrap_used, reason = "tests")]

use std::{sync::Arc, time::Duration};

use haptic_model::{Finding, FindingCode, Mode, ObjectRef, Reason, ReasonCode, Verdict};
use prometheus_client::{encoding::text, registry::Registry};

use crate::{
    bus::{BusTotals, EventBus},
    clock::WallClock,
    events::Event,
    metrics::{Metrics, MetricsObserver},
    pipeline::{Phase, PipelineError, Render},
    pod::{Endpoint, Pod, PodOutcome, PodReport},
    testing::{render_of, trigger},
};

struct Scene {
    bus: Arc<EventBus>,
    registry: Registry,
    metrics: Metrics,
}

impl Scene {
    fn new() -> Self {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.set_leads(true);
        let totals = BusTotals::default();
        registry.register_collector(Box::new(totals.clone()));
        Self { bus: EventBus::counted(&totals), registry, metrics }
    }

    /// Everything that is counted after these events.
    async fn after(&self, events: impl IntoIterator<Item = Event>) -> String {
        let observer = MetricsObserver::new(&self.bus, self.metrics.clone(), WallClock::fixed(1_800_000_000));
        self.bus.start();
        events.into_iter().for_each(|event| self.bus.publish(event));
        self.bus.close();
        observer.run().await;
        self.text()
    }

    fn text(&self) -> String {
        let mut encoded = String::new();
        text::encode(&mut encoded, &self.registry).unwrap();
        encoded
    }
}

fn pods(names: &[&str]) -> Event {
    let pod = |name: &&str| Pod {
        name: (*name).into(),
        uid: (*name).into(),
        endpoint: Endpoint::Unix("/run/agent.sock".into()),
        haproxy: Some((3, 4)),
    };
    let correlation = crate::events::Correlation(1);
    Event::HAProxyPodsDiscovered { correlation, pods: names.iter().map(pod).collect() }
}

fn report(render: &Render, pod: &str, outcome: PodOutcome, mode: Mode) -> PodReport {
    PodReport {
        pod: pod.into(),
        plan: render.plan(),
        outcome,
        verdict: Some(Verdict::Reload),
        mode: Some(mode),
        applied_plan: None,
        running_plan: None,
        haproxy: None,
        reasons: vec![Reason::new(ReasonCode::Note, "seen"), Reason::new(ReasonCode::ProfileAdded, "new")],
        ops_run: 0,
        error: None,
        diff: Duration::from_millis(1),
        apply: Duration::from_millis(20),
        course: None,
    }
}

fn deployed(render: &Arc<Render>, reports: Vec<PodReport>) -> Event {
    Event::DeploymentCompleted { correlation: render.correlation, render: render.clone(), reports: reports.into() }
}

fn rendered(render: &Arc<Render>) -> Event {
    Event::TemplateRendered { correlation: render.correlation, render: render.clone() }
}

fn has(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "no line `{line}` in:\n{text}");
}

#[tokio::test]
async fn a_fleet_has_converged_when_every_pod_serves_the_newest_output() {
    let scene = Scene::new();
    let render = Arc::new(render_of(1, "a", trigger()));
    let serves = |pod| report(&render, pod, PodOutcome::Serving, Mode::Runtime);
    let text = scene
        .after([
            pods(&["one", "two"]),
            rendered(&render),
            deployed(&render, vec![serves("one"), report(&render, "two", PodOutcome::Failed, Mode::Rejected)]),
            deployed(&render, vec![report(&render, "two", PodOutcome::Failed, Mode::Rejected)]),
        ])
        .await;
    has(&text, "haptic_haproxy_fleet_size 2");
    has(&text, "haptic_haproxy_fleet_converged 1");
    has(&text, "haptic_deployment_consecutive_failures 2");
    has(&text, "haptic_deployment_errors_total{pod=\"two\"} 2");
    has(&text, "haptic_last_full_sync_timestamp_seconds 0");
    has(&text, "haptic_deployment_total 2");

    let scene = Scene::new();
    let text = scene.after([pods(&["one"]), rendered(&render), deployed(&render, vec![serves("one")])]).await;
    has(&text, "haptic_haproxy_fleet_converged 1");
    has(&text, "haptic_last_full_sync_timestamp_seconds 1800000000");
    // The pods are another replica's to tell of.
    scene.metrics.set_leads(false);
    has(&scene.text(), "haptic_haproxy_fleet_converged 0");
}

#[tokio::test]
async fn pods_that_are_gone_leave_no_series_behind() {
    let scene = Scene::new();
    let render = Arc::new(render_of(1, "a", trigger()));
    let failed = report(&render, "two", PodOutcome::Failed, Mode::Rejected);
    let text =
        scene.after([pods(&["one", "two"]), rendered(&render), deployed(&render, vec![failed]), pods(&["one"])]).await;
    assert!(!text.contains("pod=\"two\""), "{text}");
    has(&text, "haptic_haproxy_fleet_size 1");
}

#[tokio::test]
async fn a_reload_is_counted_by_its_cause_and_never_by_a_note() {
    let scene = Scene::new();
    let render = Arc::new(render_of(1, "a", trigger()));
    let text = scene
        .after([pods(&["one"]), deployed(&render, vec![report(&render, "one", PodOutcome::Serving, Mode::Reload)])])
        .await;
    has(&text, "haptic_haproxy_reloads_total{reason=\"profile_added\"} 1");
    has(&text, "haptic_haproxy_reloads_total{reason=\"note\"} 0");
    has(&text, "haptic_deploy_apply_total{pod=\"one\",mode=\"reload\"} 1");
}

#[tokio::test]
async fn an_object_with_two_errors_is_one_object_that_is_left_out() {
    let scene = Scene::new();
    let mut render = render_of(1, "a", trigger());
    let object = ObjectRef { kind: "Ingress".into(), namespace: "shop".into(), name: "web".into() };
    let error = |message: &str| Finding::error(FindingCode::InvalidValue, message).about(Some(object.clone()));
    render.output.findings = vec![error("one"), error("two"), Finding::warning(FindingCode::RouteConflict, "three")];
    let text = scene.after([rendered(&Arc::new(render))]).await;
    has(&text, "haptic_rejected_watched_inputs 1");
    has(&text, "haptic_findings{code=\"InvalidValue\"} 2");
    has(&text, "haptic_findings{code=\"RouteConflict\"} 1");
    has(&text, "haptic_renders_in_flight 0");
}

#[tokio::test]
async fn what_is_refused_is_counted_by_the_words_that_statuses_have() {
    let scene = Scene::new();
    let correlation = scene.bus.correlate();
    let findings = vec![Finding::error(FindingCode::TemplateFailed, "no")];
    let error = PipelineError { phase: Phase::Auxiliary, findings: findings.clone() };
    let text = scene
        .after([
            Event::ReconciliationStarted { correlation },
            Event::ReconciliationFailed { correlation, error: Arc::new(error), trigger: trigger() },
            Event::ConfigInvalid { correlation, name: "shop".into(), findings: findings.into() },
        ])
        .await;
    has(&text, "haptic_reconciliation_errors_total{phase=\"auxiliary\"} 1");
    has(&text, "haptic_config_rejected_total{reason=\"TemplateInvalid\"} 1");
    has(&text, "haptic_config_validation_total{result=\"rejected\"} 1");
    has(&text, "haptic_events_published_total{event=\"ReconciliationFailedEvent\"} 1");
    has(&text, "haptic_events_dropped_critical_total 0");
}

#[test]
fn every_series_of_a_closed_set_is_there_from_the_beginning() {
    let text = Scene::new().text();
    for line in [
        "haptic_reconciliation_errors_total{phase=\"render\"} 0",
        "haptic_render_total{cache_state=\"replay\"} 0",
        "haptic_haproxy_reloads_total{reason=\"no_baseline\"} 0",
        "haptic_haproxy_checks_total{verdict=\"refused\"} 0",
        "haptic_config_rejected_total{reason=\"HAProxyValidationFailed\"} 0",
        "haptic_limit{name=\"mailbox_events\"} 4096",
    ] {
        has(&text, line);
    }
}
