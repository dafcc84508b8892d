//! From a runtime error to the limit or rule that was broken.

use haptic_model::ports::PluginFailureKind;
use wasmtime::{Store, Trap, component::ResourceTableError};
use wasmtime_wasi::I32Exit;

use crate::{call::Call, limits::MAX_HANDLES};

/// Longest text of a trap that is kept.
const MAX_TRAP_BYTES: usize = 400;

/// Why the host ended a call. Kept in the store's state, because an error on its way through a guest loses its type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ended {
    Timeout,
    Input { bytes: u64 },
}

/// Says which limit or rule `error` stands for.
pub(crate) fn classify(store: &Store<Call>, error: &wasmtime::Error) -> PluginFailureKind {
    let call = store.data();
    match call.ended {
        Some(Ended::Timeout) => return timeout(call),
        Some(Ended::Input { bytes }) => {
            return PluginFailureKind::InputLimit { limit_bytes: call.limits.input_bytes, bytes };
        }
        None => {}
    }
    // A guest that was refused memory usually panics; the refusal is the reason.
    if call.limiter.denied() {
        return PluginFailureKind::MemoryLimit { limit_bytes: call.limits.memory_bytes };
    }
    let cause = error.root_cause().to_string();
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return PluginFailureKind::Trap { message: explain(call, &format!("called exit({})", exit.0)) };
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => PluginFailureKind::StackLimit,
        Some(Trap::Interrupt) => timeout(call),
        Some(trap) => PluginFailureKind::Trap { message: explain(call, &trap.to_string()) },
        None if is_out_of_handles(error, &cause) => PluginFailureKind::HandleLimit { limit: MAX_HANDLES as u64 },
        // The runtime gives these errors no type that could be asked for; tests hold the words.
        None if cause.contains("fuel allocated for hostcalls") => {
            PluginFailureKind::OutputLimit { limit_bytes: call.limits.output_bytes }
        }
        None if cause.starts_with("resource limit exceeded") => PluginFailureKind::PartsLimit { message: cause },
        None => PluginFailureKind::Contract { message: crate::report::printable(&cause, MAX_TRAP_BYTES) },
    }
}

/// The table of what the host gave is full, or the runtime's own of everything that the guest may name.
fn is_out_of_handles(error: &wasmtime::Error, cause: &str) -> bool {
    matches!(error.downcast_ref(), Some(ResourceTableError::Full))
        || cause.contains("store handle limit exceeded")
        || cause.contains("too many active lends")
}

fn timeout(call: &Call) -> PluginFailureKind {
    let limit_ms = u64::try_from(call.limits.timeout.as_millis()).unwrap_or(u64::MAX);
    PluginFailureKind::Timeout { limit_ms }
}

/// A panic traps with `unreachable`; what it printed before says more.
fn explain(call: &Call, trap: &str) -> String {
    let trap = trap.strip_prefix("wasm trap: ").unwrap_or(trap);
    let stderr = call.stderr.text();
    let words = stderr.trim();
    let text = if words.is_empty() { trap.to_owned() } else { format!("{trap}: {words}") };
    crate::report::printable(&text, MAX_TRAP_BYTES)
}

// === impl Ended ===

impl Ended {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "the call passed its deadline",
            Self::Input { .. } => "the call read more than its input limit",
        }
    }
}
