//! From events to spans. What is kept of a change until it is over are times and short texts, never a render.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use tokio::time::Instant;

use crate::{
    bus::{EventBus, Subscription},
    clock::WallClock,
    events::{Correlation, Event, EventKind, GateOutcome, GateVerdict, Trigger},
    pipeline::{PipelineError, Render},
    pod::{Course, PodOutcome, PodReport},
    traces::{
        Traces,
        span::{Attribute, Span, SpanId, SpanKind, TraceId},
    },
};

/// Changes that are remembered until they are over; one more closes the oldest as superseded.
const OPEN: usize = 64;

/// Makes spans of what one bus carries.
pub struct TraceObserver {
    events: Subscription,
    traces: Traces,
    iteration: u64,
    clock: WallClock,
    open: BTreeMap<Correlation, Open>,
    /// Tells several spans of one change and pod apart.
    turns: u64,
}

/// A change on its way.
struct Open {
    since: Instant,
    seq: u64,
    /// The one that all times of this change are told by: the two clocks are never read at quite the same moment.
    moment: Moment,
    root: Vec<(&'static str, Attribute)>,
    spans: Vec<Span>,
}

/// Both clocks at one moment.
#[derive(Clone, Copy)]
struct Moment {
    instant: Instant,
    nanos: u64,
}

// === impl TraceObserver ===

impl TraceObserver {
    pub(super) fn new(bus: &Arc<EventBus>, traces: Traces, iteration: u64, clock: WallClock) -> Self {
        let kinds = [
            EventKind::TemplateRendered,
            EventKind::ReconciliationFailed,
            EventKind::DeploymentCompleted,
            EventKind::ReconciliationCompleted,
            EventKind::RenderGateCompleted,
        ];
        Self { events: bus.observe("Traces", &kinds), traces, iteration, clock, open: BTreeMap::new(), turns: 0 }
    }

    /// Ends when the bus is closed.
    pub async fn run(mut self) {
        while let Some(event) = self.events.next().await {
            self.take(event);
        }
    }

    fn take(&mut self, event: Event) {
        let now = Moment { instant: Instant::now(), nanos: nanos_since_1970(&self.clock) };
        let trace = TraceId::of(&self.traces.process, self.iteration, event.correlation());
        match event {
            Event::TemplateRendered { correlation, render } => {
                if self.open.len() == OPEN
                    && let Some((oldest, open)) = self.open.pop_first()
                {
                    self.close(oldest, open, "superseded", now.instant);
                }
                self.open.insert(correlation, begun(trace, correlation, &render, now));
            }
            Event::ReconciliationFailed { correlation, error, trigger } => {
                self.traces.send(vec![failed(trace, correlation, &error, &trigger, now)]);
            }
            Event::DeploymentCompleted { correlation, reports, .. } => {
                self.turns += 1;
                let moment = self.open.get(&correlation).map_or(now, |open| open.moment);
                let spans = reports.iter().flat_map(|report| deployed(trace, report, self.turns, moment));
                match self.open.get_mut(&correlation) {
                    Some(open) => open.spans.extend(spans),
                    // A retry, or the end of a scheduled reload.
                    None => self.traces.send(spans.collect()),
                }
            }
            Event::ReconciliationCompleted { correlation, duration, render } => {
                let superseded: Vec<_> =
                    self.open.iter().filter(|(_, open)| open.seq < render.seq).map(|(key, _)| *key).collect();
                for key in superseded {
                    if let Some(open) = self.open.remove(&key) {
                        self.close(key, open, "superseded", now.instant);
                    }
                }
                if let Some(open) = self.open.remove(&correlation) {
                    // A change that was superseded counts from its own cause on, and ends with this one.
                    let end = (open.since + duration).min(now.instant);
                    self.close(correlation, open, "acknowledged", end);
                }
            }
            Event::RenderGateCompleted { outcome, .. } => self.traces.send(vec![checked(trace, &outcome, now)]),
            _ => {}
        }
    }

    fn close(&self, correlation: Correlation, open: Open, outcome: &'static str, end: Instant) {
        let now = open.moment;
        let trace = TraceId::of(&self.traces.process, self.iteration, correlation);
        let mut root = Span {
            parent: None,
            id: root_of(trace),
            ..span(trace, "change", now.at(open.since), now.at(end), open.root)
        };
        root.attributes.push(("haptic.outcome", Attribute::text(outcome)));
        let mut spans = open.spans;
        spans.push(root);
        self.traces.send(spans);
    }
}

// === impl Moment ===

impl Moment {
    fn at(self, instant: Instant) -> u64 {
        let ago = self.instant.saturating_duration_since(instant);
        let later = instant.saturating_duration_since(self.instant);
        self.nanos.saturating_sub(whole_nanos(ago)).saturating_add(whole_nanos(later))
    }
}

/// Up to the end of the pipeline.
fn begun(trace: TraceId, correlation: Correlation, render: &Render, now: Moment) -> Open {
    let timing = &render.output.timing;
    let started = now.at(render.started);
    let mut spans = vec![
        span(trace, "watch", now.at(render.trigger.since), started, Vec::new()),
        span(
            trace,
            "render",
            started,
            started + whole_nanos(timing.render),
            vec![
                ("haptic.cache_state", Attribute::text(timing.cache_state().label())),
                ("haptic.units_rendered", Attribute::Number(timing.units_rendered)),
                ("haptic.findings", Attribute::Number(render.output.findings.len() as u64)),
            ],
        ),
    ];
    let mut end = started + whole_nanos(timing.render);
    for (name, took) in [("validate auxiliary files", timing.auxiliary), ("validate rendered output", timing.external)]
    {
        if !took.is_zero() {
            let start = end;
            end += whole_nanos(took);
            spans.push(span(trace, name, start, end, Vec::new()));
        }
    }
    let mut root = about(correlation, &render.trigger);
    root.push(("haptic.plan", Attribute::text(render.plan().0.short())));
    root.push(("haptic.render_seq", Attribute::Number(render.seq)));
    Open { since: render.trigger.since, seq: render.seq, moment: now, root, spans }
}

fn failed(trace: TraceId, correlation: Correlation, error: &PipelineError, trigger: &Trigger, now: Moment) -> Span {
    let mut attributes = about(correlation, trigger);
    attributes.push(("haptic.outcome", Attribute::text("failed")));
    attributes.push(("haptic.phase", Attribute::text(error.phase)));
    Span {
        parent: None,
        id: root_of(trace),
        error: Some(error.to_string()),
        ..span(trace, "change", now.at(trigger.since), now.nanos, attributes)
    }
}

/// Diff and apply of one pod.
fn deployed(trace: TraceId, report: &PodReport, turn: u64, now: Moment) -> Vec<Span> {
    let pod = || ("haptic.pod", Attribute::text(&report.pod));
    let Some(Course { diffed, sent, agent }) = report.course else { return Vec::new() };
    let start = now.at(diffed);
    let mut attributes = vec![pod()];
    if let Some(verdict) = report.verdict {
        attributes.push(("haptic.verdict", Attribute::text(verdict)));
    }
    let id = trace.span("deploy", &report.pod, turn);
    let diff_end = start + whole_nanos(report.diff);
    let diff = Span {
        parent: Some(id),
        id: trace.span("diff", &report.pod, turn),
        ..span(trace, "diff", start, diff_end, Vec::new())
    };
    let mut spans = vec![diff];
    let mut end = diff_end;
    if let Some(sent) = sent {
        end = now.at(sent) + whole_nanos(report.apply);
        let steps = [
            ("haptic.agent.stage_us", agent.stage_us),
            ("haptic.agent.write_us", agent.write_us),
            ("haptic.agent.ops_us", agent.ops_us),
            ("haptic.agent.reload_us", agent.reload_us),
        ];
        let mut facts: Vec<_> = steps.map(|(name, micros)| (name, Attribute::Number(micros))).into();
        facts.push(("haptic.ops", Attribute::Number(report.ops_run as u64)));
        if let Some(mode) = report.mode {
            facts.push(("haptic.mode", Attribute::text(mode)));
        }
        spans.push(Span {
            parent: Some(id),
            id: trace.span("apply", &report.pod, turn),
            kind: SpanKind::Client,
            ..span(trace, "apply", now.at(sent), end, facts)
        });
    }
    if let Some(reason) = report.reasons.first() {
        attributes.push(("haptic.reason", Attribute::text(reason.code.label())));
    }
    let error = (report.outcome == PodOutcome::Failed).then(|| report.error.clone().unwrap_or_default());
    spans.push(Span { id, error, ..span(trace, "deploy", start, end, attributes) });
    spans
}

/// `haproxy -c`, which runs beside the deployment.
fn checked(trace: TraceId, outcome: &GateOutcome, now: Moment) -> Span {
    let attributes = vec![
        ("haptic.verdict", Attribute::text(outcome.verdict.label())),
        ("haptic.plan", Attribute::text(outcome.plan.0.short())),
    ];
    let start = now.nanos.saturating_sub(whole_nanos(outcome.duration));
    let refused = matches!(outcome.verdict, GateVerdict::Refused { .. });
    Span {
        id: trace.span("check", "", outcome.seq),
        error: refused.then(|| "HAProxy refuses the output".to_owned()),
        ..span(trace, "check", start, now.nanos, attributes)
    }
}

fn about(correlation: Correlation, trigger: &Trigger) -> Vec<(&'static str, Attribute)> {
    vec![("haptic.correlation", Attribute::text(correlation)), ("haptic.cause", Attribute::text(trigger))]
}

/// A child of the change.
fn span(trace: TraceId, name: &'static str, start: u64, end: u64, attributes: Vec<(&'static str, Attribute)>) -> Span {
    Span {
        trace,
        id: trace.span(name, "", 0),
        parent: Some(root_of(trace)),
        name,
        kind: SpanKind::Internal,
        start,
        end: end.max(start),
        attributes,
        error: None,
    }
}

fn root_of(trace: TraceId) -> SpanId {
    trace.span("change", "", 0)
}

pub(super) fn nanos_since_1970(clock: &WallClock) -> u64 {
    clock.reader()().duration_since(UNIX_EPOCH).map_or(0, whole_nanos)
}

fn whole_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
