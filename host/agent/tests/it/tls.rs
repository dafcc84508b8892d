//! Who may talk to whom: real handshakes, every wrong kind of certificate on either side.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{error::Error as _, io, net::SocketAddr, sync::Arc};

use haptic_agent::{Agent, AgentConfig, MAX_CONNECTIONS, Refreshed, ServeError, ServerCertificates, TlsFilesError};
use haptic_wire::{
    AgentClient, ClientError, HandshakeError,
    tls::{CredentialsError, NotAfter},
};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use rustls::{
    AlertDescription, CertificateError, ServerConfig,
    version::{TLS12, TLS13},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{
    authority::{Authority, Issued, SecretVolume, Subject, Validity},
    common::{binary, until},
    service::{RawClient, Service, ask, chain, controller_of, files, identity, key},
};

fn authority() -> Authority {
    Authority::new("test CA").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn controller_and_agent_of_one_ca_talk() {
    let ca = authority();
    let service = Service::of(&ca).await;
    let client = service.client(controller_of(&ca));
    for _ in 0..3 {
        assert_eq!(client.state(false).await.unwrap().applied_plan, None);
    }
    assert!(!client.ready().await.unwrap());
    service.stop().await;
}

/// A server with any certificate, which takes every client.
async fn imposter(pair: &Issued) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain(pair), key(pair))
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that refuses this server is what is tested.
            let _ = acceptor.accept(stream).await;
        }
    });
    address
}

/// Why a right controller refuses a server that shows this certificate.
async fn refuses_agent(ca: &Authority, subject: &Subject) -> HandshakeError {
    let address = imposter(&ca.issue(subject).unwrap()).await;
    handshake_error(AgentClient::tls(address, controller_of(ca)).state(false).await.unwrap_err())
}

fn handshake_error(error: ClientError) -> HandshakeError {
    assert!(error.nothing_was_asked(), "{error}");
    match error {
        ClientError::Handshake { source, .. } => source,
        other => panic!("not a handshake: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_tells_apart_what_is_wrong_with_an_agent() {
    let ca = authority();
    let error = refuses_agent(&ca, &Subject::agent().named("haptic-controller")).await;
    assert!(
        matches!(&error, HandshakeError::WrongIdentity { expected, presented }
            if expected == "haptic-agent" && presented == &["haptic-controller"]),
        "{error:?}"
    );
    // A controller's certificate never passes for an agent's, even if its name did.
    let error = refuses_agent(&ca, &Subject::agent().usable_for(&[ClientAuth])).await;
    assert!(matches!(error, HandshakeError::WrongPurpose), "{error:?}");
    let error = refuses_agent(&ca, &Subject::agent().usable_for(&[])).await;
    assert!(matches!(error, HandshakeError::WrongPurpose), "{error:?}");
    let error = refuses_agent(&ca, &Subject::agent().named("*.haptic-agent")).await;
    assert!(matches!(error, HandshakeError::WrongIdentity { .. }), "{error:?}");

    let error = refuses_agent(&ca, &Subject::agent().valid(Validity::Expired)).await;
    assert!(matches!(error, HandshakeError::AgentExpired { .. }), "{error:?}");
    assert!(error.to_string().contains("2020-02-29T00:00:00Z"), "{error}");
    let error = refuses_agent(&ca, &Subject::agent().valid(Validity::NotYet)).await;
    assert!(matches!(error, HandshakeError::Untrusted { .. }), "{error:?}");

    for other in [authority(), Authority::new("another CA").unwrap()] {
        let address = imposter(&other.issue(&Subject::agent()).unwrap()).await;
        let error = AgentClient::tls(address, controller_of(&ca)).state(false).await.unwrap_err();
        let error = handshake_error(error);
        assert!(
            matches!(&error, HandshakeError::Untrusted { source: rustls::Error::InvalidCertificate(reason) }
                if *reason == CertificateError::UnknownIssuer),
            "{error:?}"
        );
    }
}

/// Why a right agent refuses a controller that shows this certificate.
async fn refused_by_agent(service: &Service, pair: &Issued, trusts: &Authority) -> HandshakeError {
    handshake_error(service.client(identity(pair, trusts.pem())).state(false).await.unwrap_err())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_learns_why_an_agent_refuses_it() {
    let ca = authority();
    let service = Service::of(&ca).await;
    let refused = async |subject: Subject| refused_by_agent(&service, &ca.issue(&subject).unwrap(), &ca).await;

    let error = refused(Subject::controller().named("somebody")).await;
    assert!(matches!(error, HandshakeError::RefusedByAgent { alert: AlertDescription::BadCertificate }), "{error:?}");
    let error = refused(Subject::controller().valid(Validity::Expired)).await;
    assert!(matches!(error, HandshakeError::OwnExpired { .. }), "{error:?}");
    assert!(error.to_string().contains("2020-02-29T00:00:00Z"), "{error}");

    // The first one has the name of the right one: a CA that was made anew.
    for other in [authority(), Authority::new("another CA").unwrap()] {
        let stranger = other.issue(&Subject::controller()).unwrap();
        let error = refused_by_agent(&service, &stranger, &ca).await;
        assert!(matches!(error, HandshakeError::RefusedByAgent { alert: AlertDescription::UnknownCA }), "{error:?}");
    }
}

/// What an agent answers to a client that rustls alone would make.
async fn alert(service: &Service, client: RawClient<'_>) -> AlertDescription {
    let outcome = match service.raw(client).await {
        Ok(mut stream) => ask(&mut stream, "/healthz").await,
        Err(error) => Err(error),
    };
    let error = outcome.expect_err("the agent refuses this client");
    let reason = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match reason {
        Some(rustls::Error::AlertReceived(alert)) => *alert,
        _ => panic!("no alert: {error:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_refuses_clients_without_the_identity_or_the_version() {
    let ca = authority();
    let service = Service::of(&ca).await;
    let controller = ca.issue(&Subject::controller()).unwrap();
    let right = RawClient { trusts: ca.pem(), shows: Some(&controller), version: &TLS13 };
    assert_eq!(
        alert(&service, RawClient { trusts: ca.pem(), shows: None, version: &TLS13 }).await,
        AlertDescription::CertificateRequired
    );
    assert_eq!(alert(&service, RawClient { version: &TLS12, ..right }).await, AlertDescription::ProtocolVersion);
    // An agent's certificate never passes for a controller's, even if its name did.
    let wrong = [
        (Subject::agent(), AlertDescription::UnsupportedCertificate),
        (Subject::controller().usable_for(&[ServerAuth]), AlertDescription::UnsupportedCertificate),
        (Subject::controller().usable_for(&[]), AlertDescription::UnsupportedCertificate),
        (Subject::agent().usable_for(&[ServerAuth, ClientAuth]), AlertDescription::BadCertificate),
    ];
    for (subject, expected) in wrong {
        let pair = ca.issue(&subject).unwrap();
        assert_eq!(alert(&service, RawClient { shows: Some(&pair), ..right }).await, expected, "{subject:?}");
    }

    let mut stream = service.raw(right).await.unwrap();
    let answer = ask(&mut stream, "/healthz").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_speak_tls_is_unreachable_or_no_agent() {
    let ca = authority();
    let service = Service::of(&ca).await;
    let mut plain = TcpStream::connect(service.address).await.unwrap();
    plain.write_all(b"GET /v1/state HTTP/1.1\r\nHost: agent\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).await.unwrap();
    assert!(!answer.windows(4).any(|bytes| bytes == b"HTTP"), "no HTTP without TLS: {answer:?}");

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let error = AgentClient::tls(address, controller_of(&ca)).state(false).await.unwrap_err();
    assert!(matches!(handshake_error(error), HandshakeError::Protocol { .. }));

    // Bound and dropped: nobody listens there.
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = AgentClient::tls(nobody, controller_of(&ca)).state(false).await.unwrap_err();
    assert!(matches!(&error, ClientError::Connect { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused));
    assert!(error.nothing_was_asked());
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_strangers_keep_nobody_out() {
    let ca = authority();
    let service = Service::of(&ca).await;
    let mut strangers = Vec::new();
    for number in 0..3 * MAX_CONNECTIONS {
        let mut stream = TcpStream::connect(service.address).await.unwrap();
        if number % 2 == 0 {
            // The beginning of a TLS record that never ends.
            stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        }
        strangers.push(stream);
    }
    let client = service.client(controller_of(&ca));
    client.state(false).await.unwrap();
    // The first ones had to make room for the last ones.
    assert_eq!(strangers[0].read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_survives_the_restart_of_its_agent() {
    let ca = authority();
    let service = Service::of(&ca).await;
    let client = service.client(controller_of(&ca));
    client.state(false).await.unwrap();
    let address = service.address;
    service.stop().await;
    let error = client.state(false).await.unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error:?}");
    let again = Service::start(&ca.issue(&Subject::agent()).unwrap(), ca.pem(), address).await;
    client.state(false).await.unwrap();
    again.stop().await;
}

#[test]
fn an_agent_does_not_start_with_the_wrong_certificate() {
    let ca = authority();
    let directory = tempfile::tempdir().unwrap();
    let controller = "haptic-controller".parse::<haptic_wire::tls::PeerName>().unwrap();
    let mut number = 0;
    let mut refused = |pair: &Issued, client_ca: &str| {
        number += 1;
        let volume = SecretVolume::mount(&directory.path().join(number.to_string()), pair, client_ca).unwrap();
        let error = ServerCertificates::load(files(&volume), controller.clone()).unwrap_err();
        let TlsFilesError::Content { path, source } = error else { panic!("{error:?}") };
        (path.file_name().unwrap().to_str().unwrap().to_owned(), source)
    };
    let right = ca.issue(&Subject::agent()).unwrap();
    let (file, error) = refused(&ca.issue(&Subject::agent().usable_for(&[ClientAuth])).unwrap(), ca.pem());
    assert!(file == "tls.crt" && matches!(error, CredentialsError::Purpose { server: true }), "{file}: {error}");
    let (file, error) = refused(&ca.issue(&Subject::agent().named("haptic-controller")).unwrap(), ca.pem());
    assert!(file == "tls.crt" && matches!(error, CredentialsError::OtherSide { .. }), "{file}: {error}");
    let other_key = Issued { key: ca.issue(&Subject::agent()).unwrap().key, ..right.clone() };
    let (file, error) = refused(&other_key, ca.pem());
    assert!(file == "tls.key" && matches!(error, CredentialsError::Pair { .. }), "{file}: {error}");
    let half = Issued { certificate: right.certificate[..right.certificate.len() / 2].to_owned(), ..right.clone() };
    let (file, error) = refused(&half, ca.pem());
    assert!(file == "tls.crt" && matches!(error, CredentialsError::Pem { .. }), "{file}: {error}");
    let (file, error) = refused(&right, "");
    assert!(file == "ca.crt" && matches!(error, CredentialsError::Empty { .. }), "{file}: {error}");

    let volume = SecretVolume::mount(&directory.path().join("right"), &right, ca.pem()).unwrap();
    let loaded = ServerCertificates::load(files(&volume), controller.clone()).unwrap();
    let never: NotAfter = loaded.not_after();
    assert_eq!(never.to_string(), "4096-01-01T00:00:00Z");
    std::fs::remove_file(volume.path("tls.key")).unwrap();
    let error = ServerCertificates::load(files(&volume), controller).unwrap_err();
    assert!(error.to_string().contains("tls.key") && error.source().is_some(), "{error}");
}

#[test]
fn broken_files_keep_the_present_certificate_and_whole_ones_replace_it() {
    let ca = authority();
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (ca.issue(&Subject::agent()).unwrap(), ca.issue(&Subject::agent()).unwrap());
    let mut volume = SecretVolume::mount(directory.path(), &first, ca.pem()).unwrap();
    let served = ServerCertificates::load(files(&volume), "haptic-controller".parse().unwrap()).unwrap();
    assert_eq!(served.refresh(), Refreshed::Unchanged);

    let mixed = Issued { key: first.key.clone(), ..second.clone() };
    let half = Issued { key: second.key[..second.key.len() / 2].to_owned(), ..second.clone() };
    let ended = Subject::agent().usable_for(&[ClientAuth]);
    for broken in [mixed, half, ca.issue(&ended).unwrap()] {
        volume.update(&broken, ca.pem()).unwrap();
        assert_eq!((served.refresh(), served.refresh()), (Refreshed::Kept, Refreshed::Kept));
    }
    std::fs::rename(volume.path("..data"), volume.path("..gone")).unwrap();
    assert_eq!(served.refresh(), Refreshed::Kept);
    std::fs::rename(volume.path("..gone"), volume.path("..data")).unwrap();

    volume.update(&second, ca.pem()).unwrap();
    assert_eq!((served.refresh(), served.refresh()), (Refreshed::Taken, Refreshed::Unchanged));
    // Back to what was there before is a change too.
    volume.update(&first, ca.pem()).unwrap();
    assert_eq!(served.refresh(), Refreshed::Taken);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tls_only_loopback_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let config = AgentConfig::new(&path("base"), &path("state"), &path("run"), binary("3.4"));
    let (agent, task) = Agent::open(config).await.unwrap();
    let shutdown = CancellationToken::new();
    let work = tokio::spawn(task.run(shutdown.clone()));
    let everywhere = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = agent.serve_loopback(everywhere, shutdown.clone()).await;
    assert!(matches!(refused, Err(ServeError::NotLoopback { .. })), "{refused:?}");

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let ends = shutdown.clone();
    let server = tokio::spawn(async move { agent.serve_loopback(listener, ends).await });
    until("the API answers on loopback", async || {
        let Ok(mut stream) = TcpStream::connect(address).await else { return false };
        stream.write_all(b"GET /v1/state?plan=0 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.starts_with("HTTP/1.1 200")
    })
    .await;
    shutdown.cancel();
    server.await.unwrap().unwrap();
    work.await.unwrap().unwrap();
}
