//! The state of one instance: its limits, its resources, its notes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use wasmtime::{
    AsContextMut, Engine, Store, UpdateDeadline,
    component::{Resource, ResourceTable},
};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::{
    failure::Ended,
    limits::{Limiter, Limits, MAX_HANDLES},
    ticker::TICK,
    totals::Totals,
    wasi::{self, Stderr},
};

/// Notes that one instance may write; the rest is dropped and counted. What all instances of a plugin write together
/// is bounded by [`Totals::may_note`].
const MAX_NOTES: u32 = 20;

/// Where a note is cut.
const MAX_NOTE_BYTES: usize = 1024;

/// What a store holds for the one instance that lives in it.
pub(crate) struct Call {
    pub(crate) limits: Limits,
    pub(crate) limiter: Limiter,
    pub(crate) table: ResourceTable,
    pub(crate) input_read: u64,
    /// The limit by which the host itself ended the call.
    pub(crate) ended: Option<Ended>,
    pub(crate) stderr: Stderr,
    totals: Arc<Totals>,
    deadline: Instant,
    notes: u32,
    dropped_notes: u64,
    /// Made when a guest first asks: most calls never do.
    wasi: Option<WasiCtx>,
}

/// Makes a store whose instance, whatever it does, ends with its limits. The deadline runs from now.
pub(crate) fn store(engine: &Engine, totals: &Arc<Totals>, limits: Limits) -> Store<Call> {
    let mut table = ResourceTable::new();
    table.set_max_capacity(MAX_HANDLES);
    let call = Call {
        limits,
        limiter: Limiter::new(limits.memory_bytes),
        table,
        input_read: 0,
        ended: None,
        stderr: Stderr::default(),
        totals: Arc::clone(totals),
        deadline: deadline(limits.timeout),
        notes: 0,
        dropped_notes: 0,
        wasi: None,
    };
    let mut store = Store::new(engine, call);
    store.limiter(|call| &mut call.limiter);
    store.set_max_component_handles(MAX_HANDLES);
    store.set_hostcall_fuel(usize::try_from(limits.output_bytes).unwrap_or(usize::MAX));
    let ticks = ticks(limits.timeout);
    store.set_epoch_deadline(ticks);
    store.epoch_deadline_callback(move |mut store| {
        let mut store = store.as_context_mut();
        let call = store.data_mut();
        if Instant::now() < call.deadline {
            return Ok(UpdateDeadline::Continue(ticks));
        }
        Err(call.end(Ended::Timeout))
    });
    store
}

/// How many ticks a guest runs before it looks at the time. One that has less time than a tick looks at every chance:
/// slow, but stopped when it should be.
pub(crate) fn ticks(timeout: Duration) -> u64 {
    u64::from(timeout >= TICK)
}

/// Puts something of the host where the guest can be given a handle to it. It does not count as one that the guest
/// made, so that many files leave room for as many handles as few do.
pub(crate) fn lend<T: Send + 'static>(store: &mut Store<Call>, lent: T) -> wasmtime::Result<Resource<T>> {
    store.set_max_component_handles(store.max_component_handles() + 1);
    let table = &mut store.data_mut().table;
    table.set_max_capacity(table.max_capacity() + 1);
    Ok(table.push(lent)?)
}

fn deadline(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now)
}

// === impl Call ===

impl Call {
    /// Starts the limits anew for another call of the same instance; what it holds stays charged.
    pub(crate) fn renew(&mut self, now: Instant) {
        self.deadline = now.checked_add(self.limits.timeout).unwrap_or(now);
        self.input_read = 0;
    }

    /// Records why the host ends the call, and gives the error that ends it.
    pub(crate) fn end(&mut self, ended: Ended) -> wasmtime::Error {
        let message = ended.as_str();
        self.ended = Some(ended);
        wasmtime::Error::msg(message)
    }

    /// Writes a plugin's note to the log, cut and counted.
    pub(crate) fn log(&mut self, level: tracing::Level, message: &str) {
        self.notes = self.notes.saturating_add(1);
        if self.notes > MAX_NOTES || !self.totals.may_note() {
            self.dropped_notes += 1;
            return;
        }
        let message = crate::report::printable(message, MAX_NOTE_BYTES);
        let plugin = &self.totals.name;
        match level {
            tracing::Level::ERROR => tracing::error!(%plugin, note = %message, "plugin note"),
            tracing::Level::WARN => tracing::warn!(%plugin, note = %message, "plugin note"),
            tracing::Level::INFO => tracing::info!(%plugin, note = %message, "plugin note"),
            _ => tracing::debug!(%plugin, note = %message, "plugin note"),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.totals.held(self.limiter.held());
        if self.dropped_notes > 0 {
            self.totals.dropped_notes(self.dropped_notes);
        }
    }
}

impl WasiView for Call {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let stderr = &self.stderr;
        WasiCtxView { ctx: self.wasi.get_or_insert_with(|| wasi::context(stderr)), table: &mut self.table }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering::SeqCst},
        thread,
    };

    use wasmtime::component::{Component, Linker};

    use super::*;
    use crate::engine::engine;

    fn run(timeout: Duration, body: &str, tick: impl FnOnce(&Engine, &AtomicBool) + Send) -> (Duration, Option<Ended>) {
        run_after(Duration::ZERO, timeout, body, tick)
    }

    /// Runs the body of a guest's one function, `spent` after its store was made and while `tick` has the epoch, and
    /// gives what became of it. `tick` is told when the guest has ended.
    fn run_after(
        spent: Duration,
        timeout: Duration,
        body: &str,
        tick: impl FnOnce(&Engine, &AtomicBool) + Send,
    ) -> (Duration, Option<Ended>) {
        let engine = engine().expect("the engine's settings fit together");
        let text = format!(
            r#"(component
                (core module $m (func (export "run") {body}))
                (core instance $i (instantiate $m))
                (func (export "run") (canon lift (core func $i "run"))))"#
        );
        let bytes = wat::parse_str(text).expect("the text is well-formed");
        let component = Component::from_binary(&engine, &bytes).expect("the text is a component");
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let started = Instant::now();
            let limits = Limits { timeout, ..Limits::default() };
            let mut store = store(&engine, &Arc::new(Totals::new("p".into())), limits);
            while started.elapsed() < spent {
                thread::yield_now();
            }
            scope.spawn(|| tick(&engine, &ended));
            let instance = Linker::new(&engine).instantiate(&mut store, &component).expect("it imports nothing");
            let run = instance.get_typed_func::<(), ()>(&mut store, "run").expect("it is exported");
            let outcome = run.call(&mut store, ());
            ended.store(true, SeqCst);
            assert_eq!(outcome.is_err(), store.data().ended.is_some());
            (started.elapsed(), store.data().ended)
        })
    }

    const COUNT: &str = "(local $left i32) (local.set $left (i32.const 20000000)) \
        (loop $again (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))";

    #[test]
    fn bunched_ticks_do_not_bring_a_timeout_forward() {
        let (_, ended) = run(Duration::from_mins(10), COUNT, |engine, ended| {
            while !ended.load(SeqCst) {
                engine.increment_epoch();
            }
        });
        assert!(ended.is_none(), "{ended:?}");
    }

    #[test]
    fn time_spent_before_a_call_is_taken_from_its_own() {
        // Counting takes a fraction of the timeout, but nothing of it is left.
        let timeout = Duration::from_secs(1);
        let (_, ended) = run_after(timeout, timeout, COUNT, |engine, ended| {
            while !ended.load(SeqCst) {
                engine.increment_epoch();
            }
        });
        assert!(matches!(ended, Some(Ended::Timeout)), "{ended:?}");
    }

    #[test]
    fn a_call_that_ends_in_time_needs_no_tick() {
        let (_, ended) = run(Duration::from_mins(10), COUNT, |_, _| {});
        assert!(ended.is_none(), "{ended:?}");
    }

    #[test]
    fn a_stalled_ticker_delays_a_timeout_and_the_next_tick_makes_up_for_all() {
        let timeout = Duration::from_millis(50);
        let started = Instant::now();
        let (elapsed, ended) = run(timeout, "(loop $again (br $again))", |engine, ended| {
            // A burst long before the deadline, then nothing until long after it.
            (0..10).for_each(|_| engine.increment_epoch());
            while started.elapsed() < 4 * timeout {
                thread::yield_now();
            }
            assert!(!ended.load(SeqCst), "it was stopped without a tick");
            engine.increment_epoch();
        });
        assert!(matches!(ended, Some(Ended::Timeout)), "{ended:?}");
        // The two clocks did not start together.
        assert!(elapsed >= 3 * timeout, "{elapsed:?}");
    }
}
