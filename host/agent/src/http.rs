//! The HTTP face: API version 1 over a unix socket.

use std::{
    io,
    path::{Path, PathBuf},
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post, put},
};
use haptic_model::PlanId;
use haptic_wire::{ApplyBody, ErrorBody, MAX_BODY_BYTES};
use serde::Deserialize;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use crate::{Agent, AgentError, ApplyRefusal, MAX_PLAN_BYTES, PlanStored};

#[derive(Debug, Deserialize)]
struct StateQuery {
    plan: Option<u8>,
    verify: Option<u8>,
}

#[derive(Debug, Deserialize)]
struct PlanQuery {
    plan_id: PlanId,
}

// === impl Agent ===

impl Agent {
    pub fn router(&self) -> Router {
        Router::new()
            .route("/v1/state", get(state))
            .route("/v1/serving", get(serving))
            .route("/v1/apply", post(apply).layer(DefaultBodyLimit::max(MAX_BODY_BYTES)))
            .route("/v1/plan", put(put_plan).layer(DefaultBodyLimit::max(MAX_PLAN_BYTES)))
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .with_state(self.clone())
    }

    /// Serves until `shutdown`. A stale socket file is replaced; the new one is open to the owner alone.
    pub async fn serve_unix(&self, socket: &Path, shutdown: CancellationToken) -> io::Result<()> {
        let listener = bind_owner_only(socket)?;
        let served = axum::serve(listener, self.router()).with_graceful_shutdown(shutdown.cancelled_owned());
        served.await?;
        let _ = std::fs::remove_file(socket);
        Ok(())
    }
}

/// Binds under another name, so that nobody can connect before the mode is set.
fn bind_owner_only(socket: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut fresh = socket.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&fresh)?;
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&fresh, socket)?;
    Ok(listener)
}

async fn state(State(agent): State<Agent>, Query(query): Query<StateQuery>) -> Response {
    match agent.state(query.plan != Some(0), query.verify == Some(1)).await {
        Ok(state) => Json(state).into_response(),
        Err(error) => unavailable(&error),
    }
}

async fn serving(State(agent): State<Agent>) -> Response {
    match agent.serving().await {
        Ok(serving) => Json(serving).into_response(),
        Err(error) => unavailable(&error),
    }
}

async fn apply(State(agent): State<Agent>, body: Bytes) -> Response {
    let body = match ApplyBody::decode(body) {
        Ok(body) => body,
        Err(error) => return failure(StatusCode::BAD_REQUEST, error.to_string()),
    };
    match agent.apply(body).await {
        Ok(result) => Json(result).into_response(),
        Err(ApplyRefusal::Conflict(conflict)) => (StatusCode::CONFLICT, Json(conflict)).into_response(),
        Err(ApplyRefusal::Invalid(error)) => failure(StatusCode::BAD_REQUEST, error),
        Err(ApplyRefusal::Unavailable(error)) => failure(StatusCode::SERVICE_UNAVAILABLE, error),
    }
}

async fn put_plan(State(agent): State<Agent>, Query(query): Query<PlanQuery>, document: Bytes) -> Response {
    if serde_json::from_slice::<serde::de::IgnoredAny>(&document).is_err() {
        return failure(StatusCode::BAD_REQUEST, "the plan document is not JSON".to_owned());
    }
    match agent.put_plan(query.plan_id, document).await {
        Ok(PlanStored::Stored) => StatusCode::NO_CONTENT.into_response(),
        Ok(PlanStored::MovedOn(applied)) => {
            let applied = applied.map_or_else(|| "an unknown plan".to_owned(), |plan| format!("plan {plan}"));
            failure(StatusCode::CONFLICT, format!("{applied} is applied by now; read the state again"))
        }
        Err(error) => unavailable(&error),
    }
}

async fn readyz(State(agent): State<Agent>) -> Response {
    if agent.is_ready() {
        return "ready\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, "no HAProxy worker serves yet\n").into_response()
}

fn unavailable(error: &AgentError) -> Response {
    failure(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}

fn failure(status: StatusCode, error: String) -> Response {
    (status, Json(ErrorBody { error })).into_response()
}
