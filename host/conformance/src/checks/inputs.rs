//! Input that nobody promised to like: the answer is a report or the plugin's own error, never a trap, a limit or a
//! broken contract.

use std::collections::BTreeSet;

use haptic_model::{File, ports::PluginFailureKind};

use crate::{
    case::file,
    checks::{Context, first_of, mutate, problem},
    probe,
    report::Said,
    sample::Sample,
    v1::Subject,
};

/// Variants of one check over all cases, at full pace.
const MAX_VARIANTS: usize = 512;
const MAX_VARIANTS_QUICK: usize = 96;

pub(super) fn empty(ctx: &Context<'_>) -> Said {
    survive(ctx, |sample, _| {
        let nothing = |other: &File| Some(file(&other.path, &bytes::Bytes::new()));
        vec![
            ("with nothing in it".to_owned(), sample.subject.with_content(Vec::new())),
            ("with nothing in any file".to_owned(), sample.subject.with_content(Vec::new()).with_data(nothing)),
        ]
    })
}

pub(super) fn one_byte(ctx: &Context<'_>) -> Said {
    let step = ctx.pick(1, 16);
    survive(ctx, |sample, turn| {
        let bytes = bytes_of(turn, step);
        bytes.map(|byte| (format!("as the one byte 0x{byte:02x}"), sample.subject.with_content(vec![byte]))).collect()
    })
}

/// The bytes that are tried with one sample, at least `step` apart: no more than it may have, and with each sample
/// others.
fn bytes_of(turn: Turn, step: usize) -> impl Iterator<Item = u8> {
    let step = step.max(256_usize.div_ceil(turn.share));
    (0..=u8::MAX).skip(turn.index % step).step_by(step)
}

pub(super) fn not_utf8(ctx: &Context<'_>) -> Said {
    survive(ctx, |sample, _| changed(sample, mutate::not_utf8(sample.subject.content())))
}

pub(super) fn control_characters(ctx: &Context<'_>) -> Said {
    survive(ctx, |sample, _| changed(sample, mutate::control_characters(sample.subject.content())))
}

pub(super) fn long_line(ctx: &Context<'_>) -> Said {
    let samples = ctx.pick(4, 1);
    survive_some(ctx, samples, |sample, _| changed(sample, mutate::long_lines(sample.subject.content())))
}

pub(super) fn truncated(ctx: &Context<'_>) -> Said {
    survive(ctx, |sample, turn| changed(sample, mutate::truncated(sample.subject.content(), turn.share)))
}

pub(super) fn bit_flips(ctx: &Context<'_>) -> Said {
    survive(ctx, |sample, turn| changed(sample, mutate::bit_flips(sample.subject.content(), turn.share)))
}

pub(super) fn line_ends(ctx: &Context<'_>) -> Said {
    survive(ctx, |sample, _| changed(sample, mutate::line_ends(sample.subject.content())))
}

pub(super) fn duplicated(ctx: &Context<'_>) -> Said {
    survive(ctx, |sample, _| changed(sample, mutate::duplicated(sample.subject.content())))
}

pub(super) fn data_files_absent(ctx: &Context<'_>) -> Said {
    if ctx.ready().samples.iter().all(|sample| sample.subject.data().is_empty()) {
        return Said::skip("no case has data files");
    }
    survive(ctx, |sample, _| {
        let data: Vec<String> = sample.subject.data().iter().map(|file| file.path.to_string()).collect();
        if data.is_empty() {
            return Vec::new();
        }
        let mut variants = vec![("without any of its data files".to_owned(), sample.subject.with_data(|_| None))];
        for path in &data {
            let without = sample.subject.with_data(|file| (file.path.as_str() != path.as_str()).then(|| file.clone()));
            variants.push((format!("without `{path}`"), without));
        }
        variants
    })
}

fn changed(sample: &Sample, variants: Vec<mutate::Variant>) -> Vec<(String, Subject)> {
    variants.into_iter().map(|(what, content)| (what, sample.subject.with_content(content))).collect()
}

/// One of the samples that share the variants of a check.
#[derive(Clone, Copy)]
struct Turn {
    /// Counts from 0.
    index: usize,
    /// How many variants may be made of it; at least 4.
    share: usize,
}

/// Asks variants of every sample.
fn survive(ctx: &Context<'_>, variants: impl Fn(&Sample, Turn) -> Vec<(String, Subject)>) -> Said {
    survive_some(ctx, usize::MAX, variants)
}

fn survive_some(
    ctx: &Context<'_>,
    max_samples: usize,
    variants: impl Fn(&Sample, Turn) -> Vec<(String, Subject)>,
) -> Said {
    let samples: Vec<&Sample> = distinct(&ctx.ready().samples).into_iter().take(max_samples).collect();
    let share = share(ctx.pick(MAX_VARIANTS, MAX_VARIANTS_QUICK), samples.len());
    let (mut asked, mut own_errors) = (0, 0);
    let mut problems = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        for (what, subject) in variants(sample, Turn { index, share }) {
            let trial = probe::ask(&sample.plugin, &subject.question(sample.now));
            asked += 1;
            if let Some(problem) = problem(&trial) {
                problems.push(format!("case `{}` {what}: the plugin {problem}", sample.name));
            } else if let Some(failure) = &trial.report.failure {
                own_errors += usize::from(matches!(failure.kind, PluginFailureKind::Reported { .. }));
            }
        }
    }
    if !problems.is_empty() {
        return Said::fail(format!(
            "{}; report what is wrong with the file as a finding, or say in an error why there is no answer",
            first_of(&problems)
        ));
    }
    let errors = if own_errors == 0 { String::new() } else { format!(", {own_errors} with an error of its own") };
    Said::pass(format!("{asked} inputs made from {} cases, all answered{errors}", samples.len()))
}

fn share(max_variants: usize, samples: usize) -> usize {
    max_variants.div_ceil(samples.max(1)).clamp(4, 256)
}

/// Cases often differ only in what they expect of another config; the same content is not mutated twice for one config.
fn distinct(samples: &[Sample]) -> Vec<&Sample> {
    let mut seen = BTreeSet::new();
    samples.iter().filter(|sample| seen.insert((sample.config.to_string(), sample.subject.content().clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_together_have_every_byte_and_none_has_more_than_its_share() {
        for samples in 1..600 {
            let share = share(MAX_VARIANTS, samples);
            let mut tried = BTreeSet::new();
            for index in 0..samples {
                let bytes: Vec<u8> = bytes_of(Turn { index, share }, 1).collect();
                assert!(!bytes.is_empty() && bytes.len() <= share, "{samples} samples: {} bytes", bytes.len());
                tried.extend(bytes);
            }
            assert_eq!(tried.len(), 256, "{samples} samples");
        }
    }
}
