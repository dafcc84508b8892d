//! A proxy before the real API server that does what a server does only on its bad days.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use futures_util::StreamExt as _;
use haptic_kubernetes::{Access, Api, Client, Limits, connect};
use http::StatusCode;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

pub(crate) struct FaultProxy {
    url: String,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

/// What happens instead of an answer.
pub(crate) enum Fault {
    /// The connection breaks.
    Broken,
    /// An error status, perhaps with the header that says when to come back.
    Status(StatusCode, Option<u64>),
    /// A whole answer, such as one of the past.
    Answer(Bytes),
    /// One line of a watch, and then an end in order.
    Event(String),
    /// The answer comes, but breaks off after so many bytes.
    CutAfter(usize),
    /// Nothing comes until the fault is taken away, and then the connection breaks.
    Silence,
}

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    /// Method, path and query.
    pub(crate) what: String,
}

struct Shared {
    upstream: Client,
    rule: Mutex<Option<Rule>>,
    seen: Mutex<Vec<Seen>>,
    /// Counts the times when all answers under way were cut.
    cut: watch::Sender<u64>,
}

type Rule = Box<dyn FnMut(&str) -> Option<Fault> + Send>;

// === impl FaultProxy ===

impl FaultProxy {
    /// Passes everything on at first, with the credentials of `upstream`.
    pub(crate) async fn start(upstream: Client) -> Result<Self> {
        let shared = Arc::new(Shared {
            upstream,
            rule: Mutex::new(None),
            seen: Mutex::new(Vec::new()),
            cut: watch::Sender::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let router = Router::new().fallback(pass).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("the listener stays open");
        });
        Ok(Self { url, shared, server })
    }

    pub(crate) async fn api(&self, limits: Limits) -> Result<Api> {
        let access = Access::Plain { url: self.url.clone() };
        Ok(Api::new(connect(&access, Duration::from_secs(5)).await?, limits))
    }

    /// From now on the rule decides; it sees method, path and query.
    pub(crate) fn rule(&self, rule: impl FnMut(&str) -> Option<Fault> + Send + 'static) {
        *self.shared.rule.lock() = Some(Box::new(rule));
    }

    /// Every request is passed on again.
    pub(crate) fn heal(&self) {
        *self.shared.rule.lock() = None;
        self.cut();
    }

    /// Breaks all answers that are under way.
    pub(crate) fn cut(&self) {
        self.shared.cut.send_modify(|cut| *cut += 1);
    }

    /// The requests so far whose method, path and query contain all of these.
    pub(crate) fn seen(&self, parts: &[&str]) -> Vec<Seen> {
        let seen = self.shared.seen.lock();
        seen.iter().filter(|seen| parts.iter().all(|part| seen.what.contains(part))).cloned().collect()
    }

    pub(crate) fn forget_seen(&self) {
        self.shared.seen.lock().clear();
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let what = format!("{} {}", request.method(), request.uri());
    shared.seen.lock().push(Seen { at: Instant::now(), what: what.clone() });
    let mut cut = shared.cut.subscribe();
    let fault = shared.rule.lock().as_mut().and_then(|rule| rule(&what));
    let keep = match fault {
        None => usize::MAX,
        Some(Fault::CutAfter(bytes)) => bytes,
        Some(Fault::Broken) => return broken().into_response(),
        Some(Fault::Status(status, retry_after)) => {
            let header = retry_after.map(|seconds| [("retry-after", seconds.to_string())]);
            return (status, header.map(axum::response::AppendHeaders), "a fault").into_response();
        }
        Some(Fault::Answer(body)) => return body.into_response(),
        Some(Fault::Event(line)) => return (line + "\n").into_response(),
        Some(Fault::Silence) => {
            let _ = cut.changed().await;
            return broken().into_response();
        }
    };
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return broken().into_response() };
    let request = http::Request::from_parts(parts, kube::client::Body::from(body.to_bytes()));
    let Ok(answer) = shared.upstream.send(request).await else { return broken().into_response() };
    let (parts, body) = answer.into_parts();
    let mut left = keep;
    let data = body.into_data_stream().map(move |data| {
        let data = data.map_err(std::io::Error::other)?;
        if data.len() > left {
            return Err(std::io::Error::other("cut"));
        }
        left -= data.len();
        Ok(data)
    });
    // An error in the middle, not an end: that is what tells a broken answer from a whole one.
    let ended = async move {
        let _ = cut.changed().await;
    };
    let stopped = futures_util::stream::once(ended).map(|()| Err(std::io::Error::other("cut")));
    let stream = futures_util::stream::select(
        data.map(Some).chain(futures_util::stream::once(async { None })),
        stopped.map(Some),
    )
    .take_while(|item| std::future::ready(item.is_some()))
    .filter_map(std::future::ready);
    let mut response = Response::new(Body::from_stream(stream));
    *response.status_mut() = parts.status;
    for (name, value) in &parts.headers {
        // The body may be cut, so its length is not promised.
        if name != http::header::CONTENT_LENGTH && name != http::header::TRANSFER_ENCODING {
            response.headers_mut().insert(name.clone(), value.clone());
        }
    }
    response
}

/// An answer that breaks before anything of it was sent.
fn broken() -> Body {
    Body::from_stream(futures_util::stream::once(async { Err::<Bytes, _>(std::io::Error::other("broken")) }))
}
