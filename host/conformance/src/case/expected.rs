//! What a case says must come out, and how that differs from what did.

use haptic_model::ports::{Diagnostic, FilterError, PluginFailureKind};
use haptic_plugins::RawReport;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::v1::{Response, Verdict};

/// One of: a report, a refused config, a filter's answer, its refusal, the plugin's own failure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expected {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Verdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<Diagnostic>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    errors: Option<Vec<Diagnostic>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    config_refused: Option<String>,
    /// `null` is an answer.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    answer: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

/// Where an expectation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Case,
    Call,
}

// === impl Expected ===

impl Expected {
    pub(super) fn report(report: &RawReport) -> Self {
        let result = match report.verdict {
            haptic_plugins::Verdict::Valid => Verdict::Valid,
            haptic_plugins::Verdict::Warning => Verdict::Warning,
            haptic_plugins::Verdict::Error => Verdict::Error,
        };
        let (warnings, errors) = (Some(report.warnings.clone()), Some(report.errors.clone()));
        Self { result: Some(result), warnings, errors, ..Self::default() }
    }

    pub(super) fn response(response: Response) -> Self {
        let Response { result, warnings, errors, .. } = response;
        Self { result: Some(result), warnings: Some(warnings), errors: Some(errors), ..Self::default() }
    }

    pub(super) fn config_refused(message: String) -> Self {
        Self { config_refused: Some(message), ..Self::default() }
    }

    pub(super) fn failed(message: String) -> Self {
        Self { failed: Some(message), ..Self::default() }
    }

    /// A filter's outcome; a failure that no case can expect is the error.
    pub(super) fn filter(outcome: Result<String, FilterError>) -> Result<Self, String> {
        match outcome {
            Ok(text) => {
                let answer = serde_json::from_str(&text).map_err(|error| format!("its answer is not JSON: {error}"))?;
                Ok(Self { answer: Some(answer), ..Self::default() })
            }
            Err(FilterError::Refused { message, .. }) => Ok(Self { refused: Some(message), ..Self::default() }),
            Err(FilterError::Failed(failure)) => match failure.kind {
                PluginFailureKind::Reported { message } => Ok(Self::failed(message)),
                kind => Err(format!("the plugin {kind}")),
            },
        }
    }

    /// That it says one thing, completely.
    pub(super) fn check(&self, place: Place) -> Result<(), String> {
        let report = [self.result.is_some(), self.warnings.is_some(), self.errors.is_some()];
        if report.contains(&true) && report.contains(&false) {
            return Err("`expect` of a report needs `result`, `warnings` and `errors`".to_owned());
        }
        let said = [
            (report[0], Place::Case),
            (self.config_refused.is_some(), Place::Case),
            (self.failed.is_some(), place),
            (self.answer.is_some(), Place::Call),
            (self.refused.is_some(), Place::Call),
        ];
        let said: Vec<Place> = said.into_iter().filter(|(said, _)| *said).map(|(_, place)| place).collect();
        match (said.as_slice(), place) {
            ([only], _) if *only == place => Ok(()),
            (_, Place::Case) => Err("`expect` must hold one of: a report, `config_refused`, `failed`".to_owned()),
            (_, Place::Call) => Err("`expect` of a call must hold one of: `answer`, `refused`, `failed`".to_owned()),
        }
    }

    /// What differs, a line each: `-` was expected and did not come, `+` came and was not expected.
    pub(super) fn difference(&self, actual: &Self) -> Vec<String> {
        let (expected, actual) = (self.lines(), actual.lines());
        let missing = expected.iter().filter(|line| !actual.contains(line)).map(|line| format!("- {line}"));
        let surplus = actual.iter().filter(|line| !expected.contains(line)).map(|line| format!("+ {line}"));
        let mut lines: Vec<String> = missing.chain(surplus).collect();
        if lines.is_empty() {
            lines.push("the findings are the expected ones, but their order or number is not:".to_owned());
            lines.extend(expected.iter().map(|line| format!("- {line}")));
            lines.extend(actual.iter().map(|line| format!("+ {line}")));
        }
        lines
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(result) = self.result {
            lines.push(format!("result {}", text(&result)));
        }
        for (kind, findings) in [("warning", &self.warnings), ("error", &self.errors)] {
            for Diagnostic { path, line, column, message } in findings.iter().flatten() {
                lines.push(format!("{kind} {path}:{line}:{column}: {message}"));
            }
        }
        lines.extend(self.config_refused.iter().map(|message| format!("config refused: {message}")));
        lines.extend(self.answer.iter().map(|answer| format!("answer {answer}")));
        lines.extend(self.refused.iter().map(|message| format!("refused: {message}")));
        lines.extend(self.failed.iter().map(|message| format!("failed: {message}")));
        lines
    }
}

fn text(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        other => format!("{other:?}"),
    }
}

/// A field that is there, `null` included.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn expected(json: &str) -> Expected {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn an_expectation_says_one_thing_completely() {
        assert_eq!(expected(r#"{"result":"valid","warnings":[],"errors":[]}"#).check(Place::Case), Ok(()));
        assert_eq!(expected(r#"{"answer":null}"#).check(Place::Call), Ok(()));
        assert_eq!(expected(r#"{"failed":"x"}"#).check(Place::Call), Ok(()));
        assert_eq!(expected(r#"{"failed":"x"}"#).check(Place::Case), Ok(()));
        for (json, place) in [
            (r#"{"result":"valid"}"#, Place::Case),
            (r#"{"answer":1}"#, Place::Case),
            (r#"{"config_refused":"x","failed":"y"}"#, Place::Case),
            (r#"{"answer":1,"refused":"y"}"#, Place::Call),
            (r#"{"config_refused":"x"}"#, Place::Call),
            ("{}", Place::Call),
        ] {
            assert!(expected(json).check(place).is_err(), "{json}");
        }
    }

    #[test]
    fn a_difference_is_told_by_the_line() {
        let finding = r#"{"path":"a","line":1,"column":2,"message":"m"}"#;
        let expect = expected(&format!(r#"{{"result":"error","warnings":[],"errors":[{finding}]}}"#));
        let actual = expected(r#"{"result":"valid","warnings":[],"errors":[]}"#);
        assert_eq!(expect.difference(&actual), ["- result error", "- error a:1:2: m", "+ result valid"]);
        let twice = expected(&format!(r#"{{"result":"error","warnings":[],"errors":[{finding},{finding}]}}"#));
        assert!(expect.difference(&twice)[0].contains("order or number"));
    }
}
