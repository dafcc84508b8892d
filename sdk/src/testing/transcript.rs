//! Recorded exchanges of protocol v1, answered natively.

use serde::Deserialize;
use serde_json::Value;

use super::{Case, Expected, Outcome, TestError, file};
use crate::{File, Finding, Report, Verdict};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exchange {
    #[serde(default)]
    config: Value,
    #[serde(default)]
    now: u64,
    request: Request,
    response: Option<Response>,
}

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    files: Vec<RequestFile>,
}

#[derive(Deserialize)]
struct RequestFile {
    path: String,
    content: String,
    /// Set on data files.
    kind: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Response {
    #[serde(rename = "protocol_version")]
    _protocol_version: u64,
    result: Verdict,
    warnings: Vec<Finding>,
    errors: Vec<Finding>,
}

/// What is wrong with a transcript; `None` = nothing. Exchanges that the protocol itself refuses, or in which the plugin
/// failed, are about the server and are left to it: their errors name no file.
pub(super) fn check(place: &str, text: &str, run: &impl Fn(&Case, Vec<File>) -> Outcome) -> Option<String> {
    let exchanges: Vec<Exchange> = if text.trim_start().starts_with('[') {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("reading {place}: {error}"))
    } else {
        vec![serde_json::from_str(text).unwrap_or_else(|error| panic!("reading {place}: {error}"))]
    };
    let mut wrong = Vec::new();
    for (index, exchange) in exchanges.into_iter().enumerate() {
        let number = index + 1;
        let Some(Response { result, warnings, errors, .. }) = exchange.response else {
            wrong.push(format!("{place}: exchange {number} has no response; `haptic plugin test --bless` writes it"));
            continue;
        };
        if errors.iter().any(|error| error.path.is_empty()) {
            continue;
        }
        let to_check = |file: &&RequestFile| file.kind.is_none();
        let config = exchange.request.files.iter().filter(to_check).find(|file| file.path == "haproxy.cfg");
        let Some(checked) = config.or_else(|| exchange.request.files.iter().find(to_check)) else {
            wrong.push(format!("{place}: exchange {number} has no file to check"));
            continue;
        };
        let case = Case::of_exchange(exchange.config, checked.path.clone(), exchange.now);
        let mut files: Vec<File> =
            exchange.request.files.into_iter().map(|RequestFile { path, content, .. }| file(&path, content)).collect();
        files.sort_by(|a, b| a.path().cmp(b.path()));
        let expected = Expected::Report { result, warnings, errors };
        match run(&case, files) {
            Outcome::Report(outcome) => match outcome.map(expected_of) {
                Ok(actual) if actual == expected => {}
                actual => wrong.push(format!(
                    "{place}: exchange {number}\n  expected {expected:?}\n  but got  {}",
                    actual.map_or_else(|error: TestError| error.to_string(), |actual| format!("{actual:?}"))
                )),
            },
            Outcome::Calls(_) => wrong.push(format!("{place}: a transcript is for validators, not for filters")),
        }
    }
    (!wrong.is_empty()).then(|| wrong.join("\n"))
}

fn expected_of(report: Report) -> Expected {
    let result = report.verdict();
    let (warnings, errors) = report.into_findings();
    Expected::Report { result, warnings, errors }
}
