//! One certificate, and what can be said of it alone.

use haptic_plugin_sdk::{File, Position};
use parts::Findings;
use sha2::{Digest as _, Sha256};
use x509_parser::{certificate::X509Certificate, parse_x509_certificate, x509::X509Version};

use crate::{
    date,
    key::{self, PublicKey},
    pem::Block,
    signature::Algorithm,
};

const WEAKEST_RSA_BITS: usize = 2048;

/// A certificate of a file.
pub(crate) struct Certificate<'a> {
    /// The line of its block.
    pub(crate) line: u32,
    pub(crate) x509: X509Certificate<'a>,
    pub(crate) key: PublicKey,
    pub(crate) digest: [u8; 32],
    file: &'a File,
}

/// How bad an expired certificate is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    Error,
    Warning,
}

// === impl Certificate ===

impl<'a> Certificate<'a> {
    /// The certificate of a block, or nothing and a finding.
    pub(crate) fn read(file: &'a File, block: &'a Block, findings: &mut Findings) -> Option<Self> {
        let der = block.der.as_deref()?;
        let position = || Position::at(file.path(), block.line, 1);
        let Ok((rest, x509)) = parse_x509_certificate(der) else {
            let message = format!("the block `{}` holds no certificate; copy it again from its source", block.label);
            findings.error(position(), message);
            return None;
        };
        // A trusted certificate has more after it, which is its point.
        if !rest.is_empty() && block.label != "TRUSTED CERTIFICATE" {
            let message = format!("the block has {} bytes after its certificate; copy it again", rest.len());
            findings.error(position(), message);
            return None;
        }
        let key = key::of_certificate(x509.public_key());
        Some(Self { line: block.line, x509, key, digest: Sha256::digest(der).into(), file })
    }

    pub(crate) fn position(&self) -> Position {
        Position::at(self.file.path(), self.line, 1)
    }

    /// How messages name it.
    pub(crate) fn name(&self) -> String {
        let subject = self.x509.subject();
        let common = subject.iter_common_name().next().and_then(|name| name.as_str().ok());
        let name = common.map_or_else(|| subject.to_string(), str::to_owned);
        if name.is_empty() { "no name".to_owned() } else { name.chars().take(80).collect() }
    }

    /// Whether its issuer has the name of `other`.
    pub(crate) fn names_as_issuer(&self, other: &Certificate<'_>) -> bool {
        let (issuer, subject) = (self.x509.issuer(), other.x509.subject());
        // Names may be written in several string types and cases and still be the same.
        issuer.as_raw() == subject.as_raw() || issuer.to_string().eq_ignore_ascii_case(&subject.to_string())
    }

    pub(crate) fn is_self_issued(&self) -> bool {
        self.names_as_issuer(self)
    }

    /// Whether it may issue others. Before version 3 there was no way to say so.
    pub(crate) fn may_issue(&self) -> bool {
        self.x509.version() != X509Version::V3 || self.x509.is_ca()
    }

    pub(crate) fn has_alternative_names(&self) -> bool {
        matches!(self.x509.subject_alternative_name(), Ok(Some(names)) if !names.value.general_names.is_empty())
    }

    /// Reports what time has done to it.
    pub(crate) fn check_dates(&self, now: i64, warn_days: u32, expired: Expired, findings: &mut Findings) {
        let validity = self.x509.validity();
        let (from, until) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        let name = self.name();
        if until < now {
            let days = date::days_until(now, until);
            let message = format!("the certificate `{name}` expired on {}, {}; renew it", date::day(until), ago(days));
            match expired {
                Expired::Error => findings.error(self.position(), message),
                Expired::Warning => findings.warn(self.position(), message),
            }
        } else if from > now {
            let message = format!("the certificate `{name}` is not valid before {}; check the clocks", date::day(from));
            findings.warn(self.position(), message);
        } else if expired == Expired::Error && date::days_until(until, now) < i64::from(warn_days) {
            let days = date::days_until(until, now);
            let message = format!("the certificate `{name}` expires on {}, {}; renew it", date::day(until), left(days));
            findings.warn(self.position(), message);
        }
    }

    /// Reports keys that can be broken and, unless it stands for itself, signatures that can be forged.
    pub(crate) fn check_strength(&self, findings: &mut Findings) {
        if let Some(bits) = self.key.rsa_bits()
            && bits < WEAKEST_RSA_BITS
        {
            let name = self.name();
            let message = format!(
                "the RSA key of `{name}` has {bits} bits, fewer than the {WEAKEST_RSA_BITS} that clients accept; \
                 issue it again with a longer key"
            );
            findings.warn(self.position(), message);
        }
        let algorithm = Algorithm::of(&self.x509.signature_algorithm);
        if let Algorithm::Weak(hash) = algorithm
            && !self.is_self_issued()
        {
            let message = format!("`{}` is signed with {hash}, which clients refuse; issue it again", self.name());
            findings.warn(self.position(), message);
        }
    }
}

fn ago(days: i64) -> String {
    match days {
        0 => "today".to_owned(),
        1 => "a day ago".to_owned(),
        days => format!("{days} days ago"),
    }
}

fn left(days: i64) -> String {
    match days {
        0 => "in less than a day".to_owned(),
        1 => "in a day".to_owned(),
        days => format!("in {days} days"),
    }
}
