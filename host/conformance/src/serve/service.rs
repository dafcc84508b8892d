//! From the body of a request to the frame of its answer.

use std::sync::Arc;

use bytes::Bytes;
use haptic_model::ports::{Contract, Now, PluginReport};
use haptic_plugins::LoadedPlugin;

use crate::{
    serve::tally::Tally,
    v1::{Connection, FrameTooLarge, MAX_FRAME_BYTES, Refusal, Request, Response, frame},
};

/// What time it is for the plugin; the protocol does not say.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// A plugin behind one of its two validator contracts.
pub struct Service {
    plugin: Arc<LoadedPlugin>,
    contract: Contract,
    clock: Clock,
}

/// An answer, ready to be sent.
pub(super) struct Answer {
    pub(super) frame: Vec<u8>,
    /// What the connection is after it.
    pub(super) connection: Connection,
}

// === impl Service ===

impl Service {
    /// # Panics
    ///
    /// If `contract` is no validator's, or the plugin does not export it.
    pub fn new(plugin: Arc<LoadedPlugin>, contract: Contract, clock: Clock) -> Self {
        assert!(contract != Contract::TemplateFilter && plugin.contracts().contains(&contract), "not a validator");
        Self { plugin, contract, clock }
    }

    /// Answers one request. Blocks until the plugin has answered or met a limit.
    pub(super) fn answer(&self, body: Bytes, tally: &Tally) -> Answer {
        let decoded = Request::decode(&body);
        // The request has its own copy of what is needed.
        drop(body);
        match decoded.and_then(|request| request.subject(self.contract)) {
            Err(refusal) => self.refuse(&refusal, tally),
            Ok(subject) => {
                let report = self.plugin.validate(&subject.question((self.clock)()));
                let response = Response::of_report(&report);
                match frame(&response.encode()) {
                    Ok(frame) => {
                        tally.answered(&report, Some(&response));
                        Answer { frame, connection: Connection::Open }
                    }
                    Err(FrameTooLarge { announced }) => {
                        tally.answered(&report, None);
                        say(too_long(&report, announced), Connection::Open)
                    }
                }
            }
        }
    }

    /// Answers what is no request.
    pub(super) fn refuse(&self, refusal: &Refusal, tally: &Tally) -> Answer {
        tracing::warn!(plugin = %self.plugin.name(), %refusal, "refused a request");
        tally.refused();
        say(refusal.to_string(), refusal.connection())
    }

    /// Answers when the thread that should have answered ended by a fault of its own.
    pub(super) fn lost(&self, tally: &Tally) -> Answer {
        tally.lost();
        let name = self.plugin.name();
        say(format!("plugin `{name}` was not asked for a fault of the server; see its log"), Connection::Closed)
    }
}

/// An answer that is one sentence about no file.
fn say(message: String, connection: Connection) -> Answer {
    let frame = frame(&Response::refused(message).encode()).expect("a sentence fits a frame");
    Answer { frame, connection }
}

fn too_long(report: &PluginReport, bytes: usize) -> String {
    let findings = report.errors.len() + report.warnings.len();
    format!(
        "response frame exceeds maximum size of {MAX_FRAME_BYTES} bytes: plugin `{}` reports {findings} findings in \
         {bytes} bytes; correct the first of them, or let it report fewer",
        report.plugin
    )
}
