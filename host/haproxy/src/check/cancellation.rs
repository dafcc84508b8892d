use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::event::{EventfdFlags, eventfd};

/// Stops checks from another thread. Clones share one state, which never goes back.
#[derive(Clone, Debug)]
pub struct Cancellation(Arc<State>);

#[derive(Debug)]
struct State {
    cancelled: AtomicBool,
    /// Wakes a poll. `None` when the process had no descriptor left; then the flag is only seen at the end.
    event: Option<OwnedFd>,
}

// === impl Cancellation ===

impl Cancellation {
    pub fn new() -> Self {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok();
        Self(Arc::new(State { cancelled: AtomicBool::new(false), event }))
    }

    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        if let Some(event) = &self.0.event {
            // Only a counter at its greatest value refuses, and that wakes as well.
            let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    pub(super) fn event(&self) -> Option<BorrowedFd<'_>> {
        self.0.event.as_ref().map(AsFd::as_fd)
    }
}

impl Default for Cancellation {
    fn default() -> Self {
        Self::new()
    }
}
