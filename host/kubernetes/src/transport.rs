//! One request: bounded in time and size, its failure told as what it is.

use std::{sync::Arc, time::Duration};

use bytes::{Buf as _, Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use crate::{Refusal, Trouble};

/// The API server as this crate talks to it. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    client: Client,
    limits: Limits,
    lists: Arc<Semaphore>,
}

/// Bounds of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For a whole answer that is no watch: a page of a list, a discovery document, a Lease. Default: 30 s.
    pub request: Duration,
    /// For all objects of a streaming list; one that takes longer is asked for in pages. Default: 60 s.
    pub streaming_list: Duration,
    /// How long the server is asked to keep a watch open. Default: 290 s.
    pub watch: Duration,
    /// A watch on which nothing came for this long, not even a bookmark, is taken for dead. Servers send a bookmark
    /// about once a minute. Default: 150 s.
    pub idle: Duration,
    /// Objects in a page of a list. Default: 500.
    pub page: usize,
    /// The largest page, and the largest event of a watch. Default: 128 MiB.
    pub bytes: usize,
    /// Lists that run at the same time: their answers are in memory twice for a moment. Default: 4.
    pub lists: usize,
}

/// The lines of an answer that goes on.
pub(crate) struct Lines {
    body: Body,
    buffer: BytesMut,
    /// How much of the buffer has no line end.
    searched: usize,
    limit: usize,
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(30),
            streaming_list: Duration::from_mins(1),
            watch: Duration::from_secs(290),
            idle: Duration::from_secs(150),
            page: 500,
            bytes: 128 << 20,
            lists: 4,
        }
    }
}

// === impl Api ===

impl Api {
    pub fn new(client: Client, limits: Limits) -> Self {
        Self { client, limits, lists: Arc::new(Semaphore::new(limits.lists.max(1))) }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A whole answer.
    pub(crate) async fn get(&self, uri: &str, accept: &str) -> Result<Bytes, Trouble> {
        let request = Request::get(uri).header(header::ACCEPT, accept).body(Body::empty());
        self.answer(request.expect("paths and queries are escaped")).await
    }

    /// Writes a JSON object and gives what the server made of it.
    pub(crate) async fn write(&self, method: Method, uri: &str, object: Vec<u8>) -> Result<Bytes, Trouble> {
        self.send(method, uri, JSON, object).await
    }

    /// Sends a body and gives the answer in JSON.
    pub(crate) async fn send(
        &self,
        method: Method,
        uri: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Bytes, Trouble> {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::ACCEPT, JSON)
            .header(header::CONTENT_TYPE, content_type)
            .body(Body::from(body));
        self.answer(request.expect("paths and queries are escaped")).await
    }

    /// An answer that goes on. Only its beginning is bounded in time.
    pub(crate) async fn lines(&self, uri: &str, accept: &str) -> Result<Lines, Trouble> {
        let request = Request::get(uri).header(header::ACCEPT, accept).body(Body::empty());
        let request = request.expect("paths and queries are escaped");
        let response = self.within(async { self.checked(request).await }).await?;
        let limit = self.limits.bytes;
        Ok(Lines { body: response.into_body(), buffer: BytesMut::new(), searched: 0, limit })
    }

    /// Waits for its turn to list.
    pub(crate) async fn list_turn(&self) -> SemaphorePermit<'_> {
        self.lists.acquire().await.expect("it is never closed")
    }

    async fn answer(&self, request: Request<Body>) -> Result<Bytes, Trouble> {
        self.within(async {
            let response = self.checked(request).await?;
            collect(response.into_body(), self.limits.bytes).await
        })
        .await
    }

    async fn within<T>(&self, answer: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
        let bound = self.limits.request;
        timeout(bound, answer).await.unwrap_or(Err(Trouble::TimedOut(bound)))
    }

    async fn checked(&self, request: Request<Body>) -> Result<Response<Body>, Trouble> {
        let response = self.client.send(request).await.map_err(Trouble::Unreachable)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.map(str::to_owned);
        // What cannot be read of the reason is left out.
        let body = collect(response.into_body(), LARGEST_REFUSAL).await.unwrap_or_default();
        Err(Trouble::Refused(Refusal::of_answer(code(status), retry_after.as_deref(), &body)))
    }
}

// === impl Lines ===

impl Lines {
    /// The next line, without its end; `None` when the server ended the answer in order. Safe to cancel.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Trouble> {
        loop {
            if let Some(line) = self.received() {
                return Ok(Some(line));
            }
            if self.buffer.len() > self.limit {
                return Err(Trouble::TooLarge { limit: self.limit });
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(Trouble::Unreachable(error)),
                // What stands there without a line end was cut.
                None => return Ok(None),
            }
        }
    }

    /// The next line if it is already here.
    pub(crate) fn received(&mut self) -> Option<Bytes> {
        loop {
            let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| self.searched + end) else {
                self.searched = self.buffer.len();
                return None;
            };
            self.searched = 0;
            let line = self.buffer.split_to(end).freeze();
            self.buffer.advance(1);
            if !line.is_empty() {
                return Some(line);
            }
        }
    }
}

async fn collect(mut body: Body, limit: usize) -> Result<Bytes, Trouble> {
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(Trouble::Unreachable)?;
        if let Ok(data) = frame.into_data() {
            if collected.len() + data.len() > limit {
                return Err(Trouble::TooLarge { limit });
            }
            collected.extend_from_slice(&data);
        }
    }
    Ok(collected.freeze())
}

fn code(status: StatusCode) -> u16 {
    status.as_u16()
}

pub(crate) const JSON: &str = "application/json";

const LARGEST_REFUSAL: usize = 64 << 10;
