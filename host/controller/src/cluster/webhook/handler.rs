//! One admission request: who may be asked, what is proposed, and what is answered.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use haptic_kubernetes::{Api, Objects};
use haptic_model::{Finding, FindingCode};
use serde::Deserialize;
use tokio::{sync::Semaphore, sync::watch, time::Instant, time::timeout};

use crate::{
    admission::Opinion,
    cluster::webhook::{
        Judge,
        desk::{Desk, MOST_WAITING},
        metrics::{RequestResult, ValidationResult, WebhookMetrics},
        registered::{Proposed, Unfit},
        review::{Answer, Operation, Request, Review},
    },
};

/// The largest body that is read: an object of the size that an API server takes, as it was and as it shall be.
const LARGEST_REVIEW: usize = 7 << 20;
/// Requests that are read at a time; others wait for their turn.
const REQUESTS: usize = 32;
/// How long an API server waits if it does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// An answer must be on its way before the API server gives up.
const MARGIN: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(super) struct Handler {
    desk: Arc<Desk>,
    serving: watch::Receiver<Option<Arc<Judge>>>,
    metrics: WebhookMetrics,
    turns: Arc<Semaphore>,
}

#[derive(Deserialize)]
struct Parameters {
    /// Such as `10s`: how long the API server waits.
    timeout: Option<String>,
}

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
enum NoVerdict {
    #[error(transparent)]
    Malformed(#[from] super::review::Malformed),
    #[error("the body cannot be read, or has more than {LARGEST_REVIEW} bytes")]
    Unread(#[source] axum::Error),
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error(
        "writes of {group}/{resource} are not judged here: set enableValidationWebhook in its watchedResources entry, or \
         apply what `haptic webhook-configuration` prints for the present configuration"
    )]
    Unregistered { group: String, resource: String },
    #[error(
        "no configuration serves yet, so nobody can judge this write; look at the conditions of the \
         HAProxyTemplateConfig and at /healthz of the controller, and try again"
    )]
    NobodyServes,
    #[error(
        "{MOST_WAITING} writes wait for their verdict already; try again in a moment, and give the controller more \
         CPU if this goes on"
    )]
    Full,
    #[error(
        "no verdict within {budget:?}; try again in a moment, and give the controller more CPU if this goes on \
         (haptic_admission_render_slot_wait_seconds tells how long writes wait)"
    )]
    OutOfTime { budget: Duration },
    #[error("{finding}")]
    Unjudged { finding: Finding },
}

// === impl Handler ===

impl Handler {
    pub(super) fn new(desk: Arc<Desk>, serving: watch::Receiver<Option<Arc<Judge>>>, metrics: WebhookMetrics) -> Self {
        Self { desk, serving, metrics, turns: Arc::new(Semaphore::new(REQUESTS)) }
    }

    pub(super) fn router(self) -> Router {
        Router::new().route("/validate", post(validate)).with_state(self)
    }

    async fn answer(&self, body: Body, budget: Duration) -> Response {
        let began = Instant::now();
        let mut label = None;
        let (result, response) = match self.verdict(body, budget, &mut label).await {
            Ok((uid, Opinion::Allowed { warnings })) => {
                (RequestResult::Allowed, Json(Answer::allowed(uid, &warnings)).into_response())
            }
            Ok((uid, Opinion::Denied { causes })) => {
                (RequestResult::Denied, Json(Answer::denied(uid, &causes)).into_response())
            }
            Ok((_, Opinion::Unjudged(finding))) => NoVerdict::Unjudged { finding }.refuse(),
            Err(error) => error.refuse(),
        };
        self.metrics.answered(label.as_deref(), result, began.elapsed());
        response
    }

    /// `label` is set as soon as the kind is known.
    async fn verdict(
        &self,
        body: Body,
        budget: Duration,
        label: &mut Option<String>,
    ) -> Result<(String, Opinion), NoVerdict> {
        let began = Instant::now();
        // Only so many bodies are in memory; what is kept of them is bounded by the queue.
        let read = timeout(budget, async {
            let turn = self.turns.acquire().await;
            let body = to_bytes(body, LARGEST_REVIEW).await;
            (turn, body)
        });
        let (turn, body) = read.await.map_err(|_| NoVerdict::OutOfTime { budget })?;
        let request = Review::parse(&body.map_err(NoVerdict::Unread)?)?;
        let judge = self.serving.borrow().clone().ok_or(NoVerdict::NobodyServes)?;
        let registered = judge.registered.label(&request);
        let gvk = registered.ok_or_else(|| NoVerdict::Unregistered {
            group: request.resource.group.clone(),
            resource: request.resource.resource.clone(),
        })?;
        *label = Some(gvk.clone());
        if !request.sub_resource.is_empty() || request.operation == Operation::Connect {
            // No template depends on what is written there.
            return Ok((request.uid, Opinion::Allowed { warnings: Vec::new() }));
        }
        let proposed = judge.registered.propose(&request)?;
        drop(turn);
        let waiting = self.desk.enter(proposed.proposal.clone()).map_err(|_| NoVerdict::Full)?;
        let left = budget.saturating_sub(began.elapsed());
        let opinion = match waiting.opinion(left).await {
            Some(opinion) => opinion,
            None if self.serving.borrow().is_none() => return Err(NoVerdict::NobodyServes),
            None => return Err(NoVerdict::OutOfTime { budget }),
        };
        let opinion = own_version(opinion, &proposed, &request, &judge.api).await;
        let result = match &opinion {
            Opinion::Allowed { .. } => ValidationResult::Allowed,
            Opinion::Denied { .. } => ValidationResult::Denied,
            Opinion::Unjudged(_) => ValidationResult::Error,
        };
        self.metrics.judged(&gvk, result);
        tell(&request, &proposed, &opinion);
        Ok((request.uid, opinion))
    }
}

async fn validate(State(handler): State<Handler>, Query(parameters): Query<Parameters>, body: Body) -> Response {
    let given = parameters.timeout.as_deref().and_then(seconds);
    let budget = given.unwrap_or(DEFAULT_TIMEOUT);
    handler.answer(body, budget.saturating_sub(MARGIN.min(budget / 4))).await
}

/// An object of another version was judged with its fields as they are. That is what the API server does too where
/// its definition says `conversion: None`; elsewhere such a verdict denies nothing.
async fn own_version(opinion: Opinion, proposed: &Proposed, request: &Request, api: &Api) -> Opinion {
    if !proposed.other_version || !matches!(opinion, Opinion::Denied { .. }) || converts_nothing(request, api).await {
        return opinion;
    }
    let message = format!(
        "not judged: it is written in {}, and templates read another version with other fields",
        request.kind.version
    );
    let warning = Finding::warning(FindingCode::ConfigInvalid, message)
        .about(Some(proposed.proposal.object.clone()))
        .hint("list one version of it alone in the webhook's rules, with `matchPolicy: Equivalent`");
    Opinion::Allowed { warnings: vec![warning] }
}

/// Whether the definition of the kind says that its versions differ in nothing but their names.
async fn converts_nothing(request: &Request, api: &Api) -> bool {
    let definitions = Objects::in_cluster(api, "apiextensions.k8s.io/v1", "customresourcedefinitions");
    let name = format!("{}.{}", request.resource.resource, request.resource.group);
    match timeout(MARGIN / 2, definitions.get(&name)).await {
        Ok(Ok(Some(definition))) => {
            definition.pointer("/spec/conversion/strategy").is_none_or(|strategy| strategy == "None")
        }
        Ok(Ok(None) | Err(_)) | Err(_) => false,
    }
}

fn tell(request: &Request, proposed: &Proposed, opinion: &Opinion) {
    let object = &proposed.proposal.object;
    let (kind, namespace, name, operation) = (&object.kind, &object.namespace, &object.name, request.operation);
    match opinion {
        Opinion::Allowed { warnings } => {
            tracing::debug!(%kind, %namespace, %name, %operation, warnings = warnings.len(), "admission: allowed");
        }
        Opinion::Denied { causes } => {
            let causes = causes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            tracing::info!(%kind, %namespace, %name, %operation, %causes, "admission: denied");
        }
        Opinion::Unjudged(finding) => {
            tracing::warn!(%kind, %namespace, %name, %operation, %finding, "admission: no verdict");
        }
    }
}

// === impl NoVerdict ===

impl NoVerdict {
    /// An API server passes on the text of this status only; that of a 503 is never seen by who wrote.
    fn refuse(self) -> (RequestResult, Response) {
        let (result, status) = match &self {
            Self::Malformed(_) | Self::Unread(_) | Self::Unfit(_) => {
                (RequestResult::Malformed, StatusCode::BAD_REQUEST)
            }
            Self::Unregistered { .. } => (RequestResult::Unregistered, StatusCode::INTERNAL_SERVER_ERROR),
            Self::NobodyServes | Self::Full | Self::OutOfTime { .. } | Self::Unjudged { .. } => {
                (RequestResult::Error, StatusCode::INTERNAL_SERVER_ERROR)
            }
        };
        tracing::warn!(%status, "admission: {self}");
        (result, (status, format!("haptic: {self}\n")).into_response())
    }
}

/// A duration as Go writes those of whole seconds: `10s`, `1m30s`.
fn seconds(text: &str) -> Option<Duration> {
    if text.is_empty() {
        return None;
    }
    let (minutes, rest) = text.split_once('m').map_or((Some(0), text), |(minutes, rest)| (minutes.parse().ok(), rest));
    let seconds: f64 = if rest.is_empty() { 0.0 } else { rest.strip_suffix('s')?.parse().ok()? };
    let minutes: u32 = minutes?;
    Duration::try_from_secs_f64(f64::from(minutes) * 60.0 + seconds).ok()
}

#[cfg(test)]
mod tests;
