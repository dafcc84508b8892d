//! Room on the host's stack for a guest.
//!
//! A guest runs on the stack of the thread that calls it, and the runtime stops it after [`crate::engine`]'s limit. If
//! the thread has less than that left, say deep in a template's recursion, a guest's recursion would run over the end
//! of the thread's stack and end the whole process.

use crate::engine::MAX_WASM_STACK_BYTES;

/// What the host itself needs beyond the guest's frames: its calls into the guest, and the functions that a guest
/// calls when its own stack is nearly full.
const HOST_BYTES: usize = 512 << 10;

/// The stack that is made if there is too little.
const NEW_STACK_BYTES: usize = 2 << 20;

/// Runs `work`, which calls a guest, where there is room for it.
pub(crate) fn with_room<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(MAX_WASM_STACK_BYTES + HOST_BYTES, NEW_STACK_BYTES, work)
}
