//! Why a request or a watch failed.

use std::{fmt, time::Duration};

use serde::Deserialize;
use thiserror::Error;

use crate::{Malformed, ResourceVersion};

/// What is wrong between haptic and the API server. Nothing that was known is forgotten because of it.
#[derive(Debug, Error)]
pub enum Trouble {
    #[error("the API server cannot be reached")]
    Unreachable(#[source] kube::Error),
    #[error("the API server did not answer within {0:?}")]
    TimedOut(Duration),
    #[error("the API server refused the request: {0}")]
    Refused(Refusal),
    #[error("the answer of the API server cannot be read")]
    Malformed(#[from] Malformed),
    #[error("the API server sent more than {limit} bytes at once")]
    TooLarge { limit: usize },
    #[error("an object of {bytes} bytes is larger than the {limit} that the API server takes")]
    TooLargeToSend { bytes: usize, limit: usize },
    #[error("the list was cut before its end, so it is not believed")]
    Cut,
    #[error(
        "the list has version {listed}, which is older than the known {known}, so it is not believed; restart haptic \
         if the cluster was restored from a backup"
    )]
    Older { listed: ResourceVersion, known: ResourceVersion },
    #[error("no version of `{resources}` is served ({versions}); install its CRD, or set `optional: true`")]
    Missing { resources: String, versions: String },
    #[error("`{resources}` of {api_version} has the kind {served}, but {wanted} is expected; set `kind: {served}`")]
    OtherKind { resources: String, api_version: String, served: String, wanted: String },
    #[error("`{resources}` of {api_version} cannot be {verb}ed; watch another resource")]
    Unwatchable { resources: String, api_version: String, verb: &'static str },
}

/// The server's own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status, or that of an error in the body of a watch.
    pub code: u16,
    /// A word such as `Expired`; may be empty.
    pub reason: String,
    pub message: String,
    pub retry_after: Option<Duration>,
}

/// `meta/v1` Status, as far as it is needed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    code: Option<u16>,
    reason: Option<String>,
    message: Option<String>,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    retry_after_seconds: Option<u32>,
}

// === impl Trouble ===

impl Trouble {
    /// The state from which to go on is no more known to the server: only a new list helps.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Refused(Refusal { code: 410, .. }))
    }

    /// The resource, or the namespace of the API that it is in, is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(Refusal { code: 404, .. }))
    }

    /// Another client wrote first, or made the object first.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused(Refusal { code: 409, .. }))
    }

    /// Permissions are missing.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused(Refusal { code: 401 | 403, .. }))
    }

    /// The body is larger than what the server takes.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLargeToSend { .. } | Self::Refused(Refusal { code: 413, .. }))
    }

    /// The server refused this request for what it is: the same one is refused again.
    pub fn is_refused_for_good(&self) -> bool {
        matches!(self, Self::Refused(Refusal { code: 400..=499, .. })) && !self.is_conflict() && !self.is_throttled()
    }

    fn is_throttled(&self) -> bool {
        matches!(self, Self::Refused(Refusal { code: 429, .. }))
    }

    /// The server does not understand this form of the request.
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(self, Self::Refused(Refusal { code: 400 | 405 | 406 | 422, .. }))
    }

    /// There was no answer, so the server is not what a pause would relieve.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::TimedOut(_))
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }
}

// === impl Refusal ===

impl Refusal {
    /// What an answer with an error status says. `retry_after` is the header's value.
    pub(crate) fn of_answer(code: u16, retry_after: Option<&str>, body: &[u8]) -> Self {
        let status: Status = serde_json::from_slice(body).unwrap_or_else(|_| {
            // A proxy answered: its first line says enough.
            let text = String::from_utf8_lossy(body);
            let line = text.lines().next().unwrap_or_default().chars().take(200).collect();
            Status { message: Some(line), ..Status::default() }
        });
        let mut refusal = Self::from(status);
        refusal.code = code;
        // The header may also be a date, which only proxies send: then the pause is our own.
        if let Some(seconds) = retry_after.and_then(|text| text.trim().parse().ok()) {
            refusal.retry_after = Some(Duration::from_secs(seconds));
        }
        refusal.retry_after = refusal.retry_after.map(|asked| asked.min(LONGEST_RETRY_AFTER));
        refusal
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        let seconds = status.details.and_then(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
        let reason = status.reason.unwrap_or_default();
        let code = status.code.unwrap_or(if matches!(&*reason, "Expired" | "Gone") { 410 } else { 500 });
        Self {
            code,
            reason,
            message: status.message.unwrap_or_default(),
            retry_after: seconds.map(|seconds| Duration::from_secs(seconds.into()).min(LONGEST_RETRY_AFTER)),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if !self.reason.is_empty() {
            write!(f, " {}", self.reason)?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// More than that is a mistake of the server's, and would look like a hang.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_told_in_the_servers_words_with_the_time_it_asks_for() {
        let body = br#"{"kind":"Status","code":429,"reason":"TooManyRequests","message":"slow down",
                        "details":{"retryAfterSeconds":3}}"#;
        let refusal = Refusal::of_answer(429, None, body);
        assert_eq!(refusal.to_string(), "429 TooManyRequests: slow down");
        assert_eq!(refusal.retry_after, Some(Duration::from_secs(3)));
        assert_eq!(Refusal::of_answer(429, Some("7"), body).retry_after, Some(Duration::from_secs(7)));
        assert_eq!(Refusal::of_answer(429, Some("99999999"), body).retry_after, Some(LONGEST_RETRY_AFTER));
        let date = Refusal::of_answer(503, Some("Wed, 21 Oct 2026 07:28:00 GMT"), b"<html>\nno upstream");
        assert_eq!((date.to_string().as_str(), date.retry_after), ("503: <html>", None));
    }

    #[test]
    fn an_expired_version_is_gone_in_http_and_in_a_body() {
        let status: Status = serde_json::from_str(r#"{"code":410,"reason":"Expired","message":"too old"}"#).unwrap();
        assert!(Trouble::Refused(status.into()).is_gone());
        let status: Status = serde_json::from_str(r#"{"reason":"Gone"}"#).unwrap();
        assert!(Trouble::Refused(status.into()).is_gone());
        assert!(Trouble::Refused(Refusal::of_answer(410, None, b"")).is_gone());
        let status: Status = serde_json::from_str(r#"{"message":"etcd event received with PrevKv=nil"}"#).unwrap();
        assert!(!Trouble::Refused(status.into()).is_gone());
    }
}
