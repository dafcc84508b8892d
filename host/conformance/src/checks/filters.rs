//! Filters: pure, declared, and polite to what templates may give them.

use haptic_model::ports::{FilterCall, FilterError, PluginFailureKind};
use haptic_plugins::DirectFilters;
use serde_json::json;

use crate::{
    case::Call,
    checks::{Context, first_of},
    probe,
    report::Said,
    sample::FilterSample,
};

/// A name that no plugin declares.
const UNKNOWN: &str = "no_such_filter_in_any_plugin";

/// Longest name that a filter may have.
const MAX_NAME_BYTES: usize = 64;

/// Nested deeper than any template's values, and deeper than parsers recurse.
const DEPTH: usize = 2000;

/// A long argument, whose answer is still within the output limit.
const LONG_BYTES: usize = 256 << 10;

/// How a call ended, for comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ended {
    Answered(String),
    Refused(String),
    /// The plugin's own words that it cannot answer.
    Failed(String),
    /// A trap, a limit, a broken contract.
    Broken(String),
}

pub(super) fn declarations(ctx: &Context<'_>) -> Said {
    let filters = ctx.ready().base.filters();
    if filters.is_empty() {
        return Said::fail("it exports template-filters but declares none; declare one, or leave the export out");
    }
    let mut problems = Vec::new();
    for (index, filter) in filters.iter().enumerate() {
        let name = &filter.name;
        let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !plain || !name.starts_with(|first: char| first.is_ascii_lowercase()) || name.len() > MAX_NAME_BYTES {
            problems.push(format!("`{name}` is not lower-case letters, digits and `_`, starting with a letter"));
        }
        if filters[..index].iter().any(|other| other.name == *name) {
            problems.push(format!("`{name}` is declared twice"));
        }
        if filter.doc.trim().is_empty() {
            problems.push(format!("`{name}` says nothing in `doc`; say what it does, its arguments and its result"));
        }
    }
    let names: Vec<&str> = filters.iter().map(|filter| filter.name.as_str()).collect();
    told(&problems, "", || names.join(", "))
}

pub(super) fn purity(ctx: &Context<'_>) -> Said {
    let samples = &ctx.ready().filters;
    let mut problems = Vec::new();
    let first: Vec<Ended> = samples.iter().map(|sample| alone(sample, sample.call.json().borrowed())).collect();
    let mut hold = |index: usize, ended: Ended, how: &str| {
        if let Ended::Broken(problem) = &ended {
            problems.push(format!("{}: the plugin {problem}", place(&samples[index])));
        } else if ended != first[index] {
            problems.push(format!(
                "{} {how} gave another answer:\n- {:?}\n+ {ended:?}",
                place(&samples[index]),
                first[index]
            ));
        }
    };
    for (index, ended) in first.iter().enumerate() {
        hold(index, ended.clone(), "");
    }
    for (index, sample) in samples.iter().enumerate() {
        // One instance: the same call twice, then after a call of every other sample of the same config.
        let Some(mut filters) = sample.plugin.direct_filters() else { continue };
        let call = sample.call.json();
        call_once(&mut filters, call.borrowed());
        hold(index, call_once(&mut filters, call.borrowed()), "called twice in one instance");
        let others = samples.iter().rev().filter(|other| other.config == sample.config);
        for other in others.take(ctx.pick(8, 2)) {
            call_once(&mut filters, other.call.json().borrowed());
        }
        call_once(&mut filters, Call::plain(&sample.call.filter, json!([0, "noise"])).json().borrowed());
        hold(index, call_once(&mut filters, call.borrowed()), "called after other calls");
        hold(index, alone(sample, call.borrowed()), "called in another instance");
    }
    if let Some(sample) = samples.first() {
        match ctx.probe.load_elsewhere(&sample.config).map(|plugin| plugin.direct_filters()) {
            Ok(Some(mut filters)) => {
                for (index, other) in samples.iter().enumerate().filter(|(_, other)| other.config == sample.config) {
                    hold(index, call_once(&mut filters, other.call.json().borrowed()), "called in another host");
                }
            }
            Ok(None) => {}
            Err(error) => problems.push(format!("another host does not load it: {error}")),
        }
    }
    told(
        &problems,
        "; haptic remembers answers, so keep no state between calls and use nothing but the arguments",
        || format!("{} calls, each repeated in one instance, in others and in another host", samples.len()),
    )
}

pub(super) fn unknown_name(ctx: &Context<'_>) -> Said {
    let base = &ctx.ready().base;
    let Some(mut filters) = base.direct_filters() else { return Said::skip("it exports no filters") };
    for value in [json!("10.0.0.1"), json!(null)] {
        match call_once(&mut filters, Call::plain(UNKNOWN, value).json().borrowed()) {
            Ended::Answered(answer) => {
                return Said::fail(format!(
                    "`{UNKNOWN}` was answered with {answer}; answer `failed` to names that are not declared"
                ));
            }
            Ended::Broken(problem) => {
                return Said::fail(format!(
                    "`{UNKNOWN}`: the plugin {problem}; answer `failed` to names that are not declared"
                ));
            }
            Ended::Refused(_) | Ended::Failed(_) => {}
        }
    }
    Said::pass("refused")
}

pub(super) fn arguments(ctx: &Context<'_>) -> Said {
    let mut problems = Vec::new();
    let mut lenient = Vec::new();
    let (mut refused, mut answered) = (0, 0);
    for sample in one_of_each(&ctx.ready().filters) {
        let accepts = matches!(alone(sample, sample.call.json().borrowed()), Ended::Answered(_));
        for (what, surplus, call) in wrong_calls(&sample.call) {
            let say = |problem: &str| format!("`{}` with {what}: the plugin {problem}", call.filter);
            match alone(sample, call.json().borrowed()) {
                Ended::Answered(_) if surplus && accepts => {
                    lenient.push(format!("`{}` answers as if nothing were wrong with {what}", call.filter));
                }
                Ended::Answered(_) => answered += 1,
                Ended::Refused(message) if message.trim().is_empty() => problems.push(say("refuses without a word")),
                Ended::Refused(_) => refused += 1,
                Ended::Failed(message) => problems.push(say(&format!("fails the whole render: {message}"))),
                Ended::Broken(problem) => problems.push(say(&problem)),
            }
        }
    }
    if problems.is_empty() && !lenient.is_empty() {
        return Said::warn(format!(
            "{}; refuse arguments that have no meaning, or a typing error will go unseen",
            first_of(&lenient)
        ));
    }
    told(
        &problems,
        "; answer `refused` and say what would be right: then only what was being rendered is left out",
        || format!("{refused} wrong calls refused, {answered} answered"),
    )
}

pub(super) fn not_json(ctx: &Context<'_>) -> Said {
    let mut problems = Vec::new();
    for sample in one_of_each(&ctx.ready().filters) {
        let call = sample.call.json().borrowed().filter.to_owned();
        let (value, text) = (sample.call.value.to_string(), "{no json".to_owned());
        let positional = [text.clone()];
        let named = [("name".to_owned(), text.clone())];
        for (what, call) in [
            ("value", FilterCall { filter: &call, value: &text, positional: &[], named: &[] }),
            ("value that is empty", FilterCall { filter: &call, value: "", positional: &[], named: &[] }),
            ("positional argument", FilterCall { filter: &call, value: &value, positional: &positional, named: &[] }),
            ("named argument", FilterCall { filter: &call, value: &value, positional: &[], named: &named }),
        ] {
            if let Ended::Broken(problem) = alone(sample, call) {
                problems.push(format!("`{}` with a {what} that is no JSON: the plugin {problem}", call.filter));
            }
        }
    }
    told(&problems, "; answer `failed` or `refused`", || "never trapped".to_owned())
}

pub(super) fn deep_json(ctx: &Context<'_>) -> Said {
    let nested = |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(DEPTH), close.repeat(DEPTH));
    let values = [
        ("a list in a list, and so on", nested("[", "1", "]")),
        ("an object in an object, and so on", nested("{\"a\":", "1", "}")),
        ("a text of 256 KiB", format!("\"{}\"", "x".repeat(LONG_BYTES))),
        ("a list of 100,000 numbers", format!("[{}1]", "1,".repeat(99_999))),
        ("a number of 10,000 digits", "9".repeat(10_000)),
    ];
    let mut problems = Vec::new();
    for sample in one_of_each(&ctx.ready().filters) {
        for (what, value) in &values {
            let call = FilterCall { filter: &sample.call.filter, value, positional: &[], named: &[] };
            if let Ended::Broken(problem) = alone(sample, call) {
                problems.push(format!("`{}` with {what}: the plugin {problem}", call.filter));
            }
        }
    }
    told(&problems, "; refuse what is too deep or too long", || "never trapped".to_owned())
}

/// Calls that mean nothing: what is wrong, and whether the value is right and only arguments are too many.
fn wrong_calls(good: &Call) -> Vec<(String, bool, Call)> {
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e308),
        json!(u64::MAX),
        json!(""),
        json!("\u{0}\u{1b}[31m\u{feff}"),
        json!("ü"),
        json!([]),
        json!([[null], {}, 1, "a"]),
        json!({}),
        json!({ "a": { "b": null } }),
    ];
    let mut calls = Vec::new();
    let mut add = |what: String, surplus, change: &dyn Fn(&mut Call)| {
        let mut call = good.clone();
        change(&mut call);
        calls.push((what, surplus, call));
    };
    for value in &values {
        add(format!("the value {value}"), false, &|call| call.value = value.clone());
        add(format!("the value {value} and no arguments"), false, &|call| {
            *call = Call::plain(&good.filter, value.clone());
        });
        add(format!("the argument {value}"), false, &|call| {
            *call = Call::plain(&good.filter, good.value.clone());
            call.positional.push(value.clone());
        });
        for name in good.named.keys() {
            add(format!("{name}={value}"), false, &|call| {
                call.named.insert(name.clone(), value.clone());
            });
        }
    }
    add("nine arguments more".to_owned(), true, &|call| call.positional.extend(vec![json!(1); 9]));
    add("an argument `no_such_argument`".to_owned(), true, &|call| {
        call.named.insert("no_such_argument".to_owned(), json!(1));
    });
    calls
}

/// The first sample of each filter that stands for it.
fn one_of_each(samples: &[FilterSample]) -> Vec<&FilterSample> {
    let mut chosen: Vec<&FilterSample> = Vec::new();
    for sample in samples {
        match chosen.iter_mut().find(|other| other.call.filter == sample.call.filter) {
            // With more arguments there is more to get wrong.
            Some(other) if arguments_of(&other.call) < arguments_of(&sample.call) => *other = sample,
            Some(_) => {}
            None => chosen.push(sample),
        }
    }
    // A case may call what is not declared, to show that it is refused.
    chosen.retain(|sample| sample.plugin.filters().iter().any(|filter| filter.name == sample.call.filter));
    chosen
}

fn arguments_of(call: &Call) -> usize {
    call.positional.len() + call.named.len()
}

fn place(sample: &FilterSample) -> String {
    format!("case `{}`: `{}` of {}", sample.name, sample.call.filter, sample.call.value)
}

/// In an instance of its own.
fn alone(sample: &FilterSample, call: FilterCall<'_>) -> Ended {
    match sample.plugin.direct_filters() {
        Some(mut filters) => call_once(&mut filters, call),
        None => Ended::Broken("offers no filters".to_owned()),
    }
}

fn call_once(filters: &mut DirectFilters, call: FilterCall<'_>) -> Ended {
    match probe::call(filters, call).0 {
        Ok(answer) => Ended::Answered(answer),
        Err(FilterError::Refused { message, .. }) => Ended::Refused(message),
        Err(FilterError::Failed(failure)) => match failure.kind {
            PluginFailureKind::Reported { message } => Ended::Failed(message),
            kind => Ended::Broken(kind.to_string()),
        },
    }
}

fn told(problems: &[String], next: &str, fine: impl FnOnce() -> String) -> Said {
    match problems {
        [] => Said::pass(fine()),
        problems => Said::fail(format!("{}{next}", first_of(problems))),
    }
}
