//! Sends what waits, many traces in one request. A receiver that is away costs traces and nothing else.

use std::time::Duration;

use prometheus_client::metrics::{counter::Counter, family::Family};
use reqwest::{Client, Url, header, redirect::Policy};
use thiserror::Error;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::traces::{
    QUEUE, ResultLabel,
    span::{Span, export_request},
};

/// For one request, its answer included.
const REQUEST: Duration = Duration::from_secs(10);
/// Pauses before a request is made again.
const PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// How long what waits may take to be sent when the process ends.
const LAST_ONES: Duration = Duration::from_secs(2);

/// Sends traces until it is told to end.
pub struct TraceExporter {
    client: Client,
    url: Url,
    identity: String,
    waiting: mpsc::Receiver<Vec<Span>>,
    spans: Family<ResultLabel, Counter>,
    /// The last request failed, which was told.
    fails: bool,
}

/// `--otlp-endpoint` is not what traces can be sent to.
#[derive(Debug, Error)]
pub enum InvalidEndpoint {
    #[error("`{endpoint}` is no URL of HTTP; write it as http://collector.example:4318")]
    Url { endpoint: String },
    #[error("the HTTP client for traces cannot be set up; install certificate authorities (package ca-certificates)")]
    Client(#[source] reqwest::Error),
}

// === impl TraceExporter ===

impl TraceExporter {
    pub(super) fn new(
        endpoint: &str,
        identity: &str,
        waiting: mpsc::Receiver<Vec<Span>>,
        spans: Family<ResultLabel, Counter>,
    ) -> Result<Self, InvalidEndpoint> {
        let url = traces_url(endpoint).ok_or_else(|| InvalidEndpoint::Url { endpoint: without_userinfo(endpoint) })?;
        // One for the process; whoever came first chose the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .redirect(Policy::none())
            .referer(false)
            .user_agent(concat!("haptic/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(InvalidEndpoint::Client)?;
        Ok(Self { client, url, identity: identity.to_owned(), waiting, spans, fails: false })
    }

    /// What waits at the end is sent if that is quick.
    pub async fn run(mut self, end: CancellationToken) {
        tokio::select! {
            () = end.cancelled() => {}
            () = self.send_all() => return,
        }
        self.waiting.close();
        let _ = timeout(LAST_ONES, self.send_all()).await;
    }

    async fn send_all(&mut self) {
        let mut batch = Vec::new();
        while self.waiting.recv_many(&mut batch, QUEUE).await > 0 {
            let spans: Vec<Span> = batch.drain(..).flatten().collect();
            let result = if self.send(&spans).await { "sent" } else { "failed" };
            self.spans.get_or_create(&ResultLabel { result }).inc_by(spans.len() as u64);
        }
    }

    async fn send(&mut self, spans: &[Span]) -> bool {
        let body = export_request(&self.identity, spans).to_string();
        for pause in PAUSES.map(Some).into_iter().chain([None]) {
            let Err(trouble) = self.post(body.clone()).await else {
                self.fails = false;
                return true;
            };
            if !std::mem::replace(&mut self.fails, true) {
                tracing::warn!(
                    trouble,
                    spans = spans.len(),
                    "traces cannot be sent; look at the receiver that --otlp-endpoint names"
                );
            }
            match pause {
                Some(pause) => sleep(pause).await,
                None => break,
            }
        }
        false
    }

    /// What went wrong, without the URL, which may hold a password.
    async fn post(&self, body: String) -> Result<(), String> {
        let request =
            self.client.post(self.url.clone()).header(header::CONTENT_TYPE, "application/json").timeout(REQUEST);
        let answer = request.body(body).send().await.map_err(|error| root_cause(&error.without_url()))?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(format!("the receiver answers {status}")) }
    }
}

/// As `OTEL_EXPORTER_OTLP_ENDPOINT` has it: the path of traces is added, unless it is there.
fn traces_url(endpoint: &str) -> Option<Url> {
    let mut url = Url::parse(endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    if !url.path().ends_with("/v1/traces") {
        let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    Some(url)
}

/// For a message: what stands before the `@` of an authority is nobody's business.
fn without_userinfo(endpoint: &str) -> String {
    match endpoint.rsplit_once('@') {
        Some((_, rest)) => format!("***@{rest}"),
        None => endpoint.to_owned(),
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    root.to_string()
}
