//! One pod's side of the deployer: its baseline, its retries, its verdicts.

use std::{sync::Arc, time::Duration};

use haptic_haproxy::plan::diff;
use haptic_model::{Mode, Op, Plan, PlanId, Verdict};
use haptic_wire::{ApplyResult, Conflict, ConflictReason, Timing};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tracing::Instrument as _;

use crate::{
    agent_port::{Agent, AgentError, ApplyAnswer, PlanDocument},
    clock::until,
    deployer::{
        inbox::{Assignment, Inbox, Validated, Waiting},
        known::{Known, UNKNOWN_VERSION},
        plan_upload::PlanUpload,
        request::{self, Sending},
    },
    pipeline::Render,
    pod::{Course, Pod, PodOutcome, PodReport},
};

/// Applies of one assignment before it counts as failed and waits for its retry.
const ATTEMPTS: usize = 4;
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(30);
/// HAProxy's own refusal of a reload rarely goes away by itself.
const FIRST_RETRY_AFTER_REFUSAL: Duration = Duration::from_secs(5);
/// How often a pod with a pending reload or removals is asked how far it is.
const POLL: Duration = Duration::from_millis(250);
/// How often a settled pod is asked whether it still serves what it acknowledged.
const WATCH: Duration = Duration::from_secs(1);
/// How long a pod must be quiet before a promotion travels alone instead of with the next apply.
const PROMOTE: Duration = Duration::from_secs(1);

pub(super) struct PodActor {
    pod: Pod,
    agent: Arc<dyn Agent>,
    inbox: Arc<Inbox>,
    results: mpsc::Sender<PodDone>,
    upload: PlanUpload,
    /// `None` = to be read from the agent.
    known: Option<Known>,
    /// Documents at hand, which spare reading them from the agent.
    remembered: Vec<Arc<Plan>>,
    /// The newest plan that the gate passed.
    validated: Option<Validated>,
    last: Option<Assignment>,
    retry: Option<(Instant, Assignment)>,
    failures: u32,
    poll: Option<Instant>,
    promote: Option<Instant>,
    watch: Option<Instant>,
}

/// The result of an assignment, of its retry, or of the reload that was scheduled for it.
#[derive(Debug)]
pub(super) struct PodDone {
    pub(super) deployment: u64,
    pub(super) render: Arc<Render>,
    pub(super) report: PodReport,
}

#[derive(Debug)]
pub(super) enum PodEnd {
    Retired,
    /// A later leader has written to this pod.
    StoodDown {
        pod: Arc<str>,
        message: String,
    },
}

/// Why an assignment is not done.
enum Setback {
    /// Try again later; the report says why.
    Failed {
        report: Box<PodReport>,
        refused: bool,
    },
    StoodDown {
        message: String,
    },
}

// === impl PodActor ===

impl PodActor {
    pub(super) fn new(pod: Pod, agent: Arc<dyn Agent>, inbox: Arc<Inbox>, results: mpsc::Sender<PodDone>) -> Self {
        Self {
            pod,
            upload: PlanUpload::new(agent.clone()),
            agent,
            inbox,
            results,
            known: None,
            remembered: Vec::new(),
            validated: None,
            last: None,
            retry: None,
            failures: 0,
            poll: None,
            promote: None,
            watch: None,
        }
    }

    pub(super) async fn run(mut self) -> PodEnd {
        loop {
            let retry = self.retry.as_ref().map(|(due, _)| *due);
            let due = [retry, self.poll, self.promote, self.watch, self.upload.due()];
            let due = due.into_iter().flatten().min();
            let mut turn = None;
            tokio::select! {
                biased;
                () = self.inbox.arrived() => {}
                () = self.upload.ended() => {}
                () = until(due) => {}
                mine = self.inbox.turn() => turn = Some(mine),
            }
            let turn = turn.or_else(|| self.inbox.turn_now());
            let waiting = self.inbox.take(turn.as_ref());
            if waiting.closed {
                self.upload.finish().await;
                return PodEnd::Retired;
            }
            if let Err(message) = self.work(waiting).await {
                return PodEnd::StoodDown { pod: self.pod.name.clone(), message };
            }
            self.upload.start();
        }
    }

    async fn work(&mut self, waiting: Waiting) -> Result<(), String> {
        if let Some(validated) = waiting.validated {
            self.validated = Some(validated);
            self.plan_promotion();
        }
        for plan in &waiting.refused {
            self.validated.take_if(|validated| validated.plan == *plan);
            self.retry.take_if(|(_, assignment)| assignment.render.plan() == *plan);
            self.revert(*plan).await;
        }
        if waiting.more {
            self.retry = None;
        }
        if let Some(assignment) = waiting.assignment {
            self.retry = None;
            if waiting.refused.contains(&assignment.render.plan()) {
                let mut report = self.blank(&assignment.render);
                report.error = Some("haproxy -c refuses this render, so it was not sent".to_owned());
                self.report(&assignment, report).await;
                return Ok(());
            }
            return self.assignment(assignment).await;
        }
        let now = Instant::now();
        if let Some((_, assignment)) = self.retry.take_if(|(due, _)| *due <= now) {
            let Some(_turn) = assignment.turns.now() else {
                self.retry = Some((now + FIRST_RETRY, assignment));
                return Ok(());
            };
            return self.assignment(assignment).await;
        }
        if self.poll.take_if(|due| *due <= now).is_some() {
            self.follow_up().await;
        }
        if self.promote.take_if(|due| *due <= now).is_some() {
            self.promote_alone().await;
        }
        if self.watch.take_if(|due| *due <= now).is_some() {
            self.look_after().await;
        }
        Ok(())
    }

    /// Sends the last render again to a pod that does not serve what it acknowledged: nothing acknowledged is lost.
    async fn look_after(&mut self) {
        self.watch = Some(Instant::now() + WATCH);
        if self.retry.is_some() || self.poll.is_some() {
            return;
        }
        let (Some(known), Some(last)) = (&self.known, &self.last) else { return };
        match self.agent.serving().await {
            Ok(now) if known.holds(&now) => {}
            Ok(now) => {
                let correlation = last.render.correlation;
                tracing::warn!(pod = %self.pod.name, %correlation, ?now, "the pod does not serve what it acknowledged");
                self.retry = Some((Instant::now(), last.clone()));
                self.forget();
            }
            Err(error) => tracing::warn!(pod = %self.pod.name, %error, "the pod does not say what it serves"),
        }
    }

    async fn assignment(&mut self, assignment: Assignment) -> Result<(), String> {
        let correlation = assignment.render.correlation;
        let span = tracing::info_span!("deploy", pod = %self.pod.name, %correlation);
        let limit = assignment.render.pacing.timeout;
        let deployed = timeout(limit, self.deploy(&assignment).instrument(span)).await;
        let report = match deployed.unwrap_or_else(|_| Err(self.too_late(&assignment.render))) {
            Ok(report) => {
                self.failures = 0;
                report
            }
            Err(Setback::StoodDown { message }) => return Err(message),
            Err(Setback::Failed { report, refused }) => {
                self.forget();
                self.try_again(&assignment, refused);
                *report
            }
        };
        self.last = Some(assignment.clone());
        self.watch = Some(Instant::now() + WATCH);
        self.report(&assignment, report).await;
        Ok(())
    }

    /// What the agent does with an apply that nobody waits for any more is read from its state.
    fn too_late(&self, render: &Render) -> Setback {
        let limit = render.pacing.timeout;
        let error = Some(format!("it was not done within {limit:?} (deployment.deploymentTimeout)"));
        Setback::Failed { report: Box::new(PodReport { error, ..self.blank(render) }), refused: false }
    }

    /// Plans a retry, later after every failure.
    fn try_again(&mut self, assignment: &Assignment, refused: bool) {
        let first = if refused { FIRST_RETRY_AFTER_REFUSAL } else { FIRST_RETRY };
        let wait = first.saturating_mul(1 << self.failures.min(16)).min(LAST_RETRY);
        self.failures += 1;
        self.retry = Some((Instant::now() + wait, assignment.clone()));
    }

    async fn deploy(&mut self, assignment: &Assignment) -> Result<PodReport, Setback> {
        let Assignment { render, token, .. } = assignment;
        let plan = &render.output.rendered.plan;
        let mut report = self.blank(render);
        if render.trigger.verify {
            self.forget();
        }
        let (mut missing, mut refreshed) = (Vec::new(), false);
        for _ in 0..ATTEMPTS {
            self.read_state().await.map_err(|error| failed(&report, &error))?;
            let known = self.known.as_mut().expect("read above");
            report.haproxy.clone_from(&known.haproxy_version);
            let began = Instant::now();
            let decision = diff(plan, &known.baseline());
            report.diff = began.elapsed();
            report.course = Some(Course { diffed: began, sent: None, agent: Timing::default() });
            report.verdict = Some(decision.verdict);
            report.reasons.clone_from(&decision.reasons);
            report.reasons.extend(decision.notes.iter().cloned());
            if decision.verdict == Verdict::Reload && known.has_leftovers() && !refreshed {
                // Names that were taken at the last apply may be free by now, and then no reload is needed.
                refreshed = true;
                self.forget();
                continue;
            }
            if decision.verdict == Verdict::Noop && known.applied == Some(plan.id) && missing.is_empty() {
                return Ok(self.unchanged(report, plan));
            }
            let removed = leftovers(&decision.ops);
            let validated = validated_plan(self.validated.as_ref(), known);
            let sending = Sending {
                render,
                before: self.last.as_ref().map(|last| &*last.render),
                token: *token,
                validated,
                missing: &missing,
            };
            let (manifest, parts) = request::apply(&sending, decision, known);
            let began = Instant::now();
            let answer = self.agent.apply(manifest, parts).await;
            report.apply = began.elapsed();
            if let Some(course) = &mut report.course {
                course.sent = Some(began);
            }
            match answer.map_err(|error| failed(&report, &error))? {
                ApplyAnswer::Acted(result) => return self.acted(report, plan, *result, &removed),
                ApplyAnswer::Conflict(conflict) => missing = self.conflict(*conflict)?,
            }
        }
        report.error = Some(format!("the agent's state changed {ATTEMPTS} times while this render was sent"));
        Err(Setback::Failed { report: Box::new(report), refused: false })
    }

    fn acted(
        &mut self,
        mut report: PodReport,
        plan: &Arc<Plan>,
        result: ApplyResult,
        removed: &[String],
    ) -> Result<PodReport, Setback> {
        report.mode = Some(result.mode);
        report.applied_plan = result.applied_plan;
        report.running_plan = result.running_plan;
        report.ops_run = result.ops_run;
        if let Some(course) = &mut report.course {
            course.agent = result.timing;
        }
        for reason in &result.reasons {
            if !report.reasons.contains(reason) {
                report.reasons.push(reason.clone());
            }
        }
        if !result.ok {
            report.error = Some(result.error.unwrap_or_else(|| "the agent gave no reason".to_owned()));
            return Err(Setback::Failed { report: Box::new(report), refused: true });
        }
        let known = self.known.as_mut().expect("an apply needs a known state");
        known.acknowledge(plan, &result, removed);
        let validated = validated_plan(self.validated.as_ref(), known);
        if validated.is_some() && validated == known.applied {
            known.last_known_good = validated;
        }
        let unsettled = known.reload_pending || known.has_leftovers();
        self.poll = unsettled.then(|| Instant::now() + POLL);
        if known.haproxy == UNKNOWN_VERSION {
            // The first apply started HAProxy: only now can the agent say which one it is.
            self.poll = Some(Instant::now());
        }
        report.outcome = if known.reload_pending { PodOutcome::Scheduled } else { PodOutcome::Serving };
        self.remembered = known.plans().cloned().collect();
        self.upload.offer(plan);
        self.plan_promotion();
        Ok(report)
    }

    fn unchanged(&mut self, mut report: PodReport, plan: &Arc<Plan>) -> PodReport {
        report.mode = Some(Mode::Noop);
        report.outcome = PodOutcome::Serving;
        report.applied_plan = Some(plan.id);
        report.running_plan = Some(plan.id);
        self.plan_promotion();
        report
    }

    /// What the agent misses, if that is all; everything else is diffed again from the state.
    fn conflict(&mut self, conflict: Conflict) -> Result<Vec<haptic_model::FilePath>, Setback> {
        tracing::debug!(pod = %self.pod.name, reason = ?conflict.reason, message = %conflict.message, "the fence did not hold");
        match conflict.reason {
            ConflictReason::StaleEpoch => Err(Setback::StoodDown { message: conflict.message }),
            ConflictReason::Missing => Ok(conflict.missing),
            ConflictReason::PrevMismatch | ConflictReason::UnknownBaseline | ConflictReason::WorkerMismatch => {
                self.forget();
                Ok(Vec::new())
            }
        }
    }

    async fn revert(&mut self, refused: PlanId) {
        let Some((token, correlation)) = self.last.as_ref().map(|last| (last.token, last.render.correlation)) else {
            return;
        };
        let Some(known) = &self.known else { return };
        // What the pod's own HAProxy loaded is left alone: its verdict is better than ours.
        if known.applied != Some(refused) || known.loaded_by_reload {
            return;
        }
        let manifest = request::revert(refused, known, token);
        match self.agent.apply(manifest, Vec::new()).await {
            Ok(ApplyAnswer::Acted(result)) if result.ok => {
                let plan = refused.0.short();
                tracing::warn!(pod = %self.pod.name, %correlation, %plan, "reverted a plan that HAProxy refuses");
            }
            answer => {
                tracing::error!(pod = %self.pod.name, %correlation, ?answer, "could not revert a plan that HAProxy refuses");
            }
        }
        self.forget();
    }

    /// Asks how a scheduled reload went and which removals are done.
    async fn follow_up(&mut self) {
        let pending = self.known.as_ref().is_some_and(|known| known.reload_pending);
        let Ok(state) = self.agent.state(PlanDocument::Without).await else {
            self.poll = Some(Instant::now() + POLL);
            return;
        };
        let last_apply = state.last_apply.clone();
        let known = Known::from_state(state, &self.remembered);
        let still_pending = known.reload_pending;
        if still_pending || known.has_leftovers() {
            self.poll = Some(Instant::now() + POLL);
        }
        let applied = known.applied;
        self.known = Some(known);
        self.plan_promotion();
        let Some(last) = self.last.clone() else { return };
        if !pending || still_pending {
            return;
        }
        let mut report = self.blank(&last.render);
        report.applied_plan = applied;
        report.running_plan = applied;
        report.mode = Some(Mode::Reload);
        if let Some(result) = last_apply {
            report.reasons = result.reasons;
            report.error = result.error;
        }
        if applied == Some(last.render.plan()) {
            report.outcome = PodOutcome::Serving;
            report.error = None;
        } else {
            // HAProxy refused it, or died meanwhile and serves its last known good: it is sent again.
            self.try_again(&last, report.error.is_some());
            report.error.get_or_insert_with(|| "the scheduled reload did not load this render".to_owned());
        }
        self.report(&last, report).await;
    }

    fn plan_promotion(&mut self) {
        let due = self.known.as_ref().is_some_and(|known| {
            let validated = validated_plan(self.validated.as_ref(), known);
            let applied = validated.is_some() && known.applied == validated && !known.reload_pending;
            applied && known.last_known_good != validated
        });
        self.promote = due.then(|| Instant::now() + PROMOTE);
    }

    async fn promote_alone(&mut self) {
        let (Some(known), Some(last)) = (&mut self.known, &self.last) else { return };
        let Some(plan) = validated_plan(self.validated.as_ref(), known) else { return };
        let Some(document) = known.plans().find(|document| document.id == plan).cloned() else { return };
        if known.applied != Some(plan) {
            return;
        }
        let manifest = request::promotion(&document, known, last.token, plan);
        match self.agent.apply(manifest, Vec::new()).await {
            Ok(ApplyAnswer::Acted(result)) if result.ok => known.last_known_good = Some(plan),
            answer => {
                tracing::debug!(pod = %self.pod.name, ?answer, "the promotion waits for the next apply");
                self.forget();
            }
        }
    }

    async fn read_state(&mut self) -> Result<(), AgentError> {
        if self.known.is_some() {
            return Ok(());
        }
        let mut state = self.agent.state(PlanDocument::Without).await?;
        let at_hand = |id: PlanId| self.remembered.iter().any(|plan| plan.id == id);
        if state.applied_plan.is_some_and(|applied| !at_hand(applied)) {
            state = self.agent.state(PlanDocument::With).await?;
        }
        self.known = Some(Known::from_state(state, &self.remembered));
        Ok(())
    }

    fn forget(&mut self) {
        self.known = None;
    }

    fn blank(&self, render: &Render) -> PodReport {
        PodReport {
            pod: self.pod.name.clone(),
            plan: render.plan(),
            outcome: PodOutcome::Failed,
            verdict: None,
            mode: None,
            applied_plan: None,
            running_plan: None,
            haproxy: self.known.as_ref().and_then(|known| known.haproxy_version.clone()),
            reasons: Vec::new(),
            ops_run: 0,
            error: None,
            diff: Duration::ZERO,
            apply: Duration::ZERO,
            course: None,
        }
    }

    async fn report(&self, assignment: &Assignment, report: PodReport) {
        let done = PodDone { deployment: assignment.deployment, render: assignment.render.clone(), report };
        // The receiver is gone only when the deployer has ended.
        let _ = self.results.send(done).await;
    }
}

/// A pod is promoted only by its own version's pass.
fn validated_plan(validated: Option<&Validated>, known: &Known) -> Option<PlanId> {
    validated.filter(|validated| validated.versions.contains(&known.haproxy)).map(|validated| validated.plan)
}

fn failed(report: &PodReport, error: &AgentError) -> Setback {
    let report = PodReport { error: Some(error.to_string()), ..report.clone() };
    Setback::Failed { report: Box::new(report), refused: false }
}

/// Names that stay taken for a while after these operations.
fn leftovers(ops: &[Op]) -> Vec<String> {
    ops.iter()
        .filter_map(|op| match op {
            Op::ServerDel { backend, server } => Some(format!("{backend}/{server}")),
            Op::BackendDel { name } => Some(name.to_string()),
            _ => None,
        })
        .collect()
}
