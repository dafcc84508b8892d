#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use haptic_model::{Finding, FindingCode, Mode, ObjectRef, Reason, ReasonCode, Verdict};
use serde_json::Value;

use super::*;
use crate::{
    cluster::Health,
    events::{Correlation, GateOutcome, GateVerdict},
    pipeline::{Phase, PipelineError},
    pod::{PodOutcome, PodReport},
    testing::{core, pod, refused, render, render_of, trigger},
};

fn overview(cluster: Option<ClusterFacts>) -> Overview {
    let overview = Overview::default();
    overview.begin(ProcessFacts {
        identity: "standalone".into(),
        clock: WallClock::fixed(60),
        manifests: watch::Sender::default().subscribe(),
        plugins: watch::Sender::default().subscribe(),
        standing: None,
    });
    let core = ActiveCore::new(Arc::new(core("global\n")));
    overview.serves(IterationFacts { number: 1, core, cluster });
    overview
}

fn document(overview: &Overview) -> Value {
    serde_json::to_value(overview.document(Health::default().healthz())).unwrap()
}

fn report(render: &Render, outcome: PodOutcome) -> PodReport {
    PodReport {
        pod: "one".into(),
        plan: render.plan(),
        outcome,
        verdict: Some(Verdict::Reload),
        mode: (outcome != PodOutcome::Failed).then_some(Mode::Reload),
        applied_plan: Some(render.plan()),
        running_plan: Some(render.plan()),
        haproxy: Some("3.2.26".to_owned()),
        reasons: vec![Reason::new(ReasonCode::ProfileAdded, "profile `p1` is new")],
        ops_run: 0,
        error: (outcome == PodOutcome::Failed).then(|| "connection refused".to_owned()),
        diff: Duration::ZERO,
        apply: Duration::from_millis(3),
        course: None,
    }
}

/// What the stages tell of one change that every pod takes.
fn deployed(overview: &Overview, seq: u64, text: &str, outcome: PodOutcome, seconds: u64) {
    let clock = WallClock::fixed(seconds);
    let (correlation, render) = (Correlation(seq), render(seq, text));
    let reports = [report(&render, outcome)].into();
    overview.take(Event::TemplateRendered { correlation, render: render.clone() }, &clock);
    overview.take(Event::DeploymentCompleted { correlation, render: render.clone(), reports }, &clock);
    let duration = Duration::from_micros(6_100);
    overview.take(Event::ReconciliationCompleted { correlation, duration, render }, &clock);
}

#[test]
fn says_what_serves_since_when_and_why_it_reloaded() {
    let overview = overview(None);
    let clock = WallClock::fixed(60);
    let pods = [pod("one"), pod("two")].into();
    overview.take(Event::HAProxyPodsDiscovered { correlation: Correlation(1), pods }, &clock);
    deployed(&overview, 1, "a", PodOutcome::Serving, 60);
    deployed(&overview, 2, "a", PodOutcome::Serving, 120);
    let said = document(&overview);
    assert_eq!(said["leadership"]["role"], "standalone");
    assert_eq!(said["serving"]["plan"], render(1, "a").plan().to_string());
    assert_eq!(said["serving"]["since"], "1970-01-01T00:01:00Z", "the plan is the same");
    let one = &said["pods"]["shown"][0];
    assert_eq!((&one["name"], &one["outcome"], &one["haproxy"]), (&"one".into(), &"serving".into(), &"3.2.26".into()));
    assert_eq!(one["lastReload"]["reasons"][0], "profile `p1` is new");
    assert_eq!(said["pods"]["shown"][1]["outcome"], Value::Null, "the other one has said nothing");
    let newest = &said["reconciliations"][0];
    assert_eq!((&newest["correlation"], &newest["verdict"]), (&2.into(), &"reload".into()));
    assert_eq!((&newest["milliseconds"], &newest["applyMilliseconds"]), (&6.1.into(), &3.0.into()));
    assert_eq!(said["resources"][0]["name"], "services");

    deployed(&overview, 3, "b", PodOutcome::Failed, 180);
    let said = document(&overview);
    assert_eq!(said["serving"]["plan"], render(1, "a").plan().to_string(), "what no pod took does not serve");
    assert_eq!(said["rendered"], render(3, "b").plan().to_string());
    assert_eq!(said["pods"]["shown"][0]["lastError"]["message"], "connection refused");
    assert_eq!(said["reconciliations"][0]["outcome"], "failed");
}

#[test]
fn a_failure_stands_until_the_next_render() {
    let overview = overview(None);
    let clock = WallClock::fixed(60);
    let findings = vec![Finding::error(FindingCode::TemplateFailed, "undefined value").at("ingress", 7, 0)];
    let error = Arc::new(PipelineError { phase: Phase::Render, findings });
    let failed = Event::ReconciliationFailed { correlation: Correlation(1), error, trigger: trigger() };
    overview.take(failed, &clock);
    let said = document(&overview);
    assert_eq!(
        (&said["renderError"]["phase"], &said["renderError"]["findings"]["total"]),
        (&"render".into(), &1.into())
    );
    assert_eq!(said["reconciliations"][0]["verdict"], "stopped in phase render");
    deployed(&overview, 2, "a", PodOutcome::Serving, 61);
    assert_eq!(document(&overview)["renderError"], Value::Null);
}

#[test]
fn objects_with_something_wrong_are_counted_and_the_first_are_shown() {
    let overview = overview(None);
    let mut render = render_of(1, "a", trigger());
    for number in 0..5_000 {
        let object = ObjectRef::new("Ingress", "shop", &format!("web-{number:04}"));
        let finding = match number % 2 {
            0 => Finding::warning(FindingCode::UnresolvedReference, "a Service is missing"),
            _ => Finding::error(FindingCode::InvalidValue, "x".repeat(5_000)).hint("correct it"),
        };
        render.output.findings.push(finding.about(Some(object)).at("ingress", 7, 0));
    }
    let correlation = Correlation(1);
    overview.take(Event::TemplateRendered { correlation, render: Arc::new(render) }, &WallClock::fixed(60));
    let said = document(&overview);
    let objects = &said["objects"];
    assert_eq!((&objects["errors"], &objects["warnings"]), (&2_500.into(), &2_500.into()));
    let shown = objects["shown"].as_array().unwrap();
    assert_eq!(shown.len(), 100);
    assert_eq!(shown[0]["name"], "Ingress shop/web-0001", "errors come first");
    assert_eq!(shown[0]["findings"][0]["nextStep"], "correct it");
    assert!(said.to_string().len() < 200_000, "{}", said.to_string().len());
}

#[test]
fn the_word_of_haproxy_and_a_refused_configuration_are_told() {
    let overview = overview(None);
    let clock = WallClock::fixed(60);
    let outcome = |verdict| {
        Arc::new(GateOutcome {
            seq: 1,
            plan: render(1, "a").plan(),
            verdict,
            passed_by: BTreeSet::new(),
            checked_by: vec!["3.2.26".to_owned()],
            duration: Duration::from_millis(20),
            quarantined: 0,
        })
    };
    let correlation = Correlation(1);
    overview.take(Event::RenderGateCompleted { correlation, outcome: outcome(refused()) }, &clock);
    let findings: Arc<[Finding]> = [Finding::error(FindingCode::ConfigInvalid, "no such snippet")].into();
    overview.take(Event::ConfigInvalid { correlation, name: "shop".into(), findings }, &clock);
    let said = document(&overview);
    assert_eq!(said["check"]["verdict"], "refused");
    assert_eq!(said["objects"]["shown"][0]["findings"][0]["message"], "unknown keyword `bogus`");
    assert_eq!(said["config"]["refused"]["findings"]["shown"][0]["message"], "no such snippet");
    overview.take(Event::RenderGateCompleted { correlation, outcome: outcome(GateVerdict::Passed) }, &clock);
    let name: Arc<str> = "shop".into();
    overview.take(Event::ConfigValidated { correlation, name, warnings: [].into() }, &clock);
    let said = document(&overview);
    assert_eq!((&said["objects"]["errors"], &said["config"]["refused"]), (&0.into(), &Value::Null));
}

#[test]
fn before_a_configuration_serves_it_says_what_it_waits_for() {
    let overview = Overview::default();
    assert_eq!(document(&overview)["leadership"]["role"], "starting");
    overview.begin(ProcessFacts {
        identity: "standalone".into(),
        clock: WallClock::fixed(60),
        manifests: watch::Sender::default().subscribe(),
        plugins: watch::Sender::default().subscribe(),
        standing: None,
    });
    overview.waits(&[Finding::error(FindingCode::ConfigInvalid, "no HAProxyTemplateConfig is there")]);
    let said = document(&overview);
    assert_eq!(said["config"]["refused"]["since"], "1970-01-01T00:01:00Z");
    assert!(overview.explained(|_| ()).is_none(), "nothing is rendered");
    overview.serves(IterationFacts { number: 1, core: ActiveCore::new(Arc::new(core("global\n"))), cluster: None });
    assert_eq!(document(&overview)["config"]["refused"], Value::Null, "it was accepted after all");
    overview.ends(2);
    assert_eq!(document(&overview)["leadership"]["role"], "standalone", "another one ended");
    overview.ends(1);
    assert_eq!(document(&overview)["leadership"]["role"], "starting");
}

#[test]
fn searches_are_about_what_serves_and_not_about_what_no_pod_took() {
    let overview = overview(None);
    deployed(&overview, 1, "first\n", PodOutcome::Serving, 60);
    deployed(&overview, 2, "second\n", PodOutcome::Failed, 61);
    let found = |text: &str| overview.explained(|explained| explained.lines(text).total).unwrap();
    assert_eq!((found("first"), found("second")), (1, 0));
}
