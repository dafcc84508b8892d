//! The RenderGate (leader-only): `haproxy -c -dr` on the newest render, beside the fan-out, in a slot of its own.
//!
//! A refusal names object and template line. If a unit wrote the refused line, that unit goes into quarantine and the
//! outcome makes the Reconciler render again without it; if not, the render stays refused and the scheduler holds what
//! follows until a pass names it. Verdicts are per plan content and HAProxy minor version.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haptic_model::{Finding, Reason, ReasonCode};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    bus::{EventBus, Subscription},
    check::{Answer, Cancellation, CheckAsk, ConfigCheck, NameResolution},
    clock::until,
    core::{ActiveCore, Core, fingerprint},
    events::{Event, EventKind, GateOutcome, GateVerdict},
    pipeline::Render,
    pod::Pod,
    quarantine::Quarantine,
    reports::{Refusal, refusal},
};

pub struct RenderGate {
    bus: Arc<EventBus>,
    events: Subscription,
    core: ActiveCore,
    check: Arc<dyn ConfigCheck>,
    quarantine: Arc<Quarantine>,
    cancelled: CancellationToken,
    /// Asked while no pod's version is known.
    fallback: (u16, u16),
    versions: BTreeSet<(u16, u16)>,
    newest: Option<Arc<Render>>,
    /// `newest` waits for its verdict.
    unjudged: bool,
    /// The scheduler holds renders for the next verdict: no pause before it.
    awaited: bool,
    last_check: Option<Instant>,
}

// === impl RenderGate ===

impl RenderGate {
    pub fn new(
        bus: &Arc<EventBus>,
        core: ActiveCore,
        check: Arc<dyn ConfigCheck>,
        quarantine: Arc<Quarantine>,
        fallback: (u16, u16),
        cancelled: CancellationToken,
    ) -> Self {
        let events = bus.subscribe(
            "RenderGate",
            &[EventKind::BecameLeader, EventKind::TemplateRendered, EventKind::HAProxyPodsDiscovered],
        );
        Self {
            bus: bus.clone(),
            events,
            core,
            check,
            quarantine,
            cancelled,
            fallback,
            versions: BTreeSet::new(),
            newest: None,
            unjudged: false,
            awaited: true,
            last_check: None,
        }
    }

    /// Ends when the bus is closed.
    pub async fn run(mut self) {
        loop {
            let due = self.due();
            tokio::select! {
                event = self.events.next() => match event {
                    Some(event) => self.handle(event),
                    None => return,
                },
                () = until(due) => self.judge_newest().await,
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::BecameLeader { .. } => self.awaited = true,
            Event::TemplateRendered { render, .. } => {
                self.newest = Some(render);
                self.unjudged = true;
            }
            Event::HAProxyPodsDiscovered { pods, .. } => {
                let versions: BTreeSet<_> = pods.iter().filter_map(|pod: &Pod| pod.haproxy).collect();
                // A version that has not judged the newest render has to.
                self.unjudged |= self.newest.is_some() && !versions.is_subset(&self.versions);
                self.versions = versions;
            }
            _ => {}
        }
    }

    fn due(&self) -> Option<Instant> {
        if !self.unjudged {
            return None;
        }
        let now = Instant::now();
        match self.last_check {
            Some(last) if !self.awaited => Some(now.max(last + self.core.get().settings.gate_interval)),
            _ => Some(now),
        }
    }

    async fn judge_newest(&mut self) {
        let Some(render) = self.newest.clone() else { return };
        self.unjudged = false;
        let began = Instant::now();
        self.last_check = Some(began);
        let core = self.core.get();
        let answers = if core.settings.gate_enabled { self.ask(&render).await } else { BTreeMap::new() };
        if self.cancelled.is_cancelled() {
            return;
        }
        let judged = Judged::from_answers(&answers, &render, &core);
        let quarantined = match &judged.refusal {
            Some(refusal) => {
                self.quarantine.add(refusal.units.iter().cloned(), |object| fingerprint(&render.snapshot, object))
            }
            None => 0,
        };
        self.awaited = matches!(judged.verdict, GateVerdict::Refused { .. });
        let outcome = GateOutcome {
            seq: render.seq,
            plan: render.plan(),
            verdict: judged.verdict,
            passed_by: judged.passed_by,
            checked_by: judged.checked_by,
            duration: began.elapsed(),
            quarantined,
        };
        let correlation = render.correlation;
        self.bus.publish(Event::RenderGateCompleted { correlation, outcome: Arc::new(outcome) });
    }

    async fn ask(&self, render: &Arc<Render>) -> BTreeMap<(u16, u16), Answer> {
        let mut versions = self.versions.clone();
        if versions.is_empty() {
            versions.insert(self.fallback);
        }
        let cancellation = Cancellation::new();
        let (check, render, cancelled) = (self.check.clone(), render.clone(), cancellation.clone());
        let bounds = self.core.get().settings.check;
        let ask = move || {
            let files = &render.output.rendered.files;
            let ask = |haproxy| CheckAsk { haproxy, names: NameResolution::Tolerated, bounds };
            let answer = |version| check.check(files, ask(version), &cancelled);
            versions.into_iter().map(|version| (version, answer(version))).collect()
        };
        let mut asked = tokio::task::spawn_blocking(ask);
        let answers = tokio::select! {
            answers = &mut asked => answers,
            () = self.cancelled.cancelled() => {
                cancellation.cancel();
                asked.await
            }
        };
        match answers {
            Ok(answers) => answers,
            Err(error) => {
                let reason = Reason::new(ReasonCode::Note, format!("the check of the render ended early: {error}"));
                BTreeMap::from([(self.fallback, Answer::Unavailable { reason })])
            }
        }
    }
}

/// The answers of all versions as one verdict.
struct Judged {
    verdict: GateVerdict,
    refusal: Option<Refusal>,
    passed_by: BTreeSet<(u16, u16)>,
    checked_by: Vec<String>,
}

impl Judged {
    /// One refusal refuses; one version that could not be asked leaves it open.
    fn from_answers(answers: &BTreeMap<(u16, u16), Answer>, render: &Render, core: &Core) -> Self {
        let mut judged =
            Self { verdict: GateVerdict::Passed, refusal: None, passed_by: BTreeSet::new(), checked_by: Vec::new() };
        let mut open = answers
            .is_empty()
            .then(|| Reason::new(ReasonCode::Note, "renderGate.enabled is false: HAProxy's check is switched off"));
        for (version, answer) in answers {
            match answer {
                Answer::Passed { build, .. } => {
                    judged.passed_by.insert(*version);
                    judged.checked_by.push(build.clone());
                }
                Answer::Refused { build, messages } => {
                    judged.checked_by.push(build.clone());
                    let mut other = refusal(messages, &render.output.rendered, &core.pipeline.renderer);
                    other.findings = core.sources.all_in_manifests(other.findings);
                    for unit in &mut other.units {
                        unit.finding = core.sources.in_manifest(unit.finding.clone());
                    }
                    let all = judged.refusal.get_or_insert_default();
                    all.findings.extend(other.findings);
                    all.units.extend(other.units);
                }
                Answer::Unavailable { reason } => open = Some(reason.clone()),
            }
        }
        judged.verdict = match (&judged.refusal, open) {
            (Some(refusal), _) => GateVerdict::Refused { findings: distinct(&refusal.findings) },
            (None, Some(reason)) => GateVerdict::Unknown { reason },
            (None, None) => GateVerdict::Passed,
        };
        judged
    }
}

fn distinct(findings: &[Finding]) -> Vec<Finding> {
    findings.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests;
