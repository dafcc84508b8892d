#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path};

use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::CertificateDer},
};

use super::*;
use crate::{clock::WallClock, cluster::probes::Health};

const NAME: &str = "haptic-webhook.haptic.svc";
const BOUND: Duration = Duration::from_secs(30);

type Client = TlsStream<TcpStream>;

/// A self-signed certificate in the folder.
fn renew(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
    fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

/// As an API server that trusts this certificate alone.
async fn connect(address: SocketAddr, trusted: &CertificateDer<'static>) -> std::io::Result<Client> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(NAME.try_into().unwrap(), stream).await
}

async fn connected(address: SocketAddr, trusted: &CertificateDer<'static>) -> Client {
    let trying = async {
        loop {
            match connect(address, trusted).await {
                Ok(client) => return client,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    timeout(BOUND, trying).await.expect("a connection in time")
}

async fn ask(client: &mut Client) -> String {
    client.write_all(b"GET /validate HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let reading = async {
        while !answer.ends_with(b"judged") {
            let mut more = [0; 512];
            let count = client.read(&mut more).await.unwrap();
            assert_ne!(count, 0, "the connection ended");
            answer.extend_from_slice(&more[..count]);
        }
    };
    timeout(BOUND, reading).await.expect("an answer in time");
    String::from_utf8(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_certificate_is_for_new_connections_and_those_that_are_there_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let health = Health::default();
    health.iteration(1).serving();
    let certificate = WebhookCertificate::new(folder.path().to_owned(), health.clone(), WallClock::fixed(0));
    let router = Router::new().route("/validate", get(async || "judged"));
    let server = Server::bind(([127, 0, 0, 1], 0).into(), certificate, router).await.unwrap();
    let address = server.address();
    let end = CancellationToken::new();
    let running = tokio::spawn(server.run(end.clone()));

    // Without a certificate a connection ends at once, so that an API server does not wait.
    let unknown = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap().cert.der().clone();
    assert!(timeout(BOUND, connect(address, &unknown)).await.expect("an end in time").is_err());
    assert!(!health.readyz().ok);

    let first = renew(folder.path());
    let mut kept = connected(address, &first).await;
    assert!(health.readyz().ok);
    assert!(ask(&mut kept).await.starts_with("HTTP/1.1 200"));

    let second = renew(folder.path());
    let mut new = connected(address, &second).await;
    assert!(ask(&mut new).await.starts_with("HTTP/1.1 200"));
    assert!(ask(&mut kept).await.starts_with("HTTP/1.1 200"), "it goes on over its connection");
    assert!(connect(address, &first).await.is_err(), "the earlier certificate is shown to nobody any more");

    // Whoever has not heard of the end is still answered.
    end.cancel();
    let mut late = connected(address, &second).await;
    assert!(ask(&mut late).await.starts_with("HTTP/1.1 200"));
    assert!(ask(&mut kept).await.starts_with("HTTP/1.1 200"));
    timeout(BOUND, running).await.expect("it ends").unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    assert_eq!(kept.read(&mut [0; 1]).await.unwrap_or(0), 0, "and connections are closed");
}

#[tokio::test]
async fn one_connection_too_many_displaces_the_oldest_that_is_idle() {
    let mut seats = VecDeque::new();
    let mut tasks = JoinSet::new();
    for busy in [true, false, false] {
        let connection = tasks.spawn(std::future::pending::<()>());
        seats.push_back(Seat { connection, busy: Arc::new(AtomicBool::new(busy)) });
    }
    assert!(displace(&mut seats));
    assert_eq!(seats.iter().map(|seat| seat.busy.load(Ordering::Relaxed)).collect::<Vec<_>>(), [true, false]);
    assert!(tasks.join_next().await.unwrap().unwrap_err().is_cancelled());
    assert!(displace(&mut seats));
    assert!(!displace(&mut seats), "nobody who waits for an answer is cut");
    tasks.shutdown().await;
}
