//! The status page: one HTML document from a template, with forms that need no script, and the same as JSON.
//!
//! Everything printed is escaped as HTML. The page loads nothing from elsewhere and its policy lets browsers load
//! nothing either; its script only refreshes it and writes times as people say them.

use std::sync::LazyLock;

use axum::{
    Json, Router,
    extract::{Query, State},
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use minijinja::{Environment, Value, context, value::Serde};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::{
    cluster::probes::Health,
    explain::{Explained, LineAnswer, RouteAnswer, RouteQuery},
    overview::Overview,
};

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Characters of a search that are taken; longer ones find nothing.
const LONGEST: usize = 2_000;

static PAGES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut pages = Environment::new();
    // Names that end in .html are escaped as HTML.
    pages.add_template("page.html", include_str!("page/page.html")).expect("the template is a constant");
    pages.add_template("answers.html", include_str!("page/answers.html")).expect("the template is a constant");
    pages.add_filter("short", |digest: &str| digest.chars().take(12).collect::<String>());
    pages.add_filter("bytes", bytes);
    pages
});

#[derive(Clone)]
struct Shown {
    health: Health,
    overview: Overview,
}

/// What a person looks for; empty = nothing.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Search {
    #[serde(default)]
    line: String,
    #[serde(default)]
    host: String,
    #[serde(default)]
    path: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answers {
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<LineAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<RouteAnswer>,
}

/// Read only: other methods than GET and HEAD are refused.
pub(super) fn router(health: Health, overview: Overview) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/status.css", get(|| async { asset("text/css; charset=utf-8", include_str!("page/status.css")) }))
        .route("/status.js", get(|| async { asset("text/javascript; charset=utf-8", include_str!("page/status.js")) }))
        .route("/icon.svg", get(|| async { asset("image/svg+xml", include_str!("page/icon.svg")) }))
        .route("/debug/status", get(status))
        .route("/debug/explain", get(explain))
        .with_state(Shown { health, overview })
}

async fn page(State(shown): State<Shown>, Query(search): Query<Search>) -> Response {
    let asked = search.clone();
    let html = spawn_blocking(move || {
        let status = shown.overview.document(shown.health.healthz());
        let answers = asked.answers(&shown.overview);
        let template = PAGES.get_template("page.html")?;
        template.render(context! {
            status => Value::from(Serde(&status)),
            search => Value::from(Serde(asked.named())),
            answers => Value::from(Serde(&answers)),
        })
    })
    .await;
    match html {
        Ok(Ok(html)) => {
            let policy = HeaderName::from_static("content-security-policy");
            ([(header::CONTENT_TYPE, "text/html; charset=utf-8"), (policy, POLICY)], html).into_response()
        }
        Ok(Err(error)) => broken(&error),
        Err(error) => broken(&error),
    }
}

async fn status(State(shown): State<Shown>) -> Response {
    match spawn_blocking(move || shown.overview.document(shown.health.healthz())).await {
        Ok(document) => Json(document).into_response(),
        Err(error) => broken(&error),
    }
}

async fn explain(State(shown): State<Shown>, Query(search): Query<Search>) -> Response {
    if search.is_empty() {
        const HOW: &str = "say what to explain: ?line=NUMBER or ?line=TEXT, or ?host=HOST&path=PATH\n";
        return (StatusCode::BAD_REQUEST, HOW).into_response();
    }
    let answers = spawn_blocking(move || search.answers(&shown.overview)).await;
    match answers {
        Ok(Some(answers)) => Json(answers).into_response(),
        Ok(None) => {
            (StatusCode::SERVICE_UNAVAILABLE, "nothing is rendered yet; ask again once a configuration serves\n")
                .into_response()
        }
        Err(error) => broken(&error),
    }
}

// === impl Search ===

impl Search {
    fn is_empty(&self) -> bool {
        [&self.line, &self.host, &self.path].iter().all(|field| field.trim().is_empty())
    }

    /// What is longer is no line, host or path.
    fn named(&self) -> Self {
        let cut = |text: &str| text.chars().take(LONGEST).collect();
        Self { line: cut(&self.line), host: cut(&self.host), path: cut(&self.path) }
    }

    /// `None` = nothing was asked, or there is no render yet.
    fn answers(&self, overview: &Overview) -> Option<Answers> {
        if self.is_empty() {
            return None;
        }
        let search = self.named();
        let of_line = !search.line.trim().is_empty();
        let of_route = !search.host.trim().is_empty() || !search.path.trim().is_empty();
        overview.explained(|explained: Explained<'_>| Answers {
            lines: of_line.then(|| explained.lines(&search.line)),
            route: of_route.then(|| explained.route(&RouteQuery::new(&search.host, &search.path))),
        })
    }
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

fn broken(error: &(dyn std::error::Error + 'static)) -> Response {
    tracing::error!(error, "the status page could not be made");
    (StatusCode::INTERNAL_SERVER_ERROR, format!("the status page could not be made: {error}\n")).into_response()
}

#[allow(clippy::cast_precision_loss, reason = "a size for a person, to one digit")]
fn bytes(size: u64) -> String {
    match size {
        0..1_000 => format!("{size} B"),
        1_000..1_000_000 => format!("{:.1} kB", size as f64 / 1e3),
        _ => format!("{:.1} MB", size as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests;
