//! A certificate, its key, and the CA that the other side is judged by.

use std::{fmt, sync::Arc};

use parking_lot::RwLock;
use rustls::{
    ClientConfig, ServerConfig,
    client::Resumption,
    crypto::{CryptoProvider, ring},
    server::NoServerSessionStorage,
    version::TLS13,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, TrustAnchor, UnixTime, pem::PemObject as _};
use thiserror::Error;
use webpki::EndEntityCert;

use crate::tls::{
    AGENT_NAME, PeerName,
    peer::{self, PeerVerifier, Role},
};

/// One side's certificate chain and key, and the CAs of the other side. All of it is parsed, and nothing that is printed
/// holds the key.
pub struct Credentials {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: Vec<TrustAnchor<'static>>,
    not_after: UnixTime,
}

/// The controller's credentials as its connections to agents use them. Swapped at run time: what is connected goes on,
/// what connects next shows the new certificate.
#[derive(Debug)]
pub struct ClientIdentity {
    agent_name: PeerName,
    current: RwLock<Current>,
}

#[derive(Clone, Debug)]
pub(crate) struct Current {
    /// Grows with every swap.
    pub(crate) generation: u64,
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) not_after: NotAfter,
}

/// The last second of a certificate; prints as `2026-01-02T03:04:05Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotAfter(pub(super) UnixTime);

/// Which of the three inputs is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialsPart {
    /// The certificate chain, own certificate first.
    Certificate,
    /// The private key.
    Key,
    /// The certificates of the CA.
    Ca,
}

/// Credentials that cannot be used.
#[derive(Debug, Error)]
pub enum CredentialsError {
    /// Not PEM, or cut short.
    #[error("the {part} is not complete PEM; write the whole file, or replace it by a rename")]
    Pem {
        /// Which input.
        part: CredentialsPart,
        /// Why.
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    /// PEM without a certificate.
    #[error("the {part} holds no certificate in PEM")]
    Empty {
        /// Which input.
        part: CredentialsPart,
    },
    /// A certificate that cannot be read, or a CA where a certificate of its own is wanted.
    #[error("the {part} holds a certificate that cannot be used as such")]
    Certificate {
        /// Which input.
        part: CredentialsPart,
        /// Why.
        #[source]
        source: webpki::Error,
    },
    /// Made for the other side, or for neither.
    #[error(
        "the certificate is not made for {}; issue it with the extended key usage \"{}\"",
        if *.server { "an agent" } else { "a controller" },
        if *.server { "server auth" } else { "client auth" }
    )]
    Purpose {
        /// An agent's was expected, else a controller's.
        server: bool,
    },
    /// One certificate for both sides.
    #[error("the certificate names {name}, the identity of the other side; issue one for this side alone")]
    OtherSide {
        /// The other side's name.
        name: PeerName,
    },
    /// The key is not the certificate's, or of a kind that is not supported.
    #[error("the key does not fit the certificate; issue both together, and write both before they are used")]
    Pair {
        /// Why.
        #[source]
        source: rustls::Error,
    },
}

// === impl Credentials ===

impl Credentials {
    /// Reads PEM: the chain (own certificate first), the key, and one or more CA certificates (two while a CA is
    /// replaced).
    ///
    /// # Errors
    /// When one of them is not complete PEM or holds nothing of its kind.
    pub fn from_pem(certificate: &[u8], key: &[u8], ca: &[u8]) -> Result<Self, CredentialsError> {
        let chain = certificates(certificate, CredentialsPart::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|source| CredentialsError::Pem { part: CredentialsPart::Key, source })?;
        let unreadable = |part| move |source| CredentialsError::Certificate { part, source };
        let roots = certificates(ca, CredentialsPart::Ca)?;
        let roots = roots.iter().map(|root| webpki::anchor_from_trusted_cert(root).map(|root| root.to_owned()));
        let roots = roots.collect::<Result<_, _>>().map_err(unreadable(CredentialsPart::Ca))?;
        let not_after = EndEntityCert::try_from(&chain[0])
            .and_then(|leaf| peer::not_after(&leaf))
            .map_err(unreadable(CredentialsPart::Certificate))?;
        Ok(Self { chain, key, roots, not_after })
    }

    /// When the own certificate ends.
    pub fn not_after(&self) -> NotAfter {
        NotAfter(self.not_after)
    }

    /// The agent's side: TLS 1.3, HTTP/1.1, for clients that are the controller named `controller`.
    ///
    /// # Errors
    /// When the certificate is not an agent's, or the key is not the certificate's.
    pub fn server_config(&self, controller: &PeerName) -> Result<Arc<ServerConfig>, CredentialsError> {
        self.prove_side(Role::Agent, controller)?;
        let provider = provider();
        let algorithms = provider.signature_verification_algorithms;
        let verifier = PeerVerifier::new(&self.roots, Role::Controller, controller, algorithms);
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .expect("ring has suites of TLS 1.3")
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|source| CredentialsError::Pair { source })?;
        Ok(never_resumed(config))
    }

    /// The controller's side: TLS 1.3, HTTP/1.1, to servers that are the agent named `agent`.
    ///
    /// # Errors
    /// When the certificate is not a controller's, or the key is not the certificate's.
    pub fn client_config(&self, agent: &PeerName) -> Result<Arc<ClientConfig>, CredentialsError> {
        self.prove_side(Role::Controller, agent)?;
        let provider = provider();
        let algorithms = provider.signature_verification_algorithms;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .expect("ring has suites of TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(PeerVerifier::new(&self.roots, Role::Agent, agent, algorithms))
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|source| CredentialsError::Pair { source })?;
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// A mistake in an own certificate is better found here than in the other side's refusals.
    fn prove_side(&self, side: Role, other: &PeerName) -> Result<(), CredentialsError> {
        let unreadable = |source| CredentialsError::Certificate { part: CredentialsPart::Certificate, source };
        let leaf = EndEntityCert::try_from(&self.chain[0]).map_err(unreadable)?;
        if peer::names(&leaf).any(|name| name.eq_ignore_ascii_case(other.as_str())) {
            return Err(CredentialsError::OtherSide { name: other.clone() });
        }
        // Its last second is within its time, whatever the clock of this machine says.
        match peer::prove_role(&leaf, side, self.not_after) {
            Ok(()) => Ok(()),
            Err(webpki::Error::RequiredEkuNotFoundContext(_) | webpki::Error::EmptyEkuExtension) => {
                Err(CredentialsError::Purpose { server: side == Role::Agent })
            }
            Err(source) => Err(unreadable(source)),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("not_after", &self.not_after()).finish_non_exhaustive()
    }
}

// === impl CredentialsError ===

impl CredentialsError {
    /// Which input is to be looked at first.
    pub fn part(&self) -> CredentialsPart {
        match self {
            Self::Pem { part, .. } | Self::Empty { part } | Self::Certificate { part, .. } => *part,
            Self::Purpose { .. } | Self::OtherSide { .. } => CredentialsPart::Certificate,
            Self::Pair { .. } => CredentialsPart::Key,
        }
    }
}

impl fmt::Display for CredentialsPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificate => "certificate",
            Self::Key => "key",
            Self::Ca => "CA",
        })
    }
}

// === impl ClientIdentity ===

impl ClientIdentity {
    /// For agents whose certificates name [`AGENT_NAME`].
    ///
    /// # Errors
    /// See [`Credentials::client_config`].
    pub fn new(credentials: &Credentials) -> Result<Self, CredentialsError> {
        Self::for_agents_named(AGENT_NAME.parse().expect("the default is a DNS name"), credentials)
    }

    /// For agents whose certificates name `agent_name`.
    ///
    /// # Errors
    /// See [`Credentials::client_config`].
    pub fn for_agents_named(agent_name: PeerName, credentials: &Credentials) -> Result<Self, CredentialsError> {
        let config = credentials.client_config(&agent_name)?;
        let current = Current { generation: 0, config, not_after: credentials.not_after() };
        Ok(Self { agent_name, current: RwLock::new(current) })
    }

    /// Takes renewed credentials: requests under way go on over their connections, later ones connect anew. On an error
    /// the present ones stay.
    ///
    /// # Errors
    /// See [`Credentials::client_config`].
    pub fn swap(&self, credentials: &Credentials) -> Result<(), CredentialsError> {
        let config = credentials.client_config(&self.agent_name)?;
        let mut current = self.current.write();
        let generation = current.generation + 1;
        *current = Current { generation, config, not_after: credentials.not_after() };
        Ok(())
    }

    /// When the present certificate ends.
    pub fn not_after(&self) -> NotAfter {
        self.current.read().not_after
    }

    /// The name that agents' certificates must have.
    pub fn agent_name(&self) -> &PeerName {
        &self.agent_name
    }

    pub(crate) fn current(&self) -> Current {
        self.current.read().clone()
    }
}

// === impl NotAfter ===

impl NotAfter {
    pub(crate) fn new(time: UnixTime) -> Self {
        Self(time)
    }

    /// Seconds since 1970.
    pub fn as_secs(self) -> u64 {
        self.0.as_secs()
    }
}

impl fmt::Display for NotAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.as_secs();
        let (year, month, day) = civil(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

pub(super) fn certificates(
    pem: &[u8],
    part: CredentialsPart,
) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|source| CredentialsError::Pem { part, source })?;
    if found.is_empty() {
        return Err(CredentialsError::Empty { part });
    }
    Ok(found)
}

/// HTTP/1.1 over sessions that are never resumed: a resumed one would skip the proof of identity, and would not see a
/// renewed certificate.
pub(super) fn never_resumed(mut config: ServerConfig) -> Arc<ServerConfig> {
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Year, month and day of a day since 1970 (Gregorian; years from March on, so that the leap day is the last).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::time::Duration;

    use super::*;

    fn pair(name: &str, usage: rcgen::ExtendedKeyUsagePurpose) -> (String, String) {
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        params.not_after = rcgen::date_time_ymd(2031, 12, 31);
        let key = rcgen::KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn shown(seconds: u64) -> String {
        NotAfter(UnixTime::since_unix_epoch(Duration::from_secs(seconds))).to_string()
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(shown(0), "1970-01-01T00:00:00Z");
        assert_eq!(shown(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(shown(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(shown(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn knows_the_end_and_prints_no_key() {
        let (certificate, key) = pair("haptic-controller", rcgen::ExtendedKeyUsagePurpose::ClientAuth);
        let read = Credentials::from_pem(certificate.as_bytes(), key.as_bytes(), certificate.as_bytes()).unwrap();
        assert_eq!(read.not_after().to_string(), "2031-12-31T00:00:00Z");
        assert_eq!(format!("{read:?}"), "Credentials { not_after: NotAfter(UnixTime(1956441600)), .. }");
    }

    #[test]
    fn a_swap_that_fails_keeps_the_present_credentials() {
        let credentials = |name, usage| {
            let (certificate, key) = pair(name, usage);
            Credentials::from_pem(certificate.as_bytes(), key.as_bytes(), certificate.as_bytes()).unwrap()
        };
        let right = || credentials("haptic-controller", rcgen::ExtendedKeyUsagePurpose::ClientAuth);
        let identity = ClientIdentity::new(&right()).unwrap();
        let agents = credentials("haptic-agent", rcgen::ExtendedKeyUsagePurpose::ServerAuth);
        assert!(matches!(identity.swap(&agents), Err(CredentialsError::OtherSide { .. })));
        let serving = credentials("haptic-controller", rcgen::ExtendedKeyUsagePurpose::ServerAuth);
        assert!(matches!(identity.swap(&serving), Err(CredentialsError::Purpose { server: false })));
        assert_eq!(identity.current().generation, 0);
        identity.swap(&right()).unwrap();
        assert_eq!(identity.current().generation, 1);
    }
}
