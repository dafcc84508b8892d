//! A server's certificate for clients that show none: the webhook's, which an API server judges by a CA bundle.

use std::{fmt, sync::Arc};

use rustls::{
    ServerConfig,
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject as _};
use webpki::EndEntityCert;

use crate::tls::{
    CredentialsError, CredentialsPart, NotAfter,
    credentials::{certificates, never_resumed, provider},
    peer,
};

/// A certificate chain and its key. Nothing that is printed holds the key.
pub struct ServerPair {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    not_after: UnixTime,
}

// === impl ServerPair ===

impl ServerPair {
    /// Reads PEM: the chain (own certificate first) and the key.
    ///
    /// # Errors
    /// When one of them is not complete PEM or holds nothing of its kind.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, CredentialsError> {
        let chain = certificates(certificate, CredentialsPart::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|source| CredentialsError::Pem { part: CredentialsPart::Key, source })?;
        let not_after = EndEntityCert::try_from(&chain[0])
            .and_then(|leaf| peer::not_after(&leaf))
            .map_err(|source| CredentialsError::Certificate { part: CredentialsPart::Certificate, source })?;
        Ok(Self { chain, key, not_after })
    }

    /// When the certificate ends.
    pub fn not_after(&self) -> NotAfter {
        NotAfter(self.not_after)
    }

    /// TLS 1.2 and 1.3, HTTP/1.1.
    ///
    /// # Errors
    /// When the key is not the certificate's.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, CredentialsError> {
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .expect("ring has suites of both")
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|source| CredentialsError::Pair { source })?;
        Ok(never_resumed(config))
    }
}

impl fmt::Debug for ServerPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerPair").field("not_after", &self.not_after()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn pair() -> (String, String) {
        let mut params = rcgen::CertificateParams::new(vec!["webhook.haptic.svc".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2031, 12, 31);
        let key = rcgen::KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn knows_its_end_prints_no_key_and_wants_the_key_of_its_certificate() {
        let (certificate, key) = pair();
        let read = ServerPair::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(read.not_after().to_string(), "2031-12-31T00:00:00Z");
        assert_eq!(format!("{read:?}"), "ServerPair { not_after: NotAfter(UnixTime(1956441600)), .. }");
        read.server_config().unwrap();
        let other = ServerPair::from_pem(certificate.as_bytes(), pair().1.as_bytes()).unwrap();
        assert!(matches!(other.server_config(), Err(CredentialsError::Pair { .. })));
        assert!(matches!(ServerPair::from_pem(b"", key.as_bytes()), Err(CredentialsError::Empty { .. })));
    }
}
