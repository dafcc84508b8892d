//! What a validator answers: true to the contract, and always the same.

use std::{thread, time::Instant};

use haptic_model::ports::{Diagnostic, Now};
use haptic_plugins::{RawReport, Trial, Verdict};

use crate::{
    checks::{Context, fingerprint, first_of, problem},
    probe,
    report::Said,
    sample::Sample,
    v1::Subject,
};

/// Threads that ask beside each other.
const THREADS: usize = 4;

pub(super) fn verdict(ctx: &Context<'_>) -> Said {
    judge(ctx, "derive it from the two lists, or build the report with the SDK, which does", |report, _| {
        let due = match (report.errors.as_slice(), report.warnings.as_slice()) {
            ([], []) => Verdict::Valid,
            ([], _) => Verdict::Warning,
            _ => Verdict::Error,
        };
        (report.verdict != due).then(|| {
            format!(
                "the verdict is `{}`, but {} errors and {} warnings make `{}`",
                report.verdict.as_str(),
                report.errors.len(),
                report.warnings.len(),
                due.as_str()
            )
        })
    })
}

pub(super) fn positions(ctx: &Context<'_>) -> Said {
    judge(
        ctx,
        "count lines at LF and columns in bytes, both from 1, or give 0 where it is not known",
        |report, subject| findings(report).find_map(|finding| misplaced(finding, subject)),
    )
}

pub(super) fn messages(ctx: &Context<'_>) -> Said {
    judge(ctx, "say what is wrong and what to do, and write bytes of the file escaped", |report, _| {
        findings(report).find_map(|Diagnostic { path, line, column, message }| {
            let place = format!("the finding at {path}:{line}:{column}");
            if message.trim().is_empty() {
                return Some(format!("{place} has no message"));
            }
            let control = message.chars().find(|character| character.is_control())?;
            Some(format!("{place} has {control:?} in its message, which no log or terminal can show"))
        })
    })
}

pub(super) fn repeat(ctx: &Context<'_>) -> Said {
    let times = ctx.pick(10, 3);
    let ready = ctx.ready();
    let mut problems = Vec::new();
    for (sample, answer) in ready.samples.iter().zip(&ready.answers) {
        let again = (0..times).map(|_| probe::ask(&sample.plugin, &sample.question()));
        problems.extend(differs(sample, answer, again, "asked again in a fresh instance"));
        match ctx.probe.load_elsewhere(&sample.config) {
            Ok(plugin) => {
                let elsewhere = std::iter::once(probe::ask(&plugin, &sample.question()));
                problems.extend(differs(sample, answer, elsewhere, "asked in another host"));
            }
            Err(error) => problems.push(format!("case `{}`: another host does not load it: {error}", sample.name)),
        }
    }
    unstable(&problems, || format!("{} requests, {times} times here and once in another host", ready.samples.len()))
}

pub(super) fn order(ctx: &Context<'_>) -> Said {
    let ready = ctx.ready();
    let mut problems = Vec::new();
    for (sample, answer) in ready.samples.iter().zip(&ready.answers).rev() {
        // Something else in between: an empty file, then another config of the same module.
        let nothing = sample.subject.with_content(Vec::new());
        probe::ask(&sample.plugin, &nothing.question(sample.now));
        if let Some(other) = ready.samples.iter().find(|other| other.config != sample.config) {
            probe::ask(&other.plugin, &other.question());
        }
        let again = std::iter::once(probe::ask(&sample.plugin, &sample.question()));
        problems.extend(differs(sample, answer, again, "asked after other requests"));
    }
    unstable(&problems, || format!("{} requests in reverse, with others between them", ready.samples.len()))
}

pub(super) fn parallel(ctx: &Context<'_>) -> Said {
    let ready = ctx.ready();
    let rounds = ctx.pick(4, 1);
    let ask_all = |offset: usize| {
        let mut problems = Vec::new();
        for round in 0..rounds {
            for index in 0..ready.samples.len() {
                let index = (index + offset + round) % ready.samples.len();
                let sample = &ready.samples[index];
                let again = std::iter::once(probe::ask(&sample.plugin, &sample.question()));
                problems.extend(differs(sample, &ready.answers[index], again, "asked beside other calls"));
            }
        }
        problems
    };
    let problems: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || ask_all(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("asking does not panic")).collect()
    });
    unstable(&problems, || format!("{} calls in {THREADS} threads", ready.samples.len() * rounds * THREADS))
}

pub(super) fn clock(ctx: &Context<'_>) -> Said {
    const DAY: u64 = 86_400;
    let ready = ctx.ready();
    let mut problems = Vec::new();
    let mut follows_now = false;
    let started = Instant::now();
    for (sample, answer) in ready.samples.iter().zip(&ready.answers) {
        // The clock on the wall has gone on since the first answer.
        let later = std::iter::once(probe::ask(&sample.plugin, &sample.question()));
        problems.extend(differs(sample, answer, later, "asked at another time of the wall clock with the same `now`"));
        for now in [0, DAY, 1 << 31, 1 << 32, 253_402_300_800, 1 << 53, u64::MAX] {
            let trial = probe::ask(&sample.plugin, &sample.subject.question(Now(now)));
            if let Some(problem) = problem(&trial) {
                problems.push(format!("case `{}` with `now` {now}: the plugin {problem}", sample.name));
            }
            follows_now |= fingerprint(&trial) != fingerprint(answer);
        }
    }
    let asked = started.elapsed().as_millis();
    let how = if follows_now { "reports follow `now`" } else { "no report depends on `now`" };
    unstable(&problems, || format!("{how}; the same `now` gave the same report throughout {asked} ms"))
}

/// Looks at every raw report, to the cases and to content near theirs.
fn judge(ctx: &Context<'_>, next: &str, wrong: impl Fn(&RawReport, &Subject) -> Option<String>) -> Said {
    let ready = ctx.ready();
    let cases = ready.samples.iter().zip(&ready.answers);
    let cases = cases.map(|(sample, trial)| (format!("case `{}`", sample.name), &sample.subject, trial));
    let near = ready.near.iter().map(|(what, subject, trial)| (what.clone(), subject, trial));
    let mut reports = 0;
    let mut problems = Vec::new();
    for (what, subject, trial) in cases.chain(near) {
        let Some(raw) = &trial.raw else { continue };
        reports += 1;
        problems.extend(wrong(raw, subject).map(|wrong| format!("{what}: {wrong}")));
    }
    match (problems.as_slice(), reports) {
        ([], 0) => Said::skip("no request was answered with a report"),
        ([], _) => Said::pass(format!("{reports} reports")),
        (problems, _) => Said::fail(format!("{}; {next}", first_of(problems))),
    }
}

fn findings(report: &RawReport) -> impl Iterator<Item = &Diagnostic> {
    report.errors.iter().chain(&report.warnings)
}

/// What is wrong with a finding's place, by the words of the contract and without the host's own index.
fn misplaced(finding: &Diagnostic, subject: &Subject) -> Option<String> {
    let Diagnostic { path, line, column, message } = finding;
    let place = format!("the finding {path}:{line}:{column} ({message})");
    let Some(file) = subject.file(path) else {
        return Some(format!("{place} names a file that was not in the request"));
    };
    match (*line, *column) {
        (0, 0) => return None,
        (0, _) => return Some(format!("{place} has a column but no line")),
        _ => {}
    }
    let lines = file.content.split(|byte| *byte == b'\n');
    let Some(text) = usize::try_from(*line).ok().and_then(|line| lines.clone().nth(line - 1)) else {
        return Some(format!("{place} is past the last line, {}", lines.count()));
    };
    let columns = text.len() + 1;
    (usize::try_from(*column).map_or(true, |column| column > columns))
        .then(|| format!("{place} is past the last column, {columns}"))
}

fn differs(sample: &Sample, first: &Trial, again: impl Iterator<Item = Trial>, how: &str) -> Option<String> {
    let first = fingerprint(first);
    let mut again = again.map(|trial| fingerprint(&trial));
    let other = again.find(|other| *other != first)?;
    Some(format!("case `{}` {how} gave another answer:\n- {first}\n+ {other}", sample.name))
}

fn unstable(problems: &[String], fine: impl FnOnce() -> String) -> Said {
    match problems {
        [] => Said::pass(fine()),
        problems => Said::fail(format!(
            "an answer must follow from the request and the config alone: {}; leave out hashes of addresses, random \
             orders, counters and clocks other than `now`",
            first_of(problems)
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use haptic_model::{
        FilePath,
        ports::{Contract, FailurePolicy, PluginFailureKind, PluginReport},
    };

    use crate::case::file;

    use super::*;

    fn subject(content: &'static [u8]) -> Option<Subject> {
        let path = FilePath::new("a.map").ok()?;
        Some(Subject::AuxiliaryFile { file: file(&path, &content.into()), data_files: Vec::new() })
    }

    fn at(line: u32, column: u32) -> Diagnostic {
        Diagnostic { path: "a.map".to_owned(), line, column, message: "wrong".to_owned() }
    }

    #[test]
    fn a_place_is_in_the_file_or_it_is_told() {
        let subject = subject(b"one\r\ntwo\n").unwrap_or_else(|| unreachable!("it is a path"));
        for (line, column) in [(0, 0), (1, 0), (1, 5), (2, 4), (3, 0), (3, 1)] {
            assert_eq!(misplaced(&at(line, column), &subject), None, "{line}:{column}");
        }
        for (line, column, says) in [
            (0, 1, "a column but no line"),
            (1, 6, "past the last column, 5"),
            (2, 5, "past the last column, 4"),
            (4, 0, "past the last line, 3"),
            (u32::MAX, u32::MAX, "past the last line"),
        ] {
            let told = misplaced(&at(line, column), &subject).unwrap_or_default();
            assert!(told.contains(says), "{line}:{column}: {told}");
        }
        let elsewhere = Diagnostic { path: "b.map".to_owned(), ..at(1, 1) };
        assert!(misplaced(&elsewhere, &subject).is_some_and(|told| told.contains("not in the request")));
    }

    fn trial(errors: Vec<Diagnostic>, failure: Option<PluginFailureKind>) -> Trial {
        let plugin: Arc<str> = "p".into();
        let raw = RawReport { verdict: Verdict::Error, warnings: Vec::new(), errors };
        let report = PluginReport {
            plugin: Arc::clone(&plugin),
            contract: Contract::AuxiliaryFile,
            path: "a.map".to_owned(),
            warnings: Vec::new(),
            errors: raw.errors.clone(),
            failure: failure.map(|kind| haptic_model::ports::PluginFailure { plugin, kind }),
            failure_policy: FailurePolicy::Fail,
            elapsed: std::time::Duration::ZERO,
        };
        Trial { report, raw: Some(raw), memory_bytes: 0, input_bytes: 0 }
    }

    /// The sandbox gives a validator nothing to differ by: an instance is fresh, its clocks and random numbers are
    /// fixed. That the comparison would notice is shown here.
    #[test]
    fn answers_that_differ_in_order_words_or_failure_are_not_the_same() {
        let one = trial(vec![at(1, 1), at(2, 1)], None);
        assert_eq!(fingerprint(&one), fingerprint(&trial(vec![at(1, 1), at(2, 1)], None)));
        let other_order = trial(vec![at(2, 1), at(1, 1)], None);
        let other_words = trial(vec![at(1, 1), Diagnostic { message: "other".to_owned(), ..at(2, 1) }], None);
        let failed = trial(vec![at(1, 1), at(2, 1)], Some(PluginFailureKind::StackLimit));
        for other in [other_order, other_words, failed] {
            assert_ne!(fingerprint(&one), fingerprint(&other));
        }
    }
}
