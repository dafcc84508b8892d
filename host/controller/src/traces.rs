//! The way of a change as one trace: cause → render → validators → diff and apply of each pod → acknowledgement.
//!
//! A change goes through stages that only the event bus connects, so spans are made from events, with the times that
//! the stages measured anyway. Nothing is measured for traces alone, and without `--otlp-endpoint` there is no observer.
//!
//! ```text
//! bus ─▶ TraceObserver ─▶ bounded queue ─▶ TraceExporter ─▶ POST …/v1/traces (OTLP/HTTP, JSON)
//! ```
//!
//! The encoding is ours: spans that are made after the fact need neither the context propagation of an SDK nor its
//! registry, and its exporter would add protobuf and gRPC types for the thirty lines of JSON in `traces/span.rs`.

mod exporter;
mod observer;
mod span;

use std::sync::Arc;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use tokio::sync::mpsc;

use crate::{bus::EventBus, clock::WallClock, traces::span::Span};

pub use exporter::{InvalidEndpoint, TraceExporter};
pub use observer::TraceObserver;

/// Traces that wait to be sent; one more is dropped and counted.
const QUEUE: usize = 256;

/// Where traces go. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Traces {
    /// `None` = nowhere.
    queue: Option<mpsc::Sender<Vec<Span>>>,
    spans: Family<ResultLabel, Counter>,
    /// Tells this process from others and from those before it.
    process: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

// === impl Traces ===

impl Traces {
    /// No traces.
    pub fn off(registry: &mut Registry) -> Self {
        Self { queue: None, spans: register(registry), process: "".into() }
    }

    /// Traces of this process, by the name that it has among its like, to a receiver of OTLP over HTTP. The exporter must
    /// be run.
    ///
    /// # Errors
    /// When the endpoint is no URL of HTTP.
    pub fn to(
        endpoint: &str,
        identity: &str,
        clock: &WallClock,
        registry: &mut Registry,
    ) -> Result<(Self, TraceExporter), InvalidEndpoint> {
        let spans = register(registry);
        let (queue, waiting) = mpsc::channel(QUEUE);
        let exporter = TraceExporter::new(endpoint, identity, waiting, spans.clone())?;
        let process = format!("{identity}/{}", observer::nanos_since_1970(clock)).into();
        Ok((Self { queue: Some(queue), spans, process }, exporter))
    }

    /// Who makes traces of what this bus carries; `None` = nobody wants them. `iteration` tells buses of a process apart.
    pub fn observe(&self, bus: &Arc<EventBus>, iteration: u64, clock: WallClock) -> Option<TraceObserver> {
        self.queue.is_some().then(|| TraceObserver::new(bus, self.clone(), iteration, clock))
    }

    fn send(&self, spans: Vec<Span>) {
        let Some(queue) = &self.queue else { return };
        let count = spans.len() as u64;
        if queue.try_send(spans).is_err() {
            self.spans.get_or_create(&ResultLabel { result: "dropped" }).inc_by(count);
        }
    }
}

fn register(registry: &mut Registry) -> Family<ResultLabel, Counter> {
    let spans: Family<ResultLabel, Counter> = Family::default();
    for result in ["sent", "failed", "dropped"] {
        drop(spans.get_or_create(&ResultLabel { result }));
    }
    registry.register("haptic_trace_spans", "Spans of traces by what became of them", spans.clone());
    spans
}

#[cfg(test)]
mod tests;
