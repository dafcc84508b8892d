//! The strict path on two states, of which only the difference counts.

use std::{cell::RefCell, collections::BTreeSet, sync::Arc};

use haptic_model::{
    CONFIG_PATH, Digest, Finding, FindingCode, Framer, PlanId, Rendered, Severity, ports::PluginReport,
};
use haptic_render::Renderer;
use haptic_store::RawChange;

use crate::{
    admission::{
        Admission, Proposal,
        state::{Question, States},
        verdict::Outcome,
    },
    check::{Answer, Cancellation, CheckAsk, CheckMessage, NameResolution},
    core::Core,
    reports::{self, from_haproxy, from_report, refusal, telling},
};

/// How often what HAProxy refuses in both states is left out and both are rendered again.
const ROUNDS: usize = 8;

/// A complaint as it can be found again in another output, where its line has another number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Complaint {
    who: Arc<str>,
    severity: Severity,
    file: String,
    message: String,
    /// The text of the line; `None` = no line is named.
    line: Option<String>,
    /// Of all that the line's unit wrote, or of a whole file without a line: other bytes are another complaint.
    written: Option<Digest>,
}

/// Why the comparison ended before its end.
struct Ended(Box<Outcome>);

/// One call of [`Admission::judge`].
pub(super) struct Judging<'a> {
    cancelled: &'a Cancellation,
    /// What HAProxy said of the state before. It stays the same while proposals are split.
    before: RefCell<Option<(PlanId, Answer)>>,
}

/// Which validators are asked.
#[derive(Clone, Copy)]
enum Asked {
    Auxiliary,
    Output,
}

// === impl Admission ===

impl Admission {
    /// What is said about these proposals together.
    pub(super) fn attempt(&self, proposals: &[&Proposal], judging: &Judging<'_>) -> Outcome {
        let core = self.core.get();
        let outcome = match self.compare(&core, proposals, judging) {
            Ok(warnings) => Outcome::Accepted { warnings },
            Err(Ended(outcome)) => *outcome,
        };
        let located = |findings: Vec<Finding>| {
            let owned = findings.into_iter().map(|finding| attributed(finding, proposals)).collect();
            core.sources.all_in_manifests(owned)
        };
        match outcome {
            Outcome::Accepted { warnings } => Outcome::Accepted { warnings: located(warnings) },
            Outcome::Refused { caused } => Outcome::Refused { caused: located(caused) },
            unjudged @ Outcome::Unjudged(_) => unjudged,
        }
    }

    fn compare(&self, core: &Core, proposals: &[&Proposal], judging: &Judging<'_>) -> Result<Vec<Finding>, Ended> {
        let known = Vec::new();
        let mut question = Question { core, proposals, known, refused: BTreeSet::new(), haproxy: (self.haproxy)() };
        let mut warnings = Vec::new();
        for _ in 0..ROUNDS {
            let Some((states, after)) = self.rendered(&mut question, judging.cancelled, &mut warnings)? else {
                return Ok(warnings);
            };
            let before = states.before.as_ref().ok();
            self.ask(Asked::Auxiliary, &question, before, &after, &mut warnings)?;
            proceed(judging.cancelled)?;
            match self.check(&question, before, &after, judging)? {
                Checked::Passed(told) => {
                    self.ask(Asked::Output, &question, before, &after, &mut warnings)?;
                    proceed(judging.cancelled)?;
                    warnings.extend(told);
                    warnings.sort();
                    warnings.dedup();
                    return Ok(warnings);
                }
                Checked::RefusedBefore(units) if units.is_empty() => break,
                Checked::RefusedBefore(units) => question.refused.extend(units),
            }
        }
        warnings.push(not_judged_further("HAProxy refuses the configuration also without this change"));
        Ok(warnings)
    }

    /// Both states, where the proposed one can be judged further; `None` = it needs no further judgement.
    fn rendered(
        &self,
        question: &mut Question<'_>,
        cancelled: &Cancellation,
        warnings: &mut Vec<Finding>,
    ) -> Result<Option<(States, Rendered)>, Ended> {
        let Some(mut states) = self.states(question) else { return Ok(None) };
        if !states.missing.is_empty() {
            let found = self.fresh.read(&states.missing);
            question.know(found);
            if !question.known.is_empty() {
                let Some(again) = self.states(question) else { return Ok(None) };
                states = again;
            }
        }
        proceed(cancelled)?;
        let caused = states.caused();
        if !caused.is_empty() {
            return Err(Ended::refused(caused));
        }
        *warnings = states.warnings(question.proposals);
        let Ok(after) = states.after.clone() else {
            warnings.push(not_judged_further("the configuration cannot be rendered, also without this change"));
            return Ok(None);
        };
        // No byte differs, so whatever somebody says of the output, no proposal is the reason.
        let same = states.before.as_ref().is_ok_and(|before| before.plan.id == after.plan.id);
        Ok((!same).then_some((states, after)))
    }

    /// Asks validators about the proposed output, and about the one before only to tell what is new.
    fn ask(
        &self,
        asked: Asked,
        question: &Question<'_>,
        before: Option<&Rendered>,
        after: &Rendered,
        warnings: &mut Vec<Finding>,
    ) -> Result<(), Ended> {
        let (renderer, now) = (&question.core.pipeline.renderer, self.clock.now());
        let validators = &question.core.pipeline.validators;
        let reports = |rendered: &Rendered| match asked {
            Asked::Auxiliary => validators.validate_auxiliary(&rendered.files, now),
            Asked::Output => validators.validate_output(&rendered.files, now),
        };
        let complaints = of_reports(&reports(after), after, renderer);
        if complaints.is_empty() {
            return Ok(());
        }
        let known = before.map(|before| of_reports(&reports(before), before, renderer)).unwrap_or_default();
        let new = new_ones(complaints, known.into_iter().map(|(complaint, _)| complaint).collect());
        let (caused, told): (Vec<_>, Vec<_>) = new.into_iter().partition(|finding| finding.severity == Severity::Error);
        if !caused.is_empty() {
            return Err(Ended::refused(caused));
        }
        warnings.extend(told);
        Ok(())
    }

    fn check(
        &self,
        question: &Question<'_>,
        before: Option<&Rendered>,
        after: &Rendered,
        judging: &Judging<'_>,
    ) -> Result<Checked, Ended> {
        let cancelled = judging.cancelled;
        let renderer = &question.core.pipeline.renderer;
        let bounds = question.core.pipeline.check;
        let ask = CheckAsk { haproxy: question.haproxy, names: NameResolution::Required, bounds };
        let check = |rendered: &Rendered| self.check.check(&rendered.files, ask, cancelled);
        let messages = match check(after) {
            Answer::Passed { warnings, .. } => {
                let told = from_haproxy(&warnings, after, renderer).into_iter();
                let own = |finding: &Finding| {
                    question.proposals.iter().any(|proposal| finding.object.as_ref() == Some(&proposal.object))
                };
                return Ok(Checked::Passed(told.filter(own).collect()));
            }
            Answer::Refused { messages, .. } => messages,
            Answer::Unavailable { reason } => return Err(unavailable(&reason.message, cancelled)),
        };
        let known = match before.map(|before| judging.before(before.plan.id, || check(before))) {
            None | Some(Answer::Passed { .. }) => Vec::new(),
            Some(Answer::Refused { messages, .. }) => {
                let before = before.expect("it was checked");
                telling(&messages).map(|message| of_haproxy(message, before)).collect()
            }
            Some(Answer::Unavailable { reason }) => return Err(unavailable(&reason.message, cancelled)),
        };
        let complaints = telling(&messages).map(|message| (of_haproxy(message, after), message.clone()));
        let new = new_ones(complaints.collect(), known);
        if new.is_empty() {
            let units = refusal(&messages, after, renderer).units;
            return Ok(Checked::RefusedBefore(units.into_iter().map(|unit| unit.unit).collect()));
        }
        Err(Ended::refused(refusal(&new, after, renderer).findings))
    }
}

/// What is nobody's text, such as a line that several units share, is the doing of a write that is judged alone.
fn attributed(finding: Finding, proposals: &[&Proposal]) -> Finding {
    let [proposal] = proposals else { return finding };
    if finding.object.is_some() {
        return finding;
    }
    let hint = format!("correct {}, or the template that prints it", proposal.object);
    let finding = finding.about(Some(proposal.object.clone()));
    if finding.code == FindingCode::RefusedByHAProxy { finding.hint(hint) } else { finding }
}

/// What HAProxy says that is no denial.
enum Checked {
    /// With warnings about proposed objects.
    Passed(Vec<Finding>),
    /// It refuses both states for the same reasons, which are in these units.
    RefusedBefore(Vec<Arc<str>>),
}

// === impl Judging ===

impl<'a> Judging<'a> {
    pub(super) fn new(cancelled: &'a Cancellation) -> Self {
        Self { cancelled, before: RefCell::default() }
    }

    fn before(&self, plan: PlanId, check: impl FnOnce() -> Answer) -> Answer {
        let mut known = self.before.borrow_mut();
        match &*known {
            Some((of, answer)) if *of == plan => answer.clone(),
            _ => known.insert((plan, check())).1.clone(),
        }
    }
}

// === impl Ended ===

impl Ended {
    fn refused(caused: Vec<Finding>) -> Self {
        Self(Box::new(Outcome::Refused { caused }))
    }
}

// === impl Question ===

impl Question<'_> {
    /// Objects that are there, apart from those whose own change is judged.
    fn know(&mut self, found: Vec<(Arc<str>, RawChange)>) {
        let proposed = |change: &RawChange| match change {
            RawChange::Upsert(object) => {
                let reference = object.reference();
                self.proposals.iter().any(|proposal| proposal.object == reference)
            }
            RawChange::Delete(_) => true,
        };
        self.known.extend(found.into_iter().filter(|(_, change)| !proposed(change)).collect::<Vec<_>>());
    }
}

/// Those of which there were not as many before.
fn new_ones<T>(complaints: Vec<(Complaint, T)>, mut known: Vec<Complaint>) -> Vec<T> {
    let mut new = Vec::new();
    for (complaint, told) in complaints {
        match known.iter().position(|known| *known == complaint) {
            Some(index) => drop(known.swap_remove(index)),
            None => new.push(told),
        }
    }
    new
}

fn of_reports(reports: &[PluginReport], rendered: &Rendered, renderer: &Renderer) -> Vec<(Complaint, Finding)> {
    let mut complaints = Vec::new();
    for report in reports {
        let said = report.errors.iter().chain(&report.warnings);
        let mut places: Vec<(String, u32, String)> = said
            .map(|said| {
                let path = if said.path.is_empty() { &report.path } else { &said.path };
                (path.clone(), said.line, said.message.clone())
            })
            .collect();
        places.extend(report.failure.as_ref().map(|failure| (report.path.clone(), 0, failure.to_string())));
        // A failure of the plugin is nothing that the file says.
        let fails = places.len() - usize::from(report.failure.is_some());
        for (index, ((file, line, message), finding)) in
            places.into_iter().zip(from_report(report, rendered, renderer)).enumerate()
        {
            let mut complaint =
                Complaint::new(report.plugin.clone(), finding.severity, &file, line, &message, rendered);
            if index >= fails {
                complaint.written = None;
            }
            complaints.push((complaint, finding));
        }
    }
    complaints
}

fn of_haproxy(message: &CheckMessage, rendered: &Rendered) -> Complaint {
    Complaint::new("haproxy".into(), Severity::Error, &message.file, message.line, &message.text, rendered)
}

// === impl Complaint ===

impl Complaint {
    fn new(who: Arc<str>, severity: Severity, file: &str, line: u32, message: &str, rendered: &Rendered) -> Self {
        let written = if line > 0 {
            written_by_unit(file, line, rendered)
        } else if file == CONFIG_PATH {
            // All of the configuration is nobody's own.
            None
        } else {
            rendered.files.get(file).map(|file| file.digest)
        };
        let text = (line > 0).then(|| reports::line_of(file, line, rendered)).flatten();
        Self { who, severity, file: file.to_owned(), message: without_numbers(message), line: text, written }
    }
}

/// What the unit that wrote this line wrote into the same file.
fn written_by_unit(file: &str, line: u32, rendered: &Rendered) -> Option<Digest> {
    let unit = rendered.sources.origin(file, line)?.unit.as_ref()?;
    let content = &rendered.files.get(file)?.content;
    let mut text = Framer::default();
    for (number, line) in (1_u32..).zip(content.split(|byte| *byte == b'\n')) {
        let origin = rendered.sources.origin(file, number);
        // Where a unit's text ends, lines without a word may belong to either neighbour.
        if !line.trim_ascii().is_empty() && origin.is_some_and(|origin| origin.unit.as_ref() == Some(unit)) {
            text.field(line);
        }
    }
    Some(text.finish())
}

/// Without the numbers of lines: they differ where something was put in front.
fn without_numbers(message: &str) -> String {
    let mut plain = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, digits) = rest.split_at(at);
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        plain.push_str(before);
        let is_line = before.ends_with(':') || before.ends_with("line ");
        plain.push_str(if is_line { "#" } else { &digits[..end] });
        rest = &digits[end..];
    }
    plain + rest
}

fn not_judged_further(why: &str) -> Finding {
    Finding::warning(FindingCode::ConfigInvalid, format!("this change was judged in part only: {why}"))
        .hint("look at the status of the HAProxyTemplateConfig, and write this again when that is mended")
}

/// Work that nobody waits for any more is no verdict.
fn proceed(cancelled: &Cancellation) -> Result<(), Ended> {
    if cancelled.is_cancelled() { Err(unavailable("nobody waits for the verdict any more", cancelled)) } else { Ok(()) }
}

fn unavailable(why: &str, cancelled: &Cancellation) -> Ended {
    let hint = if cancelled.is_cancelled() {
        "try again in a moment"
    } else {
        "look at the log of the controller, and see that it has a HAProxy of the pods' version"
    };
    Ended(Box::new(Outcome::Unjudged(Finding::error(FindingCode::ConfigInvalid, why).hint(hint))))
}
