//! One case through the Wasm host.

use haptic_model::ports::{Contract, FilterCall, Now, PluginFailureKind};
use haptic_plugins::{LoadErrorReason, LoadedPlugin};
use serde_json::Value;

use crate::{
    case::{Call, Case, CaseError, Document, Transcript, Work, expected::Expected, write_text},
    probe::{self, Probe},
    report::{CaseCost, Said},
    v1::{Request, Response, Subject},
};

/// A case that was run.
pub(crate) struct Ran {
    pub(crate) said: Said,
    /// `None` if the plugin gave no answer.
    pub(crate) cost: Option<CaseCost>,
}

/// What came out of one question of a case, or why it has no answer that a case could expect.
type Outcome = Result<Expected, String>;

/// What to do with an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expectations {
    Compare,
    Write,
}

// === impl Case ===

impl Case {
    /// Runs it; with [`Expectations::Write`] what comes out becomes what it expects. The error is one of writing.
    pub(crate) fn run(&self, probe: &Probe<'_>, expectations: Expectations) -> Result<Ran, CaseError> {
        let mut cost = Cost { case: &self.name, cost: None };
        let contract = match self.contract(&probe.contracts()) {
            Ok(contract) => contract,
            Err(why) => return Ok(Ran { said: Said::fail(why), cost: None }),
        };
        let mut verdict = Comparison { expectations, wrong: Vec::new(), right: 0 };
        let blessed = match &self.work {
            Work::Document { document, files } => {
                let mut document = document.clone();
                if contract == Contract::TemplateFilter {
                    calls(probe, &mut document, &mut verdict, &mut cost);
                } else {
                    let outcome = document
                        .subject(files, contract)
                        .and_then(|subject| validate(probe, &document.config, &subject, document.clock(), &mut cost));
                    verdict.hold(String::new(), &mut document.expect, outcome);
                }
                serde_json::to_string_pretty(&document).expect("what was read can be written") + "\n"
            }
            Work::Transcript(transcript) => {
                let mut transcript = transcript.clone();
                exchanges(probe, &mut transcript, contract, &mut verdict, &mut cost);
                transcript.to_text()
            }
        };
        if expectations == Expectations::Write && verdict.wrong.is_empty() {
            write_text(&self.path, &blessed)?;
        }
        Ok(Ran { said: verdict.said(), cost: cost.cost })
    }
}

/// Collects what differs.
struct Comparison {
    expectations: Expectations,
    wrong: Vec<String>,
    right: usize,
}

/// Collects what the calls of one case cost.
struct Cost<'a> {
    case: &'a str,
    cost: Option<CaseCost>,
}

fn validate(probe: &Probe<'_>, config: &Value, subject: &Subject, now: Now, cost: &mut Cost<'_>) -> Outcome {
    let plugin = match probe.load(config) {
        Ok(plugin) => plugin,
        Err(error) => {
            return match &error.reason {
                LoadErrorReason::Config { message } => Ok(Expected::config_refused(message.clone())),
                reason => Err(format!("the plugin does not load with this config: {reason}")),
            };
        }
    };
    let trial = probe::measure(&plugin, &subject.question(now));
    cost.add(trial.report.elapsed, trial.memory_bytes, trial.input_bytes);
    match (trial.report.failure.map(|failure| failure.kind), trial.raw) {
        (None, Some(raw)) => Ok(Expected::report(&raw)),
        (Some(PluginFailureKind::Reported { message }), _) => Ok(Expected::failed(message)),
        (Some(kind), _) => Err(format!("the plugin {kind}")),
        (None, None) => unreachable!("a call without a failure has a report"),
    }
}

fn calls(probe: &Probe<'_>, document: &mut Document, verdict: &mut Comparison, cost: &mut Cost<'_>) {
    let loaded = probe.load(&document.config);
    let mut filters = loaded.as_ref().ok().and_then(LoadedPlugin::direct_filters);
    for (index, call) in document.calls.iter_mut().enumerate() {
        let place = format!("call {} of `{}`: ", index + 1, call.filter);
        let outcome = match (&mut filters, &loaded) {
            (Some(filters), _) => {
                let call = call.json();
                let (answer, elapsed) = probe::call(filters, call.borrowed());
                cost.add(elapsed, filters.memory_bytes(), 0);
                Expected::filter(answer)
            }
            (None, Err(error)) => match &error.reason {
                // As the SDK's native tests say it.
                LoadErrorReason::Config { message } => {
                    Ok(Expected::failed(format!("it refuses its config: {message}")))
                }
                reason => Err(format!("the plugin does not load with this config: {reason}")),
            },
            (None, Ok(_)) => Err("the plugin offers no filters".to_owned()),
        };
        verdict.hold(place, &mut call.expect, outcome);
    }
}

fn exchanges(
    probe: &Probe<'_>,
    transcript: &mut Transcript,
    contract: Contract,
    verdict: &mut Comparison,
    cost: &mut Cost<'_>,
) {
    let count = transcript.exchanges.len();
    for (index, exchange) in transcript.exchanges.iter_mut().enumerate() {
        let place = if count == 1 { String::new() } else { format!("exchange {}: ", index + 1) };
        let body = exchange.request.to_string();
        let subject = Request::decode(body.as_bytes()).and_then(|request| request.subject(contract));
        let answered = match subject {
            Err(refusal) => Ok(Response::refused(refusal.to_string())),
            Ok(subject) => probe
                .load(&exchange.config)
                .map_err(|error| format!("the plugin does not load with this config: {}", error.reason))
                .map(|plugin| {
                    let trial = probe::measure(&plugin, &subject.question(Now(exchange.now)));
                    cost.add(trial.report.elapsed, trial.memory_bytes, trial.input_bytes);
                    Response::of_report(&trial.report)
                }),
        };
        let blessed = answered.as_ref().ok().cloned();
        let mut expected = exchange.response.clone().map(Expected::response);
        verdict.hold(place, &mut expected, answered.map(Expected::response));
        if verdict.expectations == Expectations::Write {
            exchange.response = blessed;
        }
    }
}

/// A call whose values are JSON text, as the contract wants them.
pub(crate) struct JsonCall {
    filter: String,
    value: String,
    positional: Vec<String>,
    named: Vec<(String, String)>,
}

// === impl Call ===

impl Call {
    /// A call without arguments.
    pub(crate) fn plain(filter: &str, value: Value) -> Self {
        Self { filter: filter.to_owned(), value, positional: Vec::new(), named: serde_json::Map::new(), expect: None }
    }

    pub(crate) fn json(&self) -> JsonCall {
        JsonCall {
            filter: self.filter.clone(),
            value: self.value.to_string(),
            positional: self.positional.iter().map(Value::to_string).collect(),
            named: self.named.iter().map(|(name, value)| (name.clone(), value.to_string())).collect(),
        }
    }
}

// === impl JsonCall ===

impl JsonCall {
    pub(crate) fn borrowed(&self) -> FilterCall<'_> {
        let Self { filter, value, positional, named } = self;
        FilterCall { filter, value, positional, named }
    }
}

// === impl Comparison ===

impl Comparison {
    fn hold(&mut self, place: String, expect: &mut Option<Expected>, outcome: Outcome) {
        let actual = match outcome {
            Ok(actual) => actual,
            Err(why) => return self.wrong.push(format!("{place}{why}")),
        };
        match (self.expectations, &expect) {
            (Expectations::Write, _) => {
                *expect = Some(actual);
                self.right += 1;
            }
            (Expectations::Compare, Some(expected)) if *expected == actual => self.right += 1,
            (Expectations::Compare, Some(expected)) => {
                let lines = expected.difference(&actual).join("\n");
                self.wrong.push(format!(
                    "{place}another answer than expected (- expected, + came); correct the plugin, or write the \
                     expectation anew with --bless:\n{lines}"
                ));
            }
            (Expectations::Compare, None) => {
                self.wrong
                    .push(format!("{place}nothing is expected yet; write what comes out with --bless, and read it"));
            }
        }
    }

    fn said(self) -> Said {
        if !self.wrong.is_empty() {
            return Said::fail(self.wrong.join("\n"));
        }
        let count = if self.right == 1 { "the answer".to_owned() } else { format!("all {} answers", self.right) };
        Said::pass(match self.expectations {
            Expectations::Compare => format!("{count} as expected"),
            Expectations::Write => format!("{count} written as the expectation; read the difference like code"),
        })
    }
}

// === impl Cost ===

impl Cost<'_> {
    /// A case of several questions costs as much as the dearest of them.
    fn add(&mut self, elapsed: std::time::Duration, memory_bytes: u64, input_bytes: u64) {
        let cost = self.cost.get_or_insert_with(|| CaseCost {
            case: self.case.to_owned(),
            elapsed: std::time::Duration::ZERO,
            memory_bytes: 0,
            input_bytes: 0,
        });
        cost.elapsed = cost.elapsed.max(elapsed);
        cost.memory_bytes = cost.memory_bytes.max(memory_bytes);
        cost.input_bytes = cost.input_bytes.max(input_bytes);
    }
}
