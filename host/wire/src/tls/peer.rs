//! The proof of the other side's identity.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use rustls_pki_types::{CertificateDer, DnsName, ServerName, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

/// `id-kp-serverAuth` and `id-kp-clientAuth` of RFC 5280, as encoded in a certificate.
const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
const CLIENT_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];

/// A DNS name that stands for a role and not for a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerName(DnsName<'static>);

/// What a certificate must be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The agent, which is the TLS server.
    Agent,
    /// The controller, which is the TLS client.
    Controller,
}

/// Takes only certificates of the given roots, in time, of the given role and name.
#[derive(Debug)]
pub(super) struct PeerVerifier {
    roots: Vec<TrustAnchor<'static>>,
    subjects: Vec<DistinguishedName>,
    role: Role,
    name: PeerName,
    algorithms: WebPkiSupportedAlgorithms,
}

// === impl PeerName ===

impl PeerName {
    /// The name as in a certificate.
    pub fn as_str(&self) -> &str {
        self.0.as_ref()
    }

    pub(crate) fn server_name(&self) -> ServerName<'static> {
        ServerName::DnsName(self.0.clone())
    }
}

impl FromStr for PeerName {
    type Err = rustls_pki_types::InvalidDnsNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        DnsName::try_from(text.to_owned()).map(Self)
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Role ===

impl Role {
    fn purpose(self) -> &'static [u8] {
        match self {
            Self::Agent => SERVER_AUTH,
            Self::Controller => CLIENT_AUTH,
        }
    }
}

// === impl PeerVerifier ===

impl PeerVerifier {
    pub(super) fn new(
        roots: &[TrustAnchor<'static>],
        role: Role,
        name: &PeerName,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Arc<Self> {
        // The subject of an anchor is what stands inside its SEQUENCE.
        let subjects = roots.iter().map(|root| DistinguishedName::in_sequence(&root.subject)).collect();
        Arc::new(Self { roots: roots.to_vec(), subjects, role, name: name.clone(), algorithms })
    }

    fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let certificate = EndEntityCert::try_from(leaf).map_err(refusal)?;
        // An intermediate need not name a purpose; one that does must name this one.
        let usage = KeyUsage::required_if_present(self.role.purpose());
        certificate
            .verify_for_usage(self.algorithms.all, &self.roots, intermediates, now, usage, None, None)
            .map_err(refusal)?;
        prove_role(&certificate, self.role, now).map_err(refusal)?;
        prove_name(&certificate, &self.name)
    }
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.verify(end_entity, intermediates, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for PeerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.verify(end_entity, intermediates, now).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// That the certificate itself names the purpose.
pub(super) fn prove_role(certificate: &EndEntityCert<'_>, role: Role, now: UnixTime) -> Result<(), webpki::Error> {
    match alone(certificate, KeyUsage::required(role.purpose()), now) {
        webpki::Error::UnknownIssuer => Ok(()),
        error => Err(error),
    }
}

/// When the certificate ends to be valid.
pub(super) fn not_after(certificate: &EndEntityCert<'_>) -> Result<UnixTime, webpki::Error> {
    let end_of_time = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
    match alone(certificate, KeyUsage::required_if_present(SERVER_AUTH), end_of_time) {
        webpki::Error::CertExpired { not_after, .. } => Ok(not_after),
        error => Err(error),
    }
}

/// What is wrong with a certificate that nobody is asked to vouch for. All that it says of itself is judged before its
/// issuer is looked for, so "unknown issuer" means that nothing else is wrong.
fn alone(certificate: &EndEntityCert<'_>, usage: KeyUsage, now: UnixTime) -> webpki::Error {
    match certificate.verify_for_usage(&[], &[], &[], now, usage, None, None) {
        Ok(_) => webpki::Error::UnknownIssuer,
        Err(error) => error,
    }
}

/// Letter for letter: a wildcard stands for places, and a role is no place.
fn prove_name(certificate: &EndEntityCert<'_>, name: &PeerName) -> Result<(), rustls::Error> {
    if names(certificate).any(|presented| presented.eq_ignore_ascii_case(name.as_str())) {
        return Ok(());
    }
    let presented = names(certificate).map(str::to_owned).collect();
    Err(CertificateError::NotValidForNameContext { expected: name.server_name(), presented }.into())
}

pub(super) fn names<'a>(certificate: &EndEntityCert<'a>) -> impl Iterator<Item = &'a str> {
    certificate.valid_dns_names()
}

/// Keeps what a person needs: times and names.
fn refusal(error: webpki::Error) -> rustls::Error {
    use webpki::Error as Reason;
    let reason = match error {
        Reason::CertExpired { time, not_after } => CertificateError::ExpiredContext { time, not_after },
        Reason::CertNotValidYet { time, not_before } => CertificateError::NotValidYetContext { time, not_before },
        // A CA that was made anew under the same name: its old certificates are those of another CA.
        Reason::UnknownIssuer | Reason::InvalidSignatureForPublicKey => CertificateError::UnknownIssuer,
        Reason::RequiredEkuNotFoundContext(_) | Reason::EmptyEkuExtension => CertificateError::InvalidPurpose,
        Reason::BadDer | Reason::BadDerTime | Reason::TrailingData(_) => CertificateError::BadEncoding,
        other => CertificateError::Other(OtherError(Arc::new(other))),
    };
    reason.into()
}
