//! The servers: plain HTTP with one request a connection, and a bound on everything a client can hold.
//!
//! Bounds: [`Limits`]; one connection too many displaces the oldest, so that clients that hang never shut out a probe.
//! Bodies are not read.

use std::{collections::VecDeque, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Query, State},
    http::{StatusCode, header},
    middleware::from_fn,
    response::{IntoResponse, Response},
    routing::get,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use parking_lot::RwLock;
use prometheus_client::{encoding::text, registry::Registry};
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::probes::{Debugged, Health, Report, loopback, page},
    commentator::History,
    events::Correlation,
};

/// The most of a request's head that is kept, in bytes.
const HEAD_BYTES: usize = 16 << 10;
/// What is left of the machine's descriptors gets time to come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Metrics that are registered while they are already served.
pub type SharedRegistry = Arc<RwLock<Registry>>;

/// `/healthz`, `/readyz` and `/livez`, for a kubelet: it has no identity, so they tell no secret and change nothing.
pub struct ProbeServer(Server);

/// The status page, `/debug/status`, `/debug/explain`, `/debug/events`, `/debug/vars` and `/metrics`, for a person on
/// this machine or through a port-forward.
pub struct DebugServer(Server);

/// `/metrics` alone, for a Prometheus that comes from elsewhere.
pub struct MetricsServer(Server);

#[derive(Debug, Error)]
pub enum ServeError {
    #[error(
        "the debug server answers everybody who reaches it, and {address} is not a loopback address; use one such as \
         127.0.0.1:6060 and reach it with kubectl port-forward, or serve metrics alone at another address"
    )]
    NotLoopback { address: SocketAddr },
    #[error("could not listen on {address}; look whether the address is this machine's and its port is free")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
}

/// What a client can hold of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// At a time. Default: 64.
    pub(super) connections: usize,
    /// How long a client may take to say what it wants. Default: 5 s.
    pub(super) head: Duration,
    /// How long a connection may take in all, its answer being read included. Default: 30 s.
    pub(super) connection: Duration,
}

struct Server {
    name: &'static str,
    limits: Limits,
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
}

#[derive(Clone)]
struct Inspected {
    health: Health,
    history: History,
    debugged: Debugged,
}

#[derive(Deserialize)]
struct EventsQuery {
    /// E.g. `r12`, as log lines have it, or `12`.
    correlation: Option<String>,
}

// === impl ProbeServer ===

impl ProbeServer {
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn bind(address: SocketAddr, health: Health) -> Result<Self, ServeError> {
        Self::bind_within(Limits::default(), address, health).await
    }

    pub(super) async fn bind_within(limits: Limits, address: SocketAddr, health: Health) -> Result<Self, ServeError> {
        let router = Router::new()
            .route("/healthz", get(|State(health): State<Health>| async move { health.healthz() }))
            .route("/readyz", get(|State(health): State<Health>| async move { health.readyz() }))
            .route("/livez", get(|State(health): State<Health>| async move { health.livez() }))
            .with_state(health);
        Server::bind("probes", limits, address, router).await.map(Self)
    }

    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Serves until `end`.
    pub async fn run(self, end: CancellationToken) {
        self.0.run(end).await;
    }
}

// === impl DebugServer ===

impl DebugServer {
    /// # Errors
    /// When the address is not a loopback address, or cannot be listened on.
    pub async fn bind(
        address: SocketAddr,
        health: Health,
        history: History,
        debugged: Debugged,
        registry: SharedRegistry,
    ) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback { address });
        }
        let router = Router::new()
            .route("/debug/events", get(events))
            .route("/debug/vars", get(|State(inspected): State<Inspected>| async move { inspected.variables() }))
            .with_state(Inspected { health: health.clone(), history, debugged: debugged.clone() })
            .merge(metrics_router(registry))
            .merge(page::router(health, debugged.overview().clone()))
            .layer(from_fn(loopback::only));
        Server::bind("debug", Limits::default(), address, router).await.map(Self)
    }

    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Serves until `end`.
    pub async fn run(self, end: CancellationToken) {
        self.0.run(end).await;
    }
}

// === impl MetricsServer ===

impl MetricsServer {
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn bind(address: SocketAddr, registry: SharedRegistry) -> Result<Self, ServeError> {
        Server::bind("metrics", Limits::default(), address, metrics_router(registry)).await.map(Self)
    }

    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Serves until `end`.
    pub async fn run(self, end: CancellationToken) {
        self.0.run(end).await;
    }
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 64, head: Duration::from_secs(5), connection: Duration::from_secs(30) }
    }
}

// === impl Server ===

impl Server {
    async fn bind(name: &'static str, limits: Limits, address: SocketAddr, router: Router) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { name, limits, listener, address, router })
    }

    async fn run(self, end: CancellationToken) {
        let mut connections = JoinSet::new();
        let mut oldest_first = VecDeque::new();
        tracing::info!(server = self.name, address = %self.address, "listening");
        loop {
            let accepted = tokio::select! {
                biased;
                () = end.cancelled() => return,
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    oldest_first.retain(|connection: &tokio::task::AbortHandle| !connection.is_finished());
                    if oldest_first.len() == self.limits.connections
                        && let Some(oldest) = oldest_first.pop_front()
                    {
                        oldest.abort();
                    }
                    oldest_first.push_back(connections.spawn(answer(stream, self.router.clone(), self.limits)));
                }
                Err(error) => {
                    tracing::debug!(server = self.name, %error, "could not take a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// One request.
async fn answer(stream: TcpStream, router: Router, limits: Limits) {
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(HEAD_BYTES).keep_alive(false);
    let connection = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Ok(Err(error)) = timeout(limits.connection, connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

// === impl Report ===

impl IntoResponse for Report {
    fn into_response(self) -> Response {
        let status = if self.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (status, Json(self)).into_response()
    }
}

// === impl Inspected ===

impl Inspected {
    /// Before Stage 8 only how the start stands.
    fn variables(&self) -> Response {
        let Report { stage, iterations, .. } = self.health.healthz();
        let mut variables = self.debugged.values();
        variables.insert("stage".to_owned(), json!(stage));
        variables.insert("iterations".to_owned(), json!(iterations));
        Json(variables).into_response()
    }
}

async fn events(State(inspected): State<Inspected>, Query(query): Query<EventsQuery>) -> Response {
    let mut events = inspected.history.newest_last();
    if let Some(wanted) = query.correlation {
        let Ok(number) = wanted.trim_start_matches('r').parse() else {
            let complaint = format!("`{wanted}` is no correlation: write it as log lines do, such as r12\n");
            return (StatusCode::BAD_REQUEST, complaint).into_response();
        };
        events.retain(|event| event.correlation == Correlation(number));
    }
    Json(json!({ "events": events })).into_response()
}

fn metrics_router(registry: SharedRegistry) -> Router {
    Router::new()
        .route("/metrics", get(|State(registry): State<SharedRegistry>| async move { metrics(&registry) }))
        .with_state(registry)
}

fn metrics(registry: &SharedRegistry) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let mut encoded = String::new();
    match text::encode(&mut encoded, &registry.read()) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], encoded).into_response(),
        Err(error) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("writing the metrics failed: {error}\n")).into_response()
        }
    }
}
