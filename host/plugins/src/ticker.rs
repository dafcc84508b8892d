//! The clock that interrupts running guests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use wasmtime::Engine;

/// How often a running guest is asked to look at the time. It bounds how late a timeout is noticed.
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// Ticks without a call in flight before the thread parks: waking it costs more than a few idle ticks.
const IDLE_TICKS: u32 = 200;

/// Raises the engine's epoch every [`TICK`] while a call is in flight. A tick says only "look at the time": a call's
/// deadline is wall-clock time, so late, missed or bunched ticks can delay a stop but never bring it forward.
#[derive(Clone)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    /// Ends the thread with the last clone.
    stop: Arc<Stop>,
}

/// A call in flight; the epoch advances as long as one of these lives.
pub(crate) struct InFlight(Arc<Shared>);

struct Shared {
    in_flight: AtomicUsize,
    parked: AtomicBool,
    stopped: AtomicBool,
}

struct Stop {
    shared: Arc<Shared>,
    thread: Thread,
}

// === impl Ticker ===

impl Ticker {
    pub(crate) fn start(engine: Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            in_flight: AtomicUsize::new(0),
            parked: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        });
        let ticking = Arc::clone(&shared);
        let handle = thread::Builder::new().name("plugin-ticker".to_owned()).spawn(move || ticking.run(&engine))?;
        let stop = Arc::new(Stop { shared: Arc::clone(&shared), thread: handle.thread().clone() });
        Ok(Self { shared, stop })
    }

    pub(crate) fn enter(&self) -> InFlight {
        self.shared.in_flight.fetch_add(1, Ordering::SeqCst);
        // The thread raises `parked` before it looks at `in_flight` a last time, so one of the two sees the other.
        if self.shared.parked.load(Ordering::SeqCst) {
            self.stop.thread.unpark();
        }
        InFlight(Arc::clone(&self.shared))
    }
}

// === impl InFlight ===

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

// === impl Shared ===

impl Shared {
    fn run(&self, engine: &Engine) {
        let mut idle = 0;
        while !self.stopped.load(Ordering::SeqCst) {
            if self.in_flight.load(Ordering::SeqCst) > 0 {
                idle = 0;
            } else {
                idle += 1;
            }
            if idle < IDLE_TICKS {
                thread::park_timeout(TICK);
                engine.increment_epoch();
                continue;
            }
            self.parked.store(true, Ordering::SeqCst);
            while self.in_flight.load(Ordering::SeqCst) == 0 && !self.stopped.load(Ordering::SeqCst) {
                thread::park();
            }
            self.parked.store(false, Ordering::SeqCst);
            idle = 0;
        }
    }
}

// === impl Stop ===

impl Drop for Stop {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}
