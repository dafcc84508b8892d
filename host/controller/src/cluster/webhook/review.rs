//! `admission.k8s.io/v1` AdmissionReview, as far as a verdict needs it.

use std::fmt;

use haptic_model::Finding;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the API server sends.
#[derive(Deserialize)]
pub(super) struct Review {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    request: Option<Request>,
}

/// One write.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    pub(super) uid: String,
    pub(super) kind: GroupVersionKind,
    pub(super) resource: GroupVersionResource,
    /// Such as `status`; empty = the object itself.
    #[serde(default)]
    pub(super) sub_resource: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: String,
    pub(super) operation: Operation,
    #[serde(default)]
    pub(super) object: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct GroupVersionKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct GroupVersionResource {
    pub(super) group: String,
    pub(super) resource: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// What it is answered.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    api_version: &'static str,
    kind: &'static str,
    response: Response,
}

#[derive(Serialize)]
struct Response {
    uid: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Status {
    code: u16,
    reason: &'static str,
    message: String,
}

/// Why a body is no request.
#[derive(Debug, thiserror::Error)]
pub(super) enum Malformed {
    #[error("the body is no AdmissionReview; send what an API server sends")]
    Json(#[from] serde_json::Error),
    #[error("{api_version} {kind} is not spoken here; list `v1` in admissionReviewVersions")]
    Version { api_version: String, kind: String },
    #[error("the AdmissionReview has no request")]
    Empty,
}

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Warnings of one answer; how many more there are is one more.
const MOST_WARNINGS: usize = 10;
/// Characters of one warning. The API server cuts all of them together at 4,096.
const WARNING_LENGTH: usize = 380;
/// Causes of one denial; how many more there are is said.
const MOST_CAUSES: usize = 5;
/// Characters of one cause.
const CAUSE_LENGTH: usize = 1_000;

// === impl Review ===

impl Review {
    pub(super) fn parse(body: &[u8]) -> Result<Request, Malformed> {
        let review: Self = serde_json::from_slice(body)?;
        if review.api_version != API_VERSION || review.kind != KIND {
            return Err(Malformed::Version { api_version: review.api_version, kind: review.kind });
        }
        review.request.ok_or(Malformed::Empty)
    }
}

// === impl Answer ===

impl Answer {
    pub(super) fn allowed(uid: String, warnings: &[Finding]) -> Self {
        let mut told: Vec<String> = warnings
            .iter()
            .take(MOST_WARNINGS)
            .map(|warning| shortened(&warning.to_string(), WARNING_LENGTH))
            .collect();
        if warnings.len() > MOST_WARNINGS {
            told.push(format!("{} more warnings are not shown", warnings.len() - MOST_WARNINGS));
        }
        Self::new(Response { uid, allowed: true, status: None, warnings: told })
    }

    pub(super) fn denied(uid: String, causes: &[Finding]) -> Self {
        let mut message = String::from("HAProxy's configuration would break: ");
        let told = causes.iter().take(MOST_CAUSES).map(|cause| shortened(&cause.to_string(), CAUSE_LENGTH));
        message.push_str(&told.collect::<Vec<_>>().join("; "));
        if causes.len() > MOST_CAUSES {
            message.push_str(&format!("; and {} more", causes.len() - MOST_CAUSES));
        }
        let status = Some(Status { code: 422, reason: "Invalid", message });
        Self::new(Response { uid, allowed: false, status, warnings: Vec::new() })
    }

    fn new(response: Response) -> Self {
        Self { api_version: API_VERSION, kind: KIND, response }
    }
}

// === impl Operation ===

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Connect => "connect",
        })
    }
}

/// At most so many characters, in one line. The middle is left out: a finding begins with its object and ends with the
/// next step.
fn shortened(text: &str, most: usize) -> String {
    let line: Vec<char> = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    if line.len() <= most {
        return line.into_iter().collect();
    }
    let head = most / 2;
    let tail = line.len() - (most - head - 1);
    line[..head].iter().chain(&['…']).chain(&line[tail..]).collect()
}

#[cfg(test)]
mod tests;
