//! A certificate that the authority signs: whose it is to be, and how one stands that is there.

use std::collections::BTreeSet;

use haptic_wire::tls::{AGENT_NAME, CONTROLLER_NAME};
use rcgen::KeyPair;

use crate::cluster::certificates::{
    CertificateSettings, Kept,
    certificate::{Certificate, Usage},
    secret::{CA, CERTIFICATE, KEY, Secret},
};

/// Who a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) kept: Kept,
    /// DNS names.
    pub(super) names: Vec<String>,
    pub(super) usage: Usage,
}

/// What a Secret holds that is complete and fits together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) certificate: Certificate,
    /// Whom its owner trusts, as it stands there.
    pub(super) trusted: Vec<u8>,
}

// === impl Identity ===

impl Identity {
    /// All that are kept. Names are those that the other side demands.
    pub(super) fn all(settings: &CertificateSettings) -> Vec<Self> {
        let named = |kept, name: &str, usage| Self { kept, names: vec![name.to_owned()], usage };
        let mut all = vec![
            named(Kept::Agent, AGENT_NAME, Usage::Server),
            named(Kept::Controller, CONTROLLER_NAME, Usage::Client),
        ];
        if let Some(webhook) = &settings.names.webhook {
            let host = format!("{}.{}", webhook.service, settings.namespace);
            // The API server asks for the first.
            let names = vec![format!("{host}.svc"), format!("{host}.svc.cluster.local"), host];
            all.push(Self { kept: Kept::Webhook, names, usage: Usage::Server });
        }
        all
    }
}

// === impl Leaf ===

impl Leaf {
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(secret: &Secret, identity: &Identity) -> Result<Self, &'static str> {
        let entry = |name| secret.entry(name).ok_or("a part of it is missing");
        let (certificate, key, trusted) = (entry(CERTIFICATE)?, entry(KEY)?, entry(CA)?);
        let certificate = Certificate::all_in(&certificate).into_iter().next().ok_or("its tls.crt is not complete")?;
        let key = String::from_utf8(key).ok().and_then(|pem| KeyPair::from_pem(&pem).ok());
        if !certificate.belongs_to(&key.ok_or("its tls.key is not complete")?) {
            return Err("its tls.key does not fit its tls.crt");
        }
        if certificate.names() != identity.names.iter().cloned().collect::<BTreeSet<_>>() {
            return Err("its tls.crt has other names");
        }
        Ok(Self { certificate, trusted })
    }

    /// Who trusted what before it is lost: the authorities that its owner knows.
    pub(super) fn authorities(secret: &Secret) -> Vec<Certificate> {
        secret.entry(CA).map(|pem| Certificate::all_in(&pem)).unwrap_or_default()
    }
}
