//! HTTPS requests that look at the certificate instead of judging it.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};

use crate::{
    Issued,
    http::{Answer, Persistence, parse_answer, request_text},
};

const BOUND: Duration = Duration::from_secs(5);

/// The server name that a client sends.
#[derive(Clone, Copy, Debug)]
pub enum Sni<'a> {
    Name(&'a str),
    Absent,
}

/// Fetches `/` of `host` over TLS; also the leaf certificate that the server proved to own.
pub async fn get(address: SocketAddr, sni: Sni<'_>, host: &str) -> Result<(Answer, CertificateDer<'static>)> {
    let (name, enable_sni) = match sni {
        Sni::Name(name) => (ServerName::try_from(name.to_owned()).context("read the server name")?, true),
        Sni::Absent => (ServerName::from(address.ip()), false),
    };
    let text = request_text(host, "/", Persistence::Close);
    let exchange = move || exchange(address, name, enable_sni, None, &text);
    tokio::task::spawn_blocking(exchange).await.context("run a request")?
}

/// Fetches `path` from a server that wants to know who asks.
pub async fn get_as(address: SocketAddr, identity: &Issued, path: &str) -> Result<Answer> {
    let name = ServerName::from(address.ip());
    let (identity, text) = (identity.clone(), request_text("localhost", path, Persistence::Close));
    let exchange = move || exchange(address, name, false, Some(&identity), &text);
    tokio::task::spawn_blocking(exchange).await.context("run a request")?.map(|(answer, _)| answer)
}

/// The leaf certificate that a server proves to own to somebody who may ask.
pub async fn leaf_for(address: SocketAddr, identity: &Issued) -> Result<CertificateDer<'static>> {
    let name = ServerName::from(address.ip());
    let (identity, text) = (identity.clone(), request_text("localhost", "/v1/state", Persistence::Close));
    let exchange = move || exchange(address, name, false, Some(&identity), &text);
    tokio::task::spawn_blocking(exchange).await.context("run a request")?.map(|(_, leaf)| leaf)
}

fn exchange(
    address: SocketAddr,
    name: ServerName<'static>,
    enable_sni: bool,
    identity: Option<&Issued>,
    text: &str,
) -> Result<(Answer, CertificateDer<'static>)> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .context("choose TLS versions")?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)));
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(pair) => {
            let certificate =
                CertificateDer::from_pem_slice(pair.certificate.as_bytes()).context("read a certificate")?;
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).context("read a key")?;
            config.with_client_auth_cert(vec![certificate], key).context("use a certificate")?
        }
    };
    config.enable_sni = enable_sni;
    let tcp = TcpStream::connect_timeout(&address, BOUND).with_context(|| format!("connect to {address}"))?;
    tcp.set_read_timeout(Some(BOUND)).context("bound the wait for an answer")?;
    let session = ClientConnection::new(Arc::new(config), name).context("start a TLS session")?;
    let mut stream = StreamOwned::new(session, tcp);
    stream.write_all(text.as_bytes()).context("send a request over TLS")?;
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    let answer = loop {
        let read = stream.read(&mut chunk).context("read an answer over TLS")?;
        bytes.extend_from_slice(&chunk[..read]);
        if let Some(answer) = parse_answer(&mut bytes, read == 0)? {
            break answer;
        }
    };
    let leaf = stream.conn.peer_certificates().and_then(<[_]>::first).context("the server showed no certificate")?;
    Ok((answer, leaf.clone().into_owned()))
}

/// Trusts every certificate whose key signs the handshake.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

// === impl AnyCertificate ===

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
