use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::pki_types::CertificateDer;

/// A self-signed certificate with its key; every one made is a different one.
pub struct Certificate {
    pub der: CertificateDer<'static>,
    pem: String,
    key: String,
}

// === impl Certificate ===

impl Certificate {
    pub fn issue(host: &str) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed([host.to_owned()]).context("make a certificate")?;
        Ok(Self { der: made.cert.der().clone(), pem: made.cert.pem(), key: made.signing_key.serialize_pem() })
    }

    /// In PEM.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The manifest of a `kubernetes.io/tls` Secret in namespace `shop`.
    pub fn manifest(&self, name: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\n  namespace: shop\ntype: kubernetes.io/tls\ndata:\n  \
             tls.crt: {}\n  tls.key: {}\n",
            STANDARD.encode(&self.pem),
            STANDARD.encode(&self.key)
        )
    }
}
