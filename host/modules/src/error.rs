//! Why a module is not there: a reason for a condition, a sentence for a person, and what to do.

use std::borrow::Cow;

use serde::Serialize;
use thiserror::Error;

/// A module could not be fetched or proved. Carries no secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct FetchError {
    pub reason: Reason,
    /// What was being done to what, and what came of it.
    pub message: String,
    /// What a person does about it.
    pub next_step: Cow<'static, str>,
}

/// The reasons, fit for the `reason` of a Kubernetes condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Reason {
    /// There is no `sha256`; nothing was asked for.
    NotPinned,
    /// The image reference or the URL is not one.
    InvalidSource,
    /// The pull secret is missing or is no `kubernetes.io/dockerconfigjson`.
    InvalidPullSecret,
    /// Nobody answers: name resolution, connection or TLS failed, or the connection broke.
    Unreachable,
    /// The time for the whole fetch was over.
    TimedOut,
    /// There is no such image, tag, file, URL or key.
    NotFound,
    /// The server wants credentials, or does not take these.
    Unauthorized,
    /// The server answered with an error of its own, or with what cannot be understood.
    ServerError,
    /// A redirect changes the scheme, or there are too many of them.
    RedirectRefused,
    /// The module is larger than what is loaded.
    TooLarge,
    /// What is there is no Wasm artifact.
    WrongMediaType,
    /// The bytes are others than the pinned ones.
    DigestMismatch,
    /// `cosignKey` is not a public key that can be used.
    InvalidKey,
    /// The image carries no signature.
    SignatureMissing,
    /// No signature of the image is one that the key made for it.
    SignatureInvalid,
    /// The module came, but could not be kept on disk.
    CacheFailed,
}

/// What a reason says about: getting the bytes, or proving them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Fetch,
    Verify,
}

// === impl FetchError ===

impl FetchError {
    pub fn new(reason: Reason, message: impl Into<String>, next_step: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, message: message.into(), next_step: next_step.into() }
    }
}

// === impl Reason ===

impl Reason {
    pub const ALL: [Self; 16] = [
        Self::NotPinned,
        Self::InvalidSource,
        Self::InvalidPullSecret,
        Self::Unreachable,
        Self::TimedOut,
        Self::NotFound,
        Self::Unauthorized,
        Self::ServerError,
        Self::RedirectRefused,
        Self::TooLarge,
        Self::WrongMediaType,
        Self::DigestMismatch,
        Self::InvalidKey,
        Self::SignatureMissing,
        Self::SignatureInvalid,
        Self::CacheFailed,
    ];

    pub fn stage(self) -> Stage {
        match self {
            Self::NotPinned
            | Self::DigestMismatch
            | Self::InvalidKey
            | Self::SignatureMissing
            | Self::SignatureInvalid => Stage::Verify,
            _ => Stage::Fetch,
        }
    }

    /// Trying again soon cannot help: somebody has to change something first.
    pub fn is_permanent(self) -> bool {
        // What is missing may be about to be pushed or signed.
        !matches!(
            self,
            Self::Unreachable
                | Self::TimedOut
                | Self::NotFound
                | Self::ServerError
                | Self::SignatureMissing
                | Self::CacheFailed
        )
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The variant's name is the reason's name.
        std::fmt::Debug::fmt(self, f)
    }
}
