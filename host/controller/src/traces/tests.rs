#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use haptic_model::{Finding, FindingCode, Mode, Verdict};
use haptic_wire::Timing;
use prometheus_client::{encoding::text, registry::Registry};
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, advance},
};

use crate::{
    bus::EventBus,
    clock::WallClock,
    events::{Event, GateOutcome, GateVerdict},
    pipeline::{Phase, PipelineError, Render},
    pod::{Course, PodOutcome, PodReport},
    testing::{render_of, trigger},
    traces::{
        QUEUE, Traces,
        exporter::{InvalidEndpoint, TraceExporter},
        register,
        span::{Span, export_request},
    },
};

fn waiting(registry: &mut Registry) -> (Traces, mpsc::Receiver<Vec<Span>>) {
    let (queue, waiting) = mpsc::channel(QUEUE);
    (Traces { queue: Some(queue), spans: register(registry), process: "test".into() }, waiting)
}

/// What one bus that carried these events made of them, as it is sent.
async fn spans_of(events: impl IntoIterator<Item = Event>) -> Vec<Value> {
    let (traces, mut waiting) = waiting(&mut Registry::default());
    let bus = EventBus::new();
    let observer = traces.observe(&bus, 3, WallClock::fixed(1_800_000_000)).unwrap();
    bus.start();
    events.into_iter().for_each(|event| bus.publish(event));
    bus.close();
    observer.run().await;
    drop(traces);
    let mut all = Vec::new();
    while let Some(spans) = waiting.recv().await {
        all.extend(spans);
    }
    let request = export_request("haptic-0", &all);
    request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
}

fn named<'a>(spans: &'a [Value], name: &str) -> &'a Value {
    spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("no span `{name}` in {spans:#?}"))
}

fn attribute(span: &Value, key: &str) -> String {
    let found = span["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == key);
    let value = &found.unwrap_or_else(|| panic!("no `{key}` in {span}"))["value"];
    value["stringValue"].as_str().or(value["intValue"].as_str()).unwrap().to_owned()
}

fn nanos(span: &Value, key: &str) -> u64 {
    span[key].as_str().unwrap().parse().unwrap()
}

fn report(render: &Render, course: Course) -> PodReport {
    PodReport {
        pod: "haproxy-0".into(),
        plan: render.plan(),
        outcome: PodOutcome::Serving,
        verdict: Some(Verdict::Runtime),
        mode: Some(Mode::Runtime),
        applied_plan: None,
        running_plan: None,
        haproxy: None,
        reasons: Vec::new(),
        ops_run: 2,
        error: None,
        diff: Duration::from_millis(1),
        apply: Duration::from_millis(4),
        course: Some(course),
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_one_trace_from_its_cause_to_the_acknowledgement() {
    let since = Instant::now();
    advance(Duration::from_millis(100)).await;
    let mut render = render_of(7, "a", trigger());
    render.trigger.since = since;
    render.started = Instant::now();
    render.output.timing.render = Duration::from_millis(2);
    render.output.timing.external = Duration::from_millis(3);
    advance(Duration::from_millis(5)).await;
    let diffed = Instant::now();
    let agent = Timing { ops_us: 900, ..Timing::default() };
    let reports = vec![report(&render, Course { diffed, sent: Some(diffed + Duration::from_millis(1)), agent })];
    advance(Duration::from_millis(5)).await;
    let render = Arc::new(render);
    let correlation = render.correlation;
    let outcome = GateOutcome {
        seq: 7,
        plan: render.plan(),
        verdict: GateVerdict::Passed,
        passed_by: [(3, 4)].into(),
        checked_by: Vec::new(),
        duration: Duration::from_millis(1),
        quarantined: 0,
    };
    let spans = spans_of([
        Event::TemplateRendered { correlation, render: render.clone() },
        Event::RenderGateCompleted { correlation, outcome: Arc::new(outcome) },
        Event::DeploymentCompleted { correlation, render: render.clone(), reports: reports.into() },
        Event::ReconciliationCompleted { correlation, duration: since.elapsed(), render },
    ])
    .await;

    let change = named(&spans, "change");
    assert!(change["parentSpanId"].is_null());
    assert_eq!(attribute(change, "haptic.correlation"), correlation.to_string());
    assert_eq!(attribute(change, "haptic.outcome"), "acknowledged");
    let length = |span: &Value| nanos(span, "endTimeUnixNano") - nanos(span, "startTimeUnixNano");
    for (name, parent, millis) in [
        ("watch", "change", 100),
        ("render", "change", 2),
        ("validate rendered output", "change", 3),
        ("deploy", "change", 5),
        ("diff", "deploy", 1),
        ("apply", "deploy", 4),
        ("check", "change", 1),
    ] {
        let span = named(&spans, name);
        assert_eq!(span["parentSpanId"], named(&spans, parent)["spanId"], "{name}");
        assert_eq!(span["traceId"], change["traceId"], "{name}");
        assert_eq!(length(span), millis * 1_000_000, "{name}: {span}");
    }
    assert_eq!(length(change), 110_000_000);
    assert_eq!(nanos(change, "endTimeUnixNano"), 1_800_000_000 * 1_000_000_000, "both clocks agree");
    assert_eq!(nanos(named(&spans, "render"), "startTimeUnixNano"), nanos(named(&spans, "watch"), "endTimeUnixNano"));
    let apply = named(&spans, "apply");
    assert_eq!(
        (attribute(apply, "haptic.agent.ops_us"), attribute(apply, "haptic.mode")),
        ("900".into(), "runtime".into())
    );
    assert!(change["traceId"].as_str().is_some_and(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit())));
    assert!(change["spanId"].as_str().is_some_and(|id| id.len() == 16));
}

#[tokio::test]
async fn what_never_reached_a_pod_is_a_trace_that_says_so() {
    let error = PipelineError {
        phase: Phase::External,
        findings: vec![Finding::error(FindingCode::RefusedByValidator, "no TLS 1.0")],
    };
    let [first, second, failing] = [1, 2, 3].map(crate::events::Correlation);
    let of = |seq, correlation| Arc::new(Render { correlation, ..render_of(seq, "a", trigger()) });
    let (older, newer) = (of(1, first), of(2, second));
    let spans = spans_of([
        Event::TemplateRendered { correlation: first, render: older },
        Event::TemplateRendered { correlation: second, render: newer.clone() },
        Event::ReconciliationCompleted { correlation: second, duration: Duration::ZERO, render: newer },
        Event::ReconciliationFailed { correlation: failing, error: Arc::new(error), trigger: trigger() },
    ])
    .await;
    let outcomes: Vec<_> = spans
        .iter()
        .filter(|span| span["name"] == "change")
        .map(|span| (attribute(span, "haptic.correlation"), attribute(span, "haptic.outcome")))
        .collect();
    let expected = [("r1", "superseded"), ("r2", "acknowledged"), ("r3", "failed")];
    assert_eq!(outcomes, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let failed = spans.last().unwrap();
    assert_eq!(
        (failed["status"]["code"].as_u64(), attribute(failed, "haptic.phase")),
        (Some(2), "external".to_owned())
    );
    assert!(failed["status"]["message"].as_str().unwrap().contains("no TLS 1.0"));
}

#[tokio::test]
async fn a_queue_that_is_full_drops_and_counts() {
    let mut registry = Registry::default();
    let (traces, _waiting) = waiting(&mut registry);
    for _ in 0..=QUEUE {
        traces.send(Vec::new());
    }
    let render = Arc::new(render_of(1, "a", trigger()));
    let bus = EventBus::new();
    let observer = traces.observe(&bus, 1, WallClock::new(|| UNIX_EPOCH)).unwrap();
    bus.start();
    let correlation = render.correlation;
    bus.publish(Event::TemplateRendered { correlation, render: render.clone() });
    bus.publish(Event::ReconciliationCompleted { correlation, duration: Duration::ZERO, render });
    bus.close();
    observer.run().await;
    let mut encoded = String::new();
    text::encode(&mut encoded, &registry).unwrap();
    assert!(encoded.contains("haptic_trace_spans_total{result=\"dropped\"} 3"), "{encoded}");
}

#[test]
fn without_a_receiver_nobody_observes() {
    let traces = Traces::off(&mut Registry::default());
    assert!(traces.observe(&EventBus::new(), 1, WallClock::fixed(0)).is_none());
}

#[test]
fn an_endpoint_that_is_no_url_is_told_without_its_password() {
    let refused = |endpoint| {
        let (_, waiting) = mpsc::channel(1);
        let spans = register(&mut Registry::default());
        TraceExporter::new(endpoint, "haptic-0", waiting, spans).err().map(|error| error.to_string())
    };
    assert_eq!(refused("http://collector:4318"), None);
    let text = refused("grpc://user:hunter2@collector:4317").unwrap();
    assert!(text.contains("collector:4317") && !text.contains("hunter2"), "{text}");
    assert!(matches!(
        Traces::to("collector", "haptic-0", &WallClock::fixed(0), &mut Registry::default()),
        Err(InvalidEndpoint::Url { .. })
    ));
}
