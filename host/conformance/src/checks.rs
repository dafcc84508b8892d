//! The contract's own checks, each with a name.
//!
//! A check is a function from a [`Context`] to a sentence. The table below is the list of them; `docs/testing.md` says
//! what each means, and a test holds the two together.

mod answers;
mod config;
mod filters;
mod inputs;
mod limits;
mod module;
mod mutate;

use std::sync::Arc;

use haptic_model::ports::{Contract, PluginFailureKind};
use haptic_plugins::{LoadedPlugin, Trial};

pub(crate) use mutate::filled;

use crate::{
    Pace,
    probe::{self, Base, Probe},
    report::{CaseCost, Said},
    sample::{self, FilterSample, Sample},
    v1::Subject,
};

/// A named check.
pub struct Check {
    pub name: &'static str,
    /// What must hold.
    pub claim: &'static str,
    applies: Applies,
    run: fn(&Context<'_>) -> Said,
}

/// Which plugins a check is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Applies {
    /// Also to a module that does not load.
    Module,
    Plugin,
    Validator,
    Filters,
}

/// What checks look at.
pub(crate) struct Context<'p> {
    probe: &'p Probe<'p>,
    pace: Pace,
    /// What the author's cases cost.
    costs: &'p [CaseCost],
    loaded: Result<Ready, String>,
}

/// A plugin that loads, with the questions to start from.
struct Ready {
    /// With the project's own config, or that of the first case which it takes.
    base: Arc<LoadedPlugin>,
    samples: Vec<Sample>,
    /// The answers to the samples.
    answers: Vec<Trial>,
    /// Questions near to the samples, with their answers.
    near: Vec<(String, Subject, Trial)>,
    filters: Vec<FilterSample>,
}

/// Every check, in the order in which they run.
pub const CHECKS: &[Check] = &[
    Check::new("loads", "The component compiles, links, starts and takes its config.", Applies::Module, module::loads),
    Check::new("imports", "It imports only what a plugin may.", Applies::Module, module::imports),
    Check::new(
        "generation",
        "It is built for a generation of `haptic:plugin` that is served.",
        Applies::Module,
        module::generation,
    ),
    Check::new("cases", "The author has cases for every contract.", Applies::Plugin, module::cases),
    Check::new(
        "config-unknown-field",
        "A field that it does not know is refused.",
        Applies::Plugin,
        config::unknown_field,
    ),
    Check::new(
        "config-wrong-types",
        "Values of another type are refused and never trap.",
        Applies::Plugin,
        config::wrong_types,
    ),
    Check::new("verdict", "The verdict follows from the lists.", Applies::Validator, answers::verdict),
    Check::new("positions", "Every finding is inside a file of the request.", Applies::Validator, answers::positions),
    Check::new("messages", "Every message says something, in printable text.", Applies::Validator, answers::messages),
    Check::new(
        "repeat",
        "The same request gives the same report, in this host and in another.",
        Applies::Validator,
        answers::repeat,
    ),
    Check::new(
        "order",
        "What was asked before, or of another config, changes nothing.",
        Applies::Validator,
        answers::order,
    ),
    Check::new(
        "parallel",
        "Calls beside each other answer as one after the other.",
        Applies::Validator,
        answers::parallel,
    ),
    Check::new(
        "clock",
        "The `now` of the request is the only clock, and any `now` is answered.",
        Applies::Validator,
        answers::clock,
    ),
    Check::new("empty-input", "An empty file is answered.", Applies::Validator, inputs::empty),
    Check::new("one-byte", "A file of one byte is answered.", Applies::Validator, inputs::one_byte),
    Check::new("not-utf8", "A file that is not UTF-8 is answered.", Applies::Validator, inputs::not_utf8),
    Check::new(
        "control-characters",
        "NUL and control characters are answered.",
        Applies::Validator,
        inputs::control_characters,
    ),
    Check::new("long-line", "A very long line is answered.", Applies::Validator, inputs::long_line),
    Check::new("truncated", "A file that ends early is answered.", Applies::Validator, inputs::truncated),
    Check::new("bit-flips", "A file with flipped bits is answered.", Applies::Validator, inputs::bit_flips),
    Check::new("line-ends", "Other line ends are answered.", Applies::Validator, inputs::line_ends),
    Check::new("duplicated", "Doubled content is answered.", Applies::Validator, inputs::duplicated),
    Check::new(
        "data-files-absent",
        "A request without its data files is answered.",
        Applies::Validator,
        inputs::data_files_absent,
    ),
    Check::new(
        "huge-input",
        "Input as large as the limit is answered, or stopped by a limit that is named.",
        Applies::Validator,
        limits::huge_input,
    ),
    Check::new(
        "over-input-limit",
        "Input over the limit is never answered as if it had been read.",
        Applies::Validator,
        limits::over_input_limit,
    ),
    Check::new(
        "cancellation",
        "A call that passes its deadline is stopped, and the next call is right.",
        Applies::Validator,
        limits::cancellation,
    ),
    Check::new(
        "filter-declarations",
        "Filters have names that templates can call, and say what they do.",
        Applies::Filters,
        filters::declarations,
    ),
    Check::new(
        "filter-purity",
        "A filter's answer follows from its arguments alone.",
        Applies::Filters,
        filters::purity,
    ),
    Check::new(
        "filter-unknown-name",
        "A name that it does not declare is refused.",
        Applies::Filters,
        filters::unknown_name,
    ),
    Check::new(
        "filter-arguments",
        "Arguments of wrong type and number are refused, and never fail the render.",
        Applies::Filters,
        filters::arguments,
    ),
    Check::new("filter-not-json", "An argument that is no JSON never traps.", Applies::Filters, filters::not_json),
    Check::new("filter-deep-json", "Deep and long arguments never trap.", Applies::Filters, filters::deep_json),
    Check::new("time", "Every case is answered well within the timeout.", Applies::Plugin, limits::time),
    Check::new("memory", "Every case is answered well within the memory limit.", Applies::Plugin, limits::memory),
];

// === impl Check ===

impl Check {
    const fn new(name: &'static str, claim: &'static str, applies: Applies, run: fn(&Context<'_>) -> Said) -> Self {
        Self { name, claim, applies, run }
    }

    pub(crate) fn run(&self, ctx: &Context<'_>) -> Said {
        let contracts = ctx.probe.contracts();
        let filters = contracts.contains(&Contract::TemplateFilter);
        let validator = contracts.iter().any(|contract| *contract != Contract::TemplateFilter);
        match (self.applies, &ctx.loaded) {
            (Applies::Module, _) => (self.run)(ctx),
            (_, Err(_)) => Said::skip("the plugin does not load"),
            (Applies::Validator, _) if !validator => Said::skip("it exports no validator"),
            (Applies::Filters, _) if !filters => Said::skip("it exports no filters"),
            _ => (self.run)(ctx),
        }
    }
}

// === impl Context ===

impl<'p> Context<'p> {
    pub(crate) fn new(probe: &'p Probe<'p>, pace: Pace, costs: &'p [CaseCost]) -> Self {
        let loaded = probe.base().map(|base| Ready::new(probe, &base)).map_err(|error| error.reason.to_string());
        Self { probe, pace, costs, loaded }
    }

    /// For checks that run only on a plugin that loads.
    fn ready(&self) -> &Ready {
        self.loaded.as_ref().expect("the check applies to plugins that load")
    }

    /// `many` at full pace, `few` at a quick one.
    fn pick(&self, many: usize, few: usize) -> usize {
        if self.pace == Pace::Full { many } else { few }
    }
}

// === impl Ready ===

impl Ready {
    fn new(probe: &Probe<'_>, base: &Base<'_>) -> Self {
        let samples = sample::samples(probe, base);
        let filters = sample::filter_samples(probe, base);
        let answers = samples.iter().map(|sample| probe::ask(&sample.plugin, &sample.question())).collect();
        let near = samples
            .iter()
            .flat_map(|sample| {
                mutate::near(sample.subject.content()).into_iter().map(|(what, content)| {
                    let subject = sample.subject.with_content(content);
                    let trial = probe::ask(&sample.plugin, &subject.question(sample.now));
                    (format!("case `{}` {what}", sample.name), subject, trial)
                })
            })
            .collect();
        Self { base: Arc::clone(&base.plugin), samples, answers, near, filters }
    }
}

/// What is wrong with an answer to input that nobody promised to like; `None` = it is a report, or the plugin's own
/// error.
fn problem(trial: &Trial) -> Option<String> {
    match &trial.report.failure.as_ref()?.kind {
        PluginFailureKind::Reported { .. } => None,
        kind => Some(kind.to_string()),
    }
}

/// What two answers to one request must share.
fn fingerprint(trial: &Trial) -> String {
    match (&trial.raw, trial.report.failure.as_ref().map(|failure| &failure.kind)) {
        // How much a call had read when it was stopped depends on when that was.
        (_, Some(PluginFailureKind::Timeout { .. })) => "timeout".to_owned(),
        (raw, failure) => format!("{raw:?} {failure:?}"),
    }
}

/// The first of some problems, and how many more there are.
fn first_of(problems: &[String]) -> String {
    match problems {
        [] => String::new(),
        [only] => only.clone(),
        [first, rest @ ..] => format!("{first} (and {} more like it)", rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::CHECKS;

    #[test]
    fn names_are_unique_and_claims_are_sentences() {
        let names: BTreeSet<_> = CHECKS.iter().map(|check| check.name).collect();
        assert_eq!(names.len(), CHECKS.len());
        for check in CHECKS {
            assert!(
                check.claim.ends_with('.')
                    && check.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b == b'8')
            );
        }
    }

    #[test]
    fn the_documentation_names_every_check_and_no_other() {
        let text = include_str!("../docs/testing.md");
        let documented: BTreeSet<_> =
            text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |").map(|(name, _)| name)).collect();
        let names: BTreeSet<_> = CHECKS.iter().map(|check| check.name).collect();
        assert_eq!(documented, names);
        for check in CHECKS {
            assert!(text.contains(check.claim), "docs/testing.md does not say of `{}`: {}", check.name, check.claim);
        }
    }
}
