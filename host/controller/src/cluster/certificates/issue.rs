//! Certificates are made here: ECDSA on P-256. The clock and the keys are arguments.

use std::{fmt, sync::Arc, time::Duration};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use thiserror::Error;

use crate::cluster::certificates::{
    BACKDATE, PART,
    certificate::{Certificate, Usage},
    leaf::Identity,
};

/// Where keys come from.
#[derive(Clone)]
pub struct Keys(Arc<dyn Fn() -> Result<KeyPair, rcgen::Error> + Send + Sync>);

#[derive(Debug, Error)]
pub(super) enum IssueError {
    #[error("a certificate could not be made")]
    Made(#[from] rcgen::Error),
    #[error("what the authority signs is not seen as its own; its certificate is not one that was issued here")]
    Stranger,
}

/// A certificate and its key.
pub(super) struct Issued {
    pub(super) certificate: Certificate,
    pub(super) key: KeyPair,
}

/// The same for every authority, because all that is kept of one is its certificate and its key; they are told apart by
/// their keys.
const AUTHORITY: &str = "haptic authority";

// === impl Keys ===

impl Keys {
    /// From the system's source of randomness.
    pub fn random() -> Self {
        Self::new(KeyPair::generate)
    }

    pub fn new(make: impl Fn() -> Result<KeyPair, rcgen::Error> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    fn make(&self) -> Result<KeyPair, rcgen::Error> {
        (self.0)()
    }

    /// An authority that is valid from now on.
    pub(super) fn authority(&self, now: u64, lifetime: u64) -> Result<Issued, IssueError> {
        let key = self.make()?;
        let certificate = authority_params(now, now + lifetime)?.self_signed(&key)?;
        Ok(Issued { certificate: Certificate::read(certificate.der().clone()).ok_or(IssueError::Stranger)?, key })
    }

    /// A certificate of this identity, which ends with its authority at the latest.
    pub(super) fn leaf(
        &self,
        identity: &Identity,
        (authority, signer): (&Certificate, &KeyPair),
        now: u64,
        lifetime: u64,
    ) -> Result<Issued, IssueError> {
        let mut params = params(identity.names.clone(), now, authority.not_after.min(now + lifetime))?;
        if let Some(name) = identity.names.first() {
            params.distinguished_name.push(DnType::CommonName, name.as_str());
        }
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match identity.usage {
            Usage::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Usage::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        let key = self.make()?;
        let issuer = Issuer::new(authority_params(authority.not_before, authority.not_after)?, signer);
        let certificate = params.signed_by(&key, &issuer)?;
        let certificate = Certificate::read(certificate.der().clone()).ok_or(IssueError::Stranger)?;
        // Under another name than ours nobody would find the way from one to the other.
        if !certificate.is_signed_by(authority, identity.usage) {
            return Err(IssueError::Stranger);
        }
        Ok(Issued { certificate, key })
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

fn authority_params(now: u64, not_after: u64) -> Result<CertificateParams, rcgen::Error> {
    let mut params = params(Vec::new(), now, not_after)?;
    params.distinguished_name.push(DnType::CommonName, AUTHORITY);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn params(names: Vec<String>, now: u64, not_after: u64) -> Result<CertificateParams, rcgen::Error> {
    let backdate = BACKDATE.min(not_after.saturating_sub(now) / PART);
    let at = |seconds| date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
    let mut params = CertificateParams::new(names)?;
    (params.not_before, params.not_after) = (at(now - backdate.min(now)), at(not_after.max(now)));
    Ok(params)
}
