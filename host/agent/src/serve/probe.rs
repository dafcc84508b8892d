//! Probes for a kubelet: plain HTTP, because it has no certificate; a word and a reason, because anybody may ask.

use std::time::Duration;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::{
    Agent,
    serve::{self, strangers::Strangers},
};

/// Connections at a time; one more displaces the oldest.
const MAX_PROBES: usize = 32;
/// How long a probe may take to say what it wants.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// Whether the pod should get traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// A worker serves a configuration that was acknowledged. A reload that waits for its time changes nothing about
    /// that: the worker goes on with the one before.
    Ready,
    /// HAProxy does not run: nothing was applied yet, or it has ended and is started again.
    NoWorker,
    /// A worker runs, but what it serves was never acknowledged or is not known.
    NothingAcknowledged,
}

#[derive(Clone)]
struct Probed {
    agent: Agent,
    draining: CancellationToken,
}

// === impl Agent ===

impl Agent {
    /// Serves `/healthz`, `/readyz` and `/metrics` until `shutdown`. From `draining` on the pod is not ready, whatever it serves.
    pub async fn serve_probes(&self, listener: TcpListener, draining: CancellationToken, shutdown: CancellationToken) {
        let router = Router::new()
            .route("/healthz", get(healthz))
            .route("/readyz", get(|State(probed): State<Probed>| async move { probed.readyz() }))
            .route("/metrics", get(|State(probed): State<Probed>| async move { probed.metrics() }))
            .with_state(Probed { agent: self.clone(), draining });
        let strangers = Strangers::new(MAX_PROBES);
        let greet = |stream: TcpStream, _| {
            let (stranger, router, shutdown) = (strangers.admit(), router.clone(), shutdown.clone());
            async move {
                let mut server = http1::Builder::new();
                server.timer(TokioTimer::new()).header_read_timeout(PROBE_LIMIT).keep_alive(false);
                tokio::select! {
                    () = serve::http(&server, stream, router, &shutdown) => {}
                    () = stranger.displaced() => {}
                }
            }
        };
        serve::serve(listener, shutdown.clone(), greet).await;
    }
}

// === impl Probed ===

impl Probed {
    fn readyz(&self) -> Response {
        if self.draining.is_cancelled() {
            return (StatusCode::SERVICE_UNAVAILABLE, "draining: the pod is about to end\n").into_response();
        }
        self.agent.readiness().into_response()
    }

    fn metrics(&self) -> Response {
        const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        match self.agent.metrics() {
            Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
            Err(error) => {
                (StatusCode::INTERNAL_SERVER_ERROR, format!("writing the metrics failed: {error}\n")).into_response()
            }
        }
    }
}

// === impl Readiness ===

impl IntoResponse for Readiness {
    fn into_response(self) -> Response {
        let reason = match self {
            Self::Ready => return "ready\n".into_response(),
            Self::NoWorker => "not ready: no HAProxy worker serves yet\n",
            Self::NothingAcknowledged => "not ready: no acknowledged configuration is served yet\n",
        };
        (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
    }
}

pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}
