//! A receiver of OTLP over HTTP with JSON, which is what a collector offers at port 4318: it decodes what comes and keeps
//! it.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// Keeps every span that was sent to it.
pub struct OtlpSink {
    address: SocketAddr,
    received: Arc<Mutex<Received>>,
    task: JoinHandle<()>,
}

/// What came so far.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Requests as they came, heads included.
    pub raw: Vec<String>,
    pub spans: Vec<ReceivedSpan>,
    /// What was not as OTLP has it.
    pub broken: Vec<String>,
}

/// A span, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedSpan {
    pub trace: String,
    pub id: String,
    pub parent: Option<String>,
    pub name: String,
    pub start: u64,
    pub end: u64,
    pub attributes: Vec<(String, String)>,
    pub failed: bool,
}

// === impl OtlpSink ===

impl OtlpSink {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("start a receiver of traces")?;
        let address = listener.local_addr().context("the receiver has an address")?;
        let received: Arc<Mutex<Received>> = Arc::default();
        let kept = received.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, kept.clone()));
            }
        });
        Ok(Self { address, received, task })
    }

    /// For `--otlp-endpoint`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn received(&self) -> Received {
        self.received.lock().clone()
    }
}

impl Drop for OtlpSink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// === impl Received ===

impl Received {
    fn keep(&mut self, request: String) {
        match spans_of(&request) {
            Ok(spans) => self.spans.extend(spans),
            Err(error) => self.broken.push(format!("{error:#}")),
        }
        self.raw.push(request);
    }
}

// === impl ReceivedSpan ===

impl ReceivedSpan {
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    fn decode(span: &Value) -> Result<Self> {
        let text = |key: &str| span[key].as_str().with_context(|| format!("`{key}` of {span}")).map(str::to_owned);
        let id = |key: &str, letters| {
            let id = text(key)?;
            anyhow::ensure!(id.len() == letters && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "`{key}`: {id}");
            Ok(id)
        };
        let nanos = |key: &str| text(key)?.parse().with_context(|| format!("`{key}` of {span}"));
        let attributes = span["attributes"].as_array().context("attributes")?.iter().map(|attribute| {
            let key = attribute["key"].as_str().context("a key")?;
            let value = &attribute["value"];
            let value = value["stringValue"].as_str().or(value["intValue"].as_str()).context("a value")?;
            Ok((key.to_owned(), value.to_owned()))
        });
        Ok(Self {
            trace: id("traceId", 32)?,
            id: id("spanId", 16)?,
            parent: span.get("parentSpanId").map(|_| id("parentSpanId", 16)).transpose()?,
            name: text("name")?,
            start: nanos("startTimeUnixNano")?,
            end: nanos("endTimeUnixNano")?,
            attributes: attributes.collect::<Result<_>>()?,
            failed: span["status"]["code"] == 2,
        })
    }
}

/// Requests of one connection until it ends.
async fn serve(mut stream: TcpStream, received: Arc<Mutex<Received>>) {
    let mut bytes = Vec::new();
    loop {
        if let Some((request, rest)) = whole(&bytes) {
            received.lock().keep(request);
            bytes = rest;
            let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
            if stream.write_all(answer).await.is_err() {
                return;
            }
            continue;
        }
        match stream.read_buf(&mut bytes).await {
            Ok(read) if read > 0 => {}
            _ => return,
        }
    }
}

/// The first request, if all of it is there, and what follows.
fn whole(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok())?;
    let request = bytes.get(..head + length)?;
    Some((String::from_utf8_lossy(request).into_owned(), bytes[head + length..].to_vec()))
}

fn spans_of(request: &str) -> Result<Vec<ReceivedSpan>> {
    let (head, body) = request.split_once("\r\n\r\n").context("a body")?;
    let head = head.to_ascii_lowercase();
    anyhow::ensure!(head.starts_with("post /v1/traces "), "{head}");
    anyhow::ensure!(head.contains("content-type: application/json"), "{head}");
    let body: Value = serde_json::from_str(body).context("read the body")?;
    let mut spans = Vec::new();
    for resource in body["resourceSpans"].as_array().context("resourceSpans")? {
        let service = &resource["resource"]["attributes"][0];
        anyhow::ensure!(service["key"] == "service.name" && service["value"]["stringValue"] == "haptic", "{service}");
        for scope in resource["scopeSpans"].as_array().context("scopeSpans")? {
            for span in scope["spans"].as_array().context("spans")? {
                spans.push(ReceivedSpan::decode(span)?);
            }
        }
    }
    Ok(spans)
}
