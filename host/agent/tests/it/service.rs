//! An agent behind TLS, without a HAProxy: what this part is about is who may ask.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{net::SocketAddr, sync::Arc};

use haptic_agent::{Agent, AgentConfig, AgentError, ServerCertificates, TlsFiles};
use haptic_wire::{
    AgentClient,
    tls::{ClientIdentity, Credentials},
};
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;

use crate::{
    authority::{Authority, Issued, SecretVolume, Subject},
    common::binary,
};

pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    pub(crate) volume: SecretVolume,
    shutdown: CancellationToken,
    work: JoinHandle<Result<(), AgentError>>,
    server: JoinHandle<()>,
    _directory: tempfile::TempDir,
}

// === impl Service ===

impl Service {
    /// With an agent's certificate of `ca`, for controllers of the same CA.
    pub(crate) async fn of(ca: &Authority) -> Self {
        Self::start(&ca.issue(&Subject::agent()).unwrap(), ca.pem(), "127.0.0.1:0".parse().unwrap()).await
    }

    pub(crate) async fn start(pair: &Issued, client_ca: &str, address: SocketAddr) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let volume = SecretVolume::mount(&path("tls"), pair, client_ca).unwrap();
        let certificates = ServerCertificates::load(files(&volume), "haptic-controller".parse().unwrap()).unwrap();
        let config = AgentConfig::new(&path("base"), &path("state"), &path("run"), binary("3.4"));
        let (agent, task) = Agent::open(config).await.unwrap();
        let shutdown = CancellationToken::new();
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let ends = shutdown.clone();
        let work = tokio::spawn(task.run(shutdown.clone()));
        let server = tokio::spawn(async move { agent.serve_tls(listener, &certificates, ends).await });
        Self { address, volume, shutdown, work, server, _directory: directory }
    }

    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
        (&mut self.work).await.unwrap().unwrap();
        (&mut self.server).await.unwrap();
    }

    pub(crate) fn client(&self, identity: Arc<ClientIdentity>) -> AgentClient {
        AgentClient::tls(self.address, identity)
    }

    /// A TLS client that does only what it is told.
    pub(crate) async fn raw(&self, client: RawClient<'_>) -> std::io::Result<TlsStream<TcpStream>> {
        let connector = TlsConnector::from(Arc::new(client.config()));
        let stream = TcpStream::connect(self.address).await?;
        connector.connect(ServerName::try_from("haptic-agent").unwrap(), stream).await
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// A client as rustls makes it, without this house's rules.
#[derive(Clone, Copy)]
pub(crate) struct RawClient<'a> {
    /// CA of the server.
    pub(crate) trusts: &'a str,
    pub(crate) shows: Option<&'a Issued>,
    pub(crate) version: &'static SupportedProtocolVersion,
}

// === impl RawClient ===

impl RawClient<'_> {
    fn config(self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(self.trusts.as_bytes()).map(Result::unwrap));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[self.version])
            .unwrap()
            .with_root_certificates(roots);
        match self.shows {
            Some(pair) => config.with_client_auth_cert(chain(pair), key(pair)).unwrap(),
            None => config.with_no_client_auth(),
        }
    }
}

pub(crate) fn files(volume: &SecretVolume) -> TlsFiles {
    TlsFiles { certificate: volume.path("tls.crt"), key: volume.path("tls.key"), client_ca: volume.path("ca.crt") }
}

pub(crate) fn credentials(pair: &Issued, ca: &str) -> Credentials {
    Credentials::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes(), ca.as_bytes()).unwrap()
}

pub(crate) fn identity(pair: &Issued, ca: &str) -> Arc<ClientIdentity> {
    Arc::new(ClientIdentity::new(&credentials(pair, ca)).unwrap())
}

pub(crate) fn controller_of(ca: &Authority) -> Arc<ClientIdentity> {
    identity(&ca.issue(&Subject::controller()).unwrap(), ca.pem())
}

pub(crate) fn chain(pair: &Issued) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).map(Result::unwrap).collect()
}

pub(crate) fn key(pair: &Issued) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap()
}

/// Asks `GET path` and gives back the whole answer, or why there is none.
pub(crate) async fn ask(stream: &mut TlsStream<TcpStream>, path: &str) -> std::io::Result<String> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: agent\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).await?;
        answer.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&answer);
        // Every answer that is asked for here is short and ends with its body's line.
        if read == 0 || text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.ends_with('\n')) {
            return Ok(text.into_owned());
        }
    }
}
