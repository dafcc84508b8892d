//! Recorded exchanges of protocol v1, to be answered by the Wasm host as `haptic plugin serve` would.

use std::path::Path;

use haptic_model::{CONFIG_PATH, ports::Diagnostic};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::Value;

use crate::{
    case::{CaseError, read_text},
    v1::{Response, Verdict},
};

/// A `transcript.json`: one exchange, or a list of them.
#[derive(Clone, Debug)]
pub(crate) struct Transcript {
    pub(crate) exchanges: Vec<Exchange>,
    /// Written as a list, and to be written back as one.
    many: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Exchange {
    /// The protocol has no place for a config: the plugin had it before.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) config: Value,
    /// Nor for a clock.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) now: u64,
    /// As it was sent: it may be what the protocol refuses.
    pub(crate) request: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) response: Option<Response>,
}

/// The same with every field known. The protocol ignores fields that it does not know; in a recorded exchange one is a
/// mistake of the author.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownExchange {
    #[serde(rename = "config")]
    _config: Option<IgnoredAny>,
    #[serde(rename = "now")]
    _now: Option<IgnoredAny>,
    #[serde(rename = "request")]
    _request: Option<KnownRequest>,
    #[serde(rename = "response")]
    _response: Option<KnownResponse>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownRequest {
    #[serde(rename = "protocol_version")]
    _protocol_version: Option<IgnoredAny>,
    #[serde(rename = "files")]
    _files: Option<Vec<KnownFile>>,
    #[serde(rename = "staged_root")]
    _staged_root: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownFile {
    #[serde(rename = "path")]
    _path: Option<IgnoredAny>,
    #[serde(rename = "content")]
    _content: Option<IgnoredAny>,
    #[serde(rename = "kind")]
    _kind: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownResponse {
    #[serde(rename = "protocol_version")]
    _protocol_version: Option<IgnoredAny>,
    #[serde(rename = "result")]
    _result: Option<Verdict>,
    #[serde(rename = "warnings")]
    _warnings: Option<Vec<Diagnostic>>,
    #[serde(rename = "errors")]
    _errors: Option<Vec<Diagnostic>>,
}

// === impl Transcript ===

impl Transcript {
    pub(super) fn read(path: &Path) -> Result<Self, CaseError> {
        Self::parse(&read_text(path)?).map_err(|source| CaseError::Decode { path: path.to_owned(), source })
    }

    fn parse(text: &str) -> serde_json::Result<Self> {
        let many = text.trim_start().starts_with('[');
        let known = if many {
            serde_json::from_str::<Vec<KnownExchange>>(text).map(drop)
        } else {
            serde_json::from_str::<KnownExchange>(text).map(drop)
        };
        match known {
            // Any other fault may be what the exchange is about.
            Err(error) if error.to_string().starts_with("unknown field") => return Err(error),
            _ => {}
        }
        let exchanges = if many { serde_json::from_str(text)? } else { vec![serde_json::from_str(text)?] };
        Ok(Self { exchanges, many })
    }

    pub(super) fn to_text(&self) -> String {
        let text = match self.exchanges.as_slice() {
            [only] if !self.many => serde_json::to_string_pretty(only),
            all => serde_json::to_string_pretty(all),
        };
        text.expect("what was read can be written") + "\n"
    }

    /// Whether a file to be checked is `haproxy.cfg`.
    pub(super) fn has_config(&self) -> bool {
        let files = self.exchanges.iter().filter_map(|exchange| exchange.request["files"].as_array()).flatten();
        files.into_iter().any(|file| file["path"] == CONFIG_PATH && file["kind"].is_null())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn reads_one_exchange_or_many_and_writes_them_the_same() {
        let one = r#"{"request":{"protocol_version":1,"files":[{"path":"haproxy.cfg","content":""}]}}"#;
        let read = Transcript::parse(one).unwrap();
        assert!(read.has_config());
        assert!(read.to_text().starts_with("{\n  \"request\""));
        let many = Transcript::parse(&format!("[{one}]")).unwrap();
        assert!(many.to_text().starts_with("[\n"));
    }

    #[test]
    fn an_unknown_field_is_refused_with_its_line() {
        for (json, field) in [
            ("{\n\"request\":{},\n\"reponse\":{}}", "`reponse`"),
            ("[{\n\"request\":{\"files\":[{\n\"knid\":\"data\"}]}}]", "`knid`"),
            ("{\"request\":{},\n\n\"response\":{\"verdict\":\"valid\"}}", "`verdict`"),
        ] {
            let error = Transcript::parse(json).unwrap_err();
            assert!(error.to_string().contains(field) && error.line() == 3, "{error}");
        }
    }

    #[test]
    fn a_request_may_be_what_the_protocol_refuses() {
        assert!(Transcript::parse(r#"{"request":{"protocol_version":2}}"#).is_ok());
        assert!(Transcript::parse(r#"{"request":{"files":"none"}}"#).is_ok());
    }
}
