//! HTTP servers that are slow, endless, elsewhere or wrong.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use haptic_modules::{Fetcher, Limits, Reason, Transport};
use tokio::net::TcpListener;

use crate::parts::{MODULE, caching, fetcher, http, limits, refused};

/// Serves until the test's runtime ends.
async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A chunk at every tick, for ever.
fn endless(chunk: &'static [u8], pace: Duration) -> Body {
    let chunks = futures_util::stream::unfold(tokio::time::interval(pace), move |mut ticks| async move {
        ticks.tick().await;
        Some((Ok::<_, std::io::Error>(Bytes::from_static(chunk)), ticks))
    });
    Body::from_stream(chunks)
}

fn status_of(status: u16) -> Router {
    Router::new().route("/m.wasm", get(move || async move { StatusCode::from_u16(status).unwrap() }))
}

#[tokio::test]
async fn fetches_what_is_pinned_and_nothing_else() {
    let address = serve(
        Router::new()
            .route("/m.wasm", get(|| async { MODULE }))
            .route("/other.wasm", get(|| async { "something else" })),
    )
    .await;
    assert_eq!(fetcher().fetch(&http(&format!("http://{address}/m.wasm"))).await.unwrap(), MODULE);
    let error = refused(&fetcher(), &http(&format!("http://{address}/other.wasm")), Reason::DigestMismatch).await;
    assert!(error.to_string().contains("other.wasm"), "{error}");
    let unpinned = haptic_modules::Wanted { pin: None, ..http(&format!("http://{address}/m.wasm")) };
    refused(&fetcher(), &unpinned, Reason::NotPinned).await;
}

#[tokio::test]
async fn statuses_have_reasons() {
    let cases = [
        (404, Reason::NotFound),
        (410, Reason::NotFound),
        (401, Reason::Unauthorized),
        (403, Reason::Unauthorized),
        (429, Reason::ServerError),
        (500, Reason::ServerError),
        (204, Reason::DigestMismatch),
    ];
    for (status, reason) in cases {
        let address = serve(status_of(status)).await;
        refused(&fetcher(), &http(&format!("http://{address}/m.wasm")), reason).await;
    }
    for url in ["ftp://a/b", "http://", "m.wasm"] {
        refused(&fetcher(), &http(url), Reason::InvalidSource).await;
    }
}

#[tokio::test]
async fn an_endless_body_ends_at_the_limit() {
    const CHUNK: &[u8] = &[0; 1 << 16];
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = sent.clone();
    let body = move || {
        let counter = counter.clone();
        async move {
            let chunks = futures_util::stream::repeat_with(move || {
                counter.fetch_add(CHUNK.len(), Ordering::Relaxed);
                Ok::<_, std::io::Error>(Bytes::from_static(CHUNK))
            });
            Body::from_stream(chunks)
        }
    };
    let address = serve(Router::new().route("/m.wasm", get(body))).await;
    refused(&fetcher(), &http(&format!("http://{address}/m.wasm")), Reason::TooLarge).await;
    assert!(sent.load(Ordering::Relaxed) < 64 << 20, "the connection was closed at the limit");
}

#[tokio::test]
async fn a_body_that_says_it_is_too_large_is_not_read() {
    let lying = || async {
        Response::builder()
            .header(header::CONTENT_LENGTH, 5_u64 << 30)
            .body(endless(b"x", Duration::from_millis(20)))
            .unwrap()
    };
    let address = serve(Router::new().route("/m.wasm", get(lying))).await;
    refused(&fetcher(), &http(&format!("http://{address}/m.wasm")), Reason::TooLarge).await;
}

#[tokio::test]
async fn a_slow_body_ends_with_the_time() {
    let slow = || async { endless(b"x", Duration::from_millis(20)) };
    let silent = || async { std::future::pending::<StatusCode>().await };
    let address = serve(Router::new().route("/slow", get(slow)).route("/silent", get(silent))).await;
    let transport = Transport::new(Limits { total: Duration::from_millis(300), ..limits() }).unwrap();
    let fetcher = Fetcher::new(transport, None);
    for path in ["slow", "silent"] {
        refused(&fetcher, &http(&format!("http://{address}/{path}")), Reason::TimedOut).await;
    }
}

#[tokio::test]
async fn redirects_are_followed_within_the_scheme_and_a_bound() {
    let target = serve(Router::new().route("/m.wasm", get(|| async { MODULE }))).await;
    let here = Router::new()
        .route("/there", get(move || async move { Redirect::temporary(&format!("http://{target}/m.wasm")) }))
        .route("/loop", get(|| async { Redirect::permanent("/loop") }))
        .route("/tls", get(|| async { Redirect::temporary("https://example.invalid/m.wasm?token=hunter2") }))
        .route("/file", get(|| async { Redirect::temporary("file:///etc/passwd") }));
    let address = serve(here).await;
    let url = |path: &str| http(&format!("http://{address}/{path}"));
    assert_eq!(fetcher().fetch(&url("there")).await.unwrap(), MODULE);
    for path in ["loop", "tls", "file"] {
        let error = refused(&fetcher(), &url(path), Reason::RedirectRefused).await;
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn https_never_becomes_http() {
    let plain = serve(Router::new().route("/m.wasm", get(|| async { MODULE }))).await;
    let (address, authority) = tls::serve(&format!(
        "HTTP/1.1 302 Found\r\nLocation: http://{plain}/m.wasm\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    ))
    .await;
    let transport = Transport::trusting(limits(), &[authority.as_bytes()]).unwrap();
    let url = format!("https://localhost:{}/m.wasm", address.port());
    let error = refused(&Fetcher::new(transport, None), &http(&url), Reason::RedirectRefused).await;
    assert!(error.to_string().contains("another scheme"), "{error}");
    // Nobody vouches for it without the authority.
    refused(&fetcher(), &http(&url), Reason::Unreachable).await;
}

#[tokio::test]
async fn credentials_stay_with_their_server_and_out_of_errors() {
    let leaked = Arc::new(AtomicBool::new(false));
    let seen = leaked.clone();
    let other = serve(Router::new().route(
        "/m.wasm",
        get(move |headers: HeaderMap| {
            seen.fetch_or(headers.contains_key(header::AUTHORIZATION), Ordering::Relaxed);
            async { MODULE }
        }),
    ))
    .await;
    let guarded = move |headers: HeaderMap| async move {
        // user:pa ss in base64.
        match headers.get(header::AUTHORIZATION).map(axum::http::HeaderValue::as_bytes) {
            Some(b"Basic dXNlcjpwYSBzcw==") => Redirect::temporary(&format!("http://{other}/m.wasm")).into_response(),
            _ => StatusCode::UNAUTHORIZED.into_response(),
        }
    };
    let address = serve(Router::new().route("/m.wasm", get(guarded))).await;
    let good = http(&format!("http://user:pa%20ss@{address}/m.wasm?sig=hunter2"));
    assert_eq!(fetcher().fetch(&good).await.unwrap(), MODULE);
    assert!(!leaked.load(Ordering::Relaxed), "the other server was told the password");

    let bad = http(&format!("http://user:hunter2@{address}/m.wasm?sig=hunter2"));
    let error = refused(&fetcher(), &bad, Reason::Unauthorized).await;
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    let nobody = refused(&fetcher(), &http("http://user:hunter2@127.0.0.1:1/m?sig=hunter2"), Reason::Unreachable).await;
    assert!(!format!("{nobody:?}").contains("hunter2"), "{nobody:?}");
    for shown in [format!("{bad:?}"), format!("{:?}", bad.source)] {
        assert!(!shown.contains("hunter2") && !shown.contains("user"), "{shown}");
        assert!(shown.contains(&format!("http://{address}/m.wasm")), "{shown}");
    }
}

#[tokio::test]
async fn what_changes_at_its_address_is_refused_and_the_kept_one_stays() {
    let changed = Arc::new(AtomicBool::new(false));
    let now = changed.clone();
    let address = serve(Router::new().route(
        "/m.wasm",
        get(move || {
            let body: &[u8] = if now.load(Ordering::Relaxed) { b"changed" } else { MODULE };
            async move { body }
        }),
    ))
    .await;
    let folder = tempfile::tempdir().unwrap();
    let wanted = http(&format!("http://{address}/m.wasm"));
    assert_eq!(caching(folder.path()).fetch(&wanted).await.unwrap(), MODULE);
    changed.store(true, Ordering::Relaxed);
    assert_eq!(caching(folder.path()).fetch(&wanted).await.unwrap(), MODULE);
    refused(&fetcher(), &wanted, Reason::DigestMismatch).await;
}

mod tls {
    use std::sync::Arc;

    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer};
    use tokio::net::TcpListener;

    /// Answers every connection with `answer`; the certificate vouches for itself.
    pub(super) async fn serve(answer: &str) -> (std::net::SocketAddr, String) {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = answer.to_owned();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (stream, config, answer) = (stream.into_std().unwrap(), config.clone(), answer.clone());
                tokio::task::spawn_blocking(move || exchange(stream, config, &answer));
            }
        });
        (address, cert.pem())
    }

    /// A client that does not trust us is not an error of the server.
    fn exchange(mut stream: std::net::TcpStream, config: Arc<ServerConfig>, answer: &str) {
        use std::io::{Read as _, Write as _};
        let _ = stream.set_nonblocking(false);
        let Ok(mut connection) = rustls::ServerConnection::new(config) else { return };
        let mut tls = rustls::Stream::new(&mut connection, &mut stream);
        let mut head = [0; 4096];
        if tls.read(&mut head).is_ok() {
            let _ = tls.write_all(answer.as_bytes());
            tls.conn.send_close_notify();
            let _ = tls.flush();
        }
    }
}
