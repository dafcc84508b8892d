//! The HTTP face: API version 1, the same behind every door.

use std::time::Duration;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequest, Query, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post, put},
};
use haptic_model::PlanId;
use haptic_wire::{ApplyBody, ErrorBody, MAX_BODY_BYTES};
use serde::Deserialize;
use tokio::time::timeout;

use crate::{Agent, AgentError, ApplyRefusal, MAX_PLAN_BYTES, PlanStored, Readiness, serve::healthz};

/// How long a request may take to arrive whole.
const BODY_LIMIT: Duration = Duration::from_mins(1);

/// A body that was read to its end in time.
struct Whole(Bytes);

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
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .with_state(self.clone())
    }
}

// === impl Whole ===

impl<S: Send + Sync> FromRequest<S> for Whole {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        match timeout(BODY_LIMIT, Bytes::from_request(request, state)).await {
            Ok(read) => read.map(Self).map_err(IntoResponse::into_response),
            Err(_) => {
                let error = format!("the request did not arrive within {BODY_LIMIT:?}; nothing was written");
                Err(failure(StatusCode::REQUEST_TIMEOUT, error))
            }
        }
    }
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

async fn apply(State(agent): State<Agent>, Whole(body): Whole) -> Response {
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

async fn put_plan(State(agent): State<Agent>, Query(query): Query<PlanQuery>, Whole(document): Whole) -> Response {
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

async fn readyz(State(agent): State<Agent>) -> Readiness {
    agent.readiness()
}

fn unavailable(error: &AgentError) -> Response {
    failure(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}

fn failure(status: StatusCode, error: String) -> Response {
    (status, Json(ErrorBody { error })).into_response()
}
