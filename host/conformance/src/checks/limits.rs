//! Limits: what a plugin leaves of them, and that they hold.

use std::time::Duration;

use haptic_model::ports::PluginFailureKind;
use haptic_plugins::{Limits, Trial};

use crate::{
    checks::{Context, fingerprint, first_of, mutate},
    probe,
    report::{CaseCost, Said},
    sample::{Sample, largest_of_each},
};

/// Of the timeout, above which a person should look.
const BUSY_PERCENT: u64 = 50;

/// Of the memory limit: memory does not depend on what else the machine does.
const FULL_PERCENT: u64 = 80;

/// A call is cut off in content of this size, which takes long enough to be cut anywhere.
const CUT_BYTES: usize = 256 << 10;

pub(super) fn huge_input(ctx: &Context<'_>) -> Said {
    let mut told = Vec::new();
    for sample in largest_of_each(&ctx.ready().samples) {
        let length = room(sample, ctx.probe.limits().input_bytes);
        let subject = sample.subject.with_content(mutate::filled(sample.subject.content(), length));
        let trial = sample.plugin.try_question(&subject.question(sample.now), ctx.probe.limits());
        match named_limit(&trial) {
            Ok(None) => told.push(format!("{} MiB in {} ms", length >> 20, trial.report.elapsed.as_millis())),
            Ok(Some(PluginFailureKind::InputLimit { .. })) => told.push(format!(
                "it reads a file of {} MiB more than once, which counts twice against its input limit",
                length >> 20
            )),
            Ok(Some(kind)) => told.push(format!("with {} MiB it {kind}", length >> 20)),
            Err(problem) => {
                return Said::fail(format!(
                    "case `{}` repeated to {length} bytes: the plugin {problem}; read files in pieces, or refuse in an error \
                     what is too large",
                    sample.name
                ));
            }
        }
    }
    Said::pass(told.join("; "))
}

pub(super) fn over_input_limit(ctx: &Context<'_>) -> Said {
    let limit = ctx.probe.limits().input_bytes;
    let mut told = Vec::new();
    for sample in largest_of_each(&ctx.ready().samples) {
        let length = usize::try_from(limit).unwrap_or(usize::MAX).saturating_add(1);
        let subject = sample.subject.with_content(mutate::filled(sample.subject.content(), length));
        let trial = sample.plugin.try_question(&subject.question(sample.now), ctx.probe.limits());
        let what = match named_limit(&trial) {
            Err(problem) => Err(format!("the plugin {problem}")),
            Ok(Some(kind)) => Ok(format!("it {kind}")),
            Ok(None) if trial.report.failure.is_some() => Ok("it refuses the file in an error of its own".to_owned()),
            Ok(None) if trial.input_bytes > limit => {
                Err(format!("it read {} bytes and was not stopped", trial.input_bytes))
            }
            Ok(None) => Ok(format!("it answered from the {} bytes that it read", trial.input_bytes)),
        };
        match what {
            Ok(what) => told.push(what),
            Err(problem) => return Said::fail(format!("case `{}` repeated to {length} bytes: {problem}", sample.name)),
        }
    }
    Said::pass(told.join("; "))
}

pub(super) fn cancellation(ctx: &Context<'_>) -> Said {
    let ready = ctx.ready();
    let mut problems = Vec::new();
    let (mut stopped, mut in_time) = (0, 0);
    for (sample, answer) in ready.samples.iter().zip(&ready.answers).take(ctx.pick(4, 1)) {
        let subject = sample.subject.with_content(mutate::filled(sample.subject.content(), CUT_BYTES));
        let right = probe::ask(&sample.plugin, &subject.question(sample.now));
        // A timeout of nothing ends before the plugin's own code; the others end somewhere in it.
        for part in [0, 1, 2, 4, 6] {
            let limits = Limits { timeout: right.report.elapsed * part / 8, ..ctx.probe.limits() };
            let cut = sample.plugin.try_question(&subject.question(sample.now), limits);
            match cut.report.failure.as_ref().map(|failure| &failure.kind) {
                Some(PluginFailureKind::Timeout { .. }) => stopped += 1,
                _ if fingerprint(&cut) == fingerprint(&right) => in_time += 1,
                _ => problems.push(format!(
                    "case `{}` with a timeout of {:?} gave neither its answer nor a timeout: {}",
                    sample.name,
                    limits.timeout,
                    fingerprint(&cut)
                )),
            }
            if fingerprint(&probe::ask(&sample.plugin, &sample.question())) != fingerprint(answer) {
                problems.push(format!("case `{}` after a call that was cut off gave another answer", sample.name));
            }
        }
    }
    if stopped == 0 {
        problems.push(format!("none of {in_time} calls with too small a timeout was stopped"));
    }
    match problems.as_slice() {
        [] => Said::pass(format!(
            "{stopped} calls stopped, {in_time} done before their deadline, every call after them right"
        )),
        problems => Said::fail(first_of(problems)),
    }
}

pub(super) fn time(ctx: &Context<'_>) -> Said {
    let limit = ctx.probe.limits().timeout;
    headroom(
        ctx,
        BUSY_PERCENT,
        |cost| nanos(cost.elapsed),
        nanos(limit),
        |cost| format!("{} of {limit:?}", millis(cost.elapsed)),
    )
}

pub(super) fn memory(ctx: &Context<'_>) -> Said {
    let limit = ctx.probe.limits().memory_bytes;
    headroom(
        ctx,
        FULL_PERCENT,
        |cost| cost.memory_bytes,
        limit,
        |cost| format!("{} of {} KiB", cost.memory_bytes >> 10, limit >> 10),
    )
}

fn headroom(
    ctx: &Context<'_>,
    much: u64,
    of: impl Fn(&CaseCost) -> u64,
    limit: u64,
    text: impl Fn(&CaseCost) -> String,
) -> Said {
    let costs = costs(ctx);
    let Some(most) = costs.iter().max_by_key(|cost| of(cost)) else {
        return Said::skip("no case was answered");
    };
    let percent = of(most).saturating_mul(100).checked_div(limit).unwrap_or(100);
    let told = format!("the most is {} ({percent} %), in case `{}`", text(most), most.case);
    if percent > 100 {
        return Said::fail(format!("{told}; set a larger limit in plugin.yaml, or do less"));
    }
    if percent > much {
        return Said::warn(format!(
            "{told}; a larger file or a busier machine will meet the limit: raise it, or do less"
        ));
    }
    Said::pass(told)
}

/// Those of the cases; where none was run, those of the questions that the checks start from.
fn costs(ctx: &Context<'_>) -> Vec<CaseCost> {
    if !ctx.costs.is_empty() {
        return ctx.costs.to_vec();
    }
    let ready = ctx.ready();
    let answers = ready.samples.iter().zip(&ready.answers).map(|(sample, answer)| CaseCost {
        case: sample.name.clone(),
        elapsed: answer.report.elapsed,
        memory_bytes: answer.memory_bytes,
        input_bytes: answer.input_bytes,
    });
    answers.collect()
}

/// The limit that stopped the call, if one did and is named; the error if the call ended in another way that no limit
/// explains.
fn named_limit(trial: &Trial) -> Result<Option<&PluginFailureKind>, String> {
    match trial.report.failure.as_ref().map(|failure| &failure.kind) {
        None | Some(PluginFailureKind::Reported { .. }) => Ok(None),
        Some(
            kind @ (PluginFailureKind::Timeout { .. }
            | PluginFailureKind::MemoryLimit { .. }
            | PluginFailureKind::OutputLimit { .. }
            | PluginFailureKind::InputLimit { .. }
            | PluginFailureKind::StackLimit),
        ) => Ok(Some(kind)),
        Some(kind) => Err(kind.to_string()),
    }
}

/// What the checked file may have so that reading every file once stays within `limit`.
fn room(sample: &Sample, limit: u64) -> usize {
    let data: usize = sample.subject.data().iter().map(|file| file.content.len()).sum();
    usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(data)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn millis(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1e3)
}
