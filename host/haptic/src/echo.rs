//! `haptic echo`: backends for demonstrations and tests, one for each `ADDRESS:PORT=NAME`.

use std::{net::SocketAddr, str::FromStr, time::Duration};

use anyhow::Context as _;
use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// One backend to serve.
#[derive(Clone, Debug)]
pub(crate) struct EchoBackend {
    address: SocketAddr,
    name: String,
}

pub(crate) async fn serve(backends: Vec<EchoBackend>, stop: CancellationToken) -> anyhow::Result<()> {
    let mut servers = JoinSet::new();
    for backend in backends {
        let listener = TcpListener::bind(backend.address)
            .await
            .with_context(|| format!("listening on {} for `{}`", backend.address, backend.name))?;
        let router = Router::new().fallback(answer).with_state(backend.name.clone());
        let stop = stop.clone();
        tracing::info!(address = %backend.address, name = %backend.name, "echo backend listens");
        servers
            .spawn(async move { axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await });
    }
    while let Some(ended) = servers.join_next().await {
        ended.context("an echo backend ended early")?.context("serving")?;
    }
    Ok(())
}

/// 200 with the backend's name, and after `?delay_ms=N` (at most ten seconds) if asked.
async fn answer(State(name): State<String>, request: Request) -> Response {
    let delay = request
        .uri()
        .query()
        .and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("delay_ms=")?.parse::<u64>().ok()));
    if let Some(delay) = delay {
        tokio::time::sleep(Duration::from_millis(delay.min(10_000))).await;
    }
    let body = format!("{name} {} {}\n", request.method(), request.uri().path());
    let served_by = HeaderValue::from_str(&name).unwrap_or(HeaderValue::from_static("invalid"));
    let content_type = HeaderValue::from_static("text/plain");
    ([(HeaderName::from_static("x-served-by"), served_by), (header::CONTENT_TYPE, content_type)], body).into_response()
}

// === impl EchoBackend ===

impl FromStr for EchoBackend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, name) = text.split_once('=').ok_or("write ADDRESS:PORT=NAME")?;
        let address = address.parse().map_err(|error| format!("`{address}` is not ADDRESS:PORT: {error}"))?;
        Ok(Self { address, name: name.to_owned() })
    }
}
