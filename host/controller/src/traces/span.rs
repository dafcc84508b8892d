//! Spans, and how OTLP writes them in JSON. Identifiers follow from what a span is about, so that spans of one change
//! find each other whenever they are made.

use haptic_model::Digest;
use serde_json::{Value, json};

use crate::events::Correlation;

/// Most bytes of an attribute's text.
const LONGEST_TEXT: usize = 512;

/// The trace of one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceId([u8; 16]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanId([u8; 8]);

/// A piece of work that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) name: &'static str,
    pub(super) kind: SpanKind,
    /// Nanoseconds since 1970.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) attributes: Vec<(&'static str, Attribute)>,
    pub(super) error: Option<String>,
}

/// As OTLP counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanKind {
    Internal = 1,
    /// A request to another process.
    Client = 3,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Text(String),
    Number(u64),
}

// === impl TraceId ===

impl TraceId {
    pub(super) fn of(process: &str, iteration: u64, correlation: Correlation) -> Self {
        let digest = Digest::of(format!("{process}/{iteration}/{correlation}").as_bytes());
        Self(first(digest.as_bytes()))
    }

    /// The span of this name; `pod` and `turn` tell several of one name apart.
    pub(super) fn span(self, name: &str, pod: &str, turn: u64) -> SpanId {
        let digest = Digest::of(format!("{}/{name}/{pod}/{turn}", hex(&self.0)).as_bytes());
        SpanId(first(digest.as_bytes()))
    }
}

// === impl Attribute ===

impl Attribute {
    pub(super) fn text(text: impl ToString) -> Self {
        Self::Text(shortened(&text.to_string()))
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!({ "stringValue": text }),
            // 64-bit numbers are strings in the JSON of protobuf.
            Self::Number(number) => json!({ "intValue": number.to_string() }),
        }
    }
}

// === impl Span ===

impl Span {
    fn json(&self) -> Value {
        let attributes: Vec<_> = self.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
        let mut span = json!({
            "traceId": hex(&self.trace.0),
            "spanId": hex(&self.id.0),
            "name": self.name,
            "kind": self.kind as u8,
            "startTimeUnixNano": self.start.to_string(),
            "endTimeUnixNano": self.end.to_string(),
            "attributes": attributes,
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = hex(&parent.0).into();
        }
        if let Some(error) = &self.error {
            span["status"] = json!({ "code": 2, "message": shortened(error) });
        }
        span
    }
}

/// An `ExportTraceServiceRequest`.
pub(super) fn export_request(identity: &str, spans: &[Span]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let resource: Vec<_> =
        [("service.name", "haptic"), ("service.version", version), ("service.instance.id", identity)]
            .map(|(key, value)| attribute(key, &Attribute::text(value)))
            .into();
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{
            "scope": { "name": "haptic", "version": version },
            "spans": spans.iter().map(Span::json).collect::<Vec<_>>(),
        }],
    }] })
}

fn attribute(key: &str, value: &Attribute) -> Value {
    json!({ "key": key, "value": value.json() })
}

fn first<const N: usize>(bytes: &[u8; 32]) -> [u8; N] {
    let mut some = [0; N];
    some.copy_from_slice(&bytes[..N]);
    some
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST_TEXT)].to_owned()
}
