//! The state of one instance: its limits, its resources, its notes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use wasmtime::{AsContextMut, Engine, Store, UpdateDeadline, component::ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::{
    failure::Ended,
    limits::{Limiter, Limits},
    wasi::{self, Stderr},
};

/// Notes that one instance may write; the rest is dropped and counted.
const MAX_NOTES: u32 = 20;

/// Where a note is cut.
const MAX_NOTE_BYTES: usize = 1024;

/// What a store holds for the one instance that lives in it.
pub(crate) struct Call {
    pub(crate) plugin: Arc<str>,
    pub(crate) limits: Limits,
    pub(crate) limiter: Limiter,
    pub(crate) table: ResourceTable,
    pub(crate) input_read: u64,
    /// The limit by which the host itself ended the call.
    pub(crate) ended: Option<Ended>,
    pub(crate) stderr: Stderr,
    deadline: Instant,
    notes: u32,
    /// Made when a guest first asks: most calls never do.
    wasi: Option<WasiCtx>,
}

/// Makes a store whose instance, whatever it does, ends with its limits. The deadline runs from now.
pub(crate) fn store(engine: &Engine, plugin: &Arc<str>, limits: Limits) -> Store<Call> {
    let call = Call {
        plugin: Arc::clone(plugin),
        limits,
        limiter: Limiter::new(limits.memory_bytes),
        table: ResourceTable::new(),
        input_read: 0,
        ended: None,
        stderr: Stderr::default(),
        deadline: deadline(limits.timeout),
        notes: 0,
        wasi: None,
    };
    let mut store = Store::new(engine, call);
    store.limiter(|call| &mut call.limiter);
    store.set_hostcall_fuel(usize::try_from(limits.output_bytes).unwrap_or(usize::MAX));
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut store| {
        let mut store = store.as_context_mut();
        let call = store.data_mut();
        if Instant::now() < call.deadline {
            return Ok(UpdateDeadline::Continue(1));
        }
        Err(call.end(Ended::Timeout))
    });
    store
}

fn deadline(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now)
}

// === impl Call ===

impl Call {
    /// Starts the limits anew for another call of the same instance; what it holds stays charged.
    pub(crate) fn renew(&mut self) {
        self.deadline = deadline(self.limits.timeout);
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
        self.notes += 1;
        if self.notes > MAX_NOTES {
            return;
        }
        let message = crate::report::printable(message, MAX_NOTE_BYTES);
        let plugin = &self.plugin;
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
        if self.notes > MAX_NOTES {
            tracing::warn!(plugin = %self.plugin, dropped = self.notes - MAX_NOTES, "dropped notes of a plugin");
        }
    }
}

impl WasiView for Call {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let stderr = &self.stderr;
        WasiCtxView { ctx: self.wasi.get_or_insert_with(|| wasi::context(stderr)), table: &mut self.table }
    }
}
