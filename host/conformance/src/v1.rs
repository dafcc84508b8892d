//! Protocol v1, by which validators outside the controller answer over a unix socket: what is said, how it is framed,
//! and how it maps to the contracts of `haptic:plugin`.
//!
//! What: the messages ([`Request`], [`Response`]), the frames ([`Frames`], [`frame()`]), the way from a request to a
//! plugin's question and back ([`Subject`]), and a client. What not: sockets of a server; those are in
//! [`crate::serve`]. `docs/protocol-v1.md` is the text for people.
//!
//! ```text
//! bytes ─ Frames ─▶ body ─ Request::decode ─▶ Request ─ Request::subject ─▶ Subject ─ ask ─▶ Response ─ frame ─▶ bytes
//!            └────────────────┴───────── Refusal ─────────────┘
//! ```

mod client;
mod decode;
mod frames;
mod subject;

use haptic_model::{
    InvalidFilePath,
    ports::{Diagnostic, PluginFailureKind, PluginReport},
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use client::{Client, ClientError};
pub use frames::{FrameTooLarge, Frames, HEADER_BYTES, MAX_FRAME_BYTES, frame};
pub use subject::Subject;

/// The only version there is.
pub const VERSION: i64 = 1;

/// What a client asks: one file to check, and the data files that go with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub protocol_version: i64,
    pub files: Vec<RequestFile>,
    /// Where the client has put the files, for validators that read them from disk. A plugin reads nothing from disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged_root: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFile {
    pub path: String,
    pub content: String,
    /// Absent on the file that is to be checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<RequestFileKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestFileKind {
    /// Not checked itself.
    Data,
}

/// What a validator answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    pub protocol_version: i64,
    /// Must follow from the two lists: see [`Response::due`].
    pub result: Verdict,
    pub warnings: Vec<Diagnostic>,
    pub errors: Vec<Diagnostic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Valid,
    Warning,
    Error,
}

/// Why a request gets no answer about its files. The texts up to `NoFiles` are the protocol's own.
#[derive(Debug, Error)]
pub enum Refusal {
    #[error(transparent)]
    TooLarge(#[from] FrameTooLarge),
    #[error("request body is not valid JSON: invalid UTF-8 at byte {at}")]
    NotUtf8 { at: usize },
    #[error("request body is not valid JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("protocol version {version} not supported (max: {VERSION})")]
    Version { version: i64 },
    #[error("missing required field 'files'")]
    MissingFiles,
    #[error("'files' array must be non-empty")]
    NoFiles,
    #[error("files[{index}]: {source}")]
    Path { index: usize, source: InvalidFilePath },
    #[error("files[{index}]: `{path}` is in the request twice; send each file once")]
    Twice { index: usize, path: String },
    #[error("every file of the request is data; send the file to check without a kind")]
    NothingToCheck,
    #[error("the request has more than one file to check, `{first}` and `{second}`; send one request for each")]
    SeveralToCheck { first: String, second: String },
    #[error("the request has no `haproxy.cfg` to check; send it without a kind, and all other files with it")]
    NoConfig,
}

/// What a connection is after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// The next frame can be read.
    Open,
    /// Where the next frame starts, or what its sender speaks, is not known.
    Closed,
}

// === impl Response ===

impl Response {
    /// An answer with the result that follows from its lists.
    pub fn new(warnings: Vec<Diagnostic>, errors: Vec<Diagnostic>) -> Self {
        let mut response = Self { protocol_version: VERSION, result: Verdict::Valid, warnings, errors };
        response.result = response.due();
        response
    }

    /// An error that is about no file.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Vec::new(), vec![about_no_file(message.into())])
    }

    /// A report as a client gets it. A failure of the plugin is an error whatever its failure policy: that is for the
    /// client to know.
    pub fn of_report(report: &PluginReport) -> Self {
        let Some(failure) = &report.failure else {
            return Self::new(report.warnings.clone(), report.errors.clone());
        };
        let mut errors = vec![about_no_file(failure.to_string())];
        if let PluginFailureKind::Timeout { limit_ms } = failure.kind {
            // The protocol's own sentence first; which plugin and which limit it was comes after it.
            errors.insert(0, about_no_file(format!("validation timed out after {}s", seconds(limit_ms))));
        }
        Self::new(Vec::new(), errors)
    }

    /// The result that follows from the lists.
    pub fn due(&self) -> Verdict {
        match (self.errors.as_slice(), self.warnings.as_slice()) {
            ([], []) => Verdict::Valid,
            ([], _) => Verdict::Warning,
            _ => Verdict::Error,
        }
    }

    /// The answer's body.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers can be written as JSON")
    }
}

fn about_no_file(message: String) -> Diagnostic {
    Diagnostic { path: String::new(), line: 0, column: 0, message }
}

/// `5000` is `5`, `300` is `0.3`.
fn seconds(millis: u64) -> String {
    let text = format!("{}.{:03}", millis / 1000, millis % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

// === impl Refusal ===

impl Refusal {
    /// What a server does after it has answered with this refusal: a frame or a body that cannot be read ends the
    /// connection, a request that can be read and not be served does not.
    pub fn connection(&self) -> Connection {
        match self {
            Self::TooLarge(_) | Self::NotUtf8 { .. } | Self::NotJson(_) => Connection::Closed,
            _ => Connection::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_written_as_short_as_they_can_be() {
        for (millis, text) in [(5000, "5"), (300, "0.3"), (1, "0.001"), (61_500, "61.5"), (0, "0"), (10_000, "10")] {
            assert_eq!(seconds(millis), text);
        }
    }
}
