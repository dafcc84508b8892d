//! The certificates of controllers, agents and the webhook, kept without another tool: an authority, what it signs, and
//! who is told to trust it.
//!
//! What: [`CertificateKeeper`] fills and renews Secrets that are there, whoever leads, as long as the process lives. What
//! not: it makes no Secret, hands no file to anybody, and leaves contents alone that are not its own. Every replica runs
//! it: a Secret is replaced only in the state that was read, so of two that write one begins anew.
//!
//! ```text
//! watches ─▶ pass: read all ─▶ Policy::decide (pure; clock and keys are arguments) ─▶ one write ─▶ read all …
//! ```
//!
//! A new authority is trusted everywhere before it signs, and the one before it is trusted until nothing that it signed
//! can be valid any more. How far that is stands in the authority's Secret, so any replica goes on with it.

mod authority;
mod certificate;
mod issue;
mod keeper;
mod leaf;
mod metrics;
mod plan;
mod secret;

use std::{sync::Arc, time::Duration};

use thiserror::Error;

pub use issue::Keys;
pub use keeper::CertificateKeeper;
pub use metrics::CertificateMetrics;

/// Which Secrets are kept, and for how long what is in them is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSettings {
    /// Of all Secrets: the controller's.
    pub namespace: Arc<str>,
    pub names: CertificateNames,
    pub lifetimes: Lifetimes,
}

/// What the objects are called that are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateNames {
    /// `ca.crt` and `ca.key`. Default of the command line: `haptic-authority`.
    pub authority_secret: String,
    /// `tls.crt`, `tls.key` and `ca.crt`, as all that follow. Default: `haptic-agent`.
    pub agent_secret: String,
    /// The one that `credentialsSecretRef` names. Default: `haptic-controller`.
    pub controller_secret: String,
    /// `None` = there is no webhook.
    pub webhook: Option<WebhookCertificate>,
}

/// The certificate that the API server judges the webhook by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookCertificate {
    /// Default: `haptic-webhook`.
    pub secret: String,
    /// The Service that the API server asks, which gives the certificate its names.
    pub service: String,
    /// The ValidatingWebhookConfiguration whose `caBundle` is kept right; `None` = somebody else does that.
    pub configuration: Option<String>,
}

/// How long certificates are valid. All else in time follows from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    certificate: u64,
    authority: u64,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum CertificateSettingsError {
    #[error(
        "a certificate cannot be renewed in time that is valid for less than {MIN_LIFETIME} s; make it live longer"
    )]
    TooShort,
    #[error("the authority must live at least three times as long as a certificate; change one of the two lifetimes")]
    AuthorityTooShort,
    #[error("the authority must not live longer than 100 years (876000h)")]
    AuthorityTooLong,
    #[error("the Secret `{0}` is named for two certificates; name one for each")]
    SameSecret(String),
}

/// What is kept; also the label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kept {
    Authority,
    Agent,
    Controller,
    Webhook,
}

const MIN_LIFETIME: u64 = 10;
const MAX_LIFETIME: u64 = 100 * 365 * 24 * 60 * 60;
/// How far a clock may be behind that of the replica that issued.
const BACKDATE: u64 = 5 * 60;
/// How long it may take until every pod has what was written: a kubelet looks once a minute or so and may have read the
/// Secret up to a minute before. Several times that.
const DISTRIBUTION: u64 = 10 * 60;
/// Both are this part of a certificate's lifetime at most. A certificate that lives for less than two hours is for tests,
/// whose kubelets are quick.
const PART: u64 = 12;

// === impl CertificateNames ===

impl CertificateNames {
    /// # Errors
    /// When one Secret would hold two certificates.
    pub fn check(&self) -> Result<(), CertificateSettingsError> {
        let mut names: Vec<_> = self.secrets().collect();
        names.sort_unstable();
        match names.array_windows().find(|[a, b]| a == b) {
            Some([name, _]) => Err(CertificateSettingsError::SameSecret((*name).to_owned())),
            None => Ok(()),
        }
    }

    /// All that have a certificate, and the authority's.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.kept().map(|kept| self.secret(kept))
    }

    fn secret(&self, kept: Kept) -> &str {
        match kept {
            Kept::Authority => &self.authority_secret,
            Kept::Agent => &self.agent_secret,
            Kept::Controller => &self.controller_secret,
            Kept::Webhook => self.webhook.as_ref().map_or("", |webhook| &webhook.secret),
        }
    }

    pub(super) fn configuration(&self) -> Option<&str> {
        self.webhook.as_ref()?.configuration.as_deref()
    }

    fn kept(&self) -> impl Iterator<Item = Kept> + use<> {
        let always = [Kept::Authority, Kept::Agent, Kept::Controller].into_iter();
        always.chain(self.webhook.as_ref().map(|_| Kept::Webhook))
    }
}

// === impl Lifetimes ===

impl Lifetimes {
    /// # Errors
    /// When there would be no time for a change of the authority, or none to tell it.
    pub fn new(certificate: Duration, authority: Duration) -> Result<Self, CertificateSettingsError> {
        let (certificate, authority) = (certificate.as_secs(), authority.as_secs());
        if certificate < MIN_LIFETIME {
            return Err(CertificateSettingsError::TooShort);
        }
        if authority > MAX_LIFETIME {
            return Err(CertificateSettingsError::AuthorityTooLong);
        }
        if authority / 3 < certificate {
            return Err(CertificateSettingsError::AuthorityTooShort);
        }
        Ok(Self { certificate, authority })
    }

    /// How long all are told of a new authority before it signs.
    fn distribution(self) -> u64 {
        DISTRIBUTION.min(self.certificate / PART).max(1)
    }
}

// === impl Kept ===

impl Kept {
    fn name(self) -> &'static str {
        match self {
            Self::Authority => "authority",
            Self::Agent => "agent",
            Self::Controller => "controller",
            Self::Webhook => "webhook",
        }
    }
}

#[cfg(test)]
mod tests;
