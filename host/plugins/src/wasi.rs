//! The WASI of a plugin: a world in which nothing is there, time stands still and nothing waits.
//!
//! Most of it is `wasmtime-wasi` with an empty context. Its streams and polls are our own, because the runtime's
//! synchronous ones block a thread where no epoch can interrupt it. Here every pollable is ready, every write is taken
//! and every read is at its end. Interfaces of WASI that are not offered (sockets, http, …) cannot be imported: loading
//! such a plugin fails and names the first of them.

use std::{future, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::{
    HostMonotonicClock, HostWallClock, WasiCtx,
    cli::{IsTerminal, StdinStream, StdoutStream, WasiCli, WasiCliView as _},
    clocks::{WasiClocks, WasiClocksView as _},
    filesystem::{WasiFilesystem, WasiFilesystemView as _},
    p2::{
        InputStream, OutputStream, Pollable, StreamError, StreamResult,
        bindings::{cli, clocks, filesystem, random, sync},
    },
    random::{Deterministic, WasiRandom, WasiRandomView as _},
};
use wasmtime_wasi_io::{
    bindings::wasi::io::error,
    poll::DynPollable,
    streams::{DynInputStream, DynOutputStream},
};

use crate::call::Call;

use sync::io::{poll, streams};

/// What a guest may write to a stream at once.
const WRITE_BYTES: usize = 64 << 10;

/// How much of what a guest writes to stderr is kept, to explain a panic.
const STDERR_BYTES: usize = 2 << 10;

/// The longest run of "random" bytes in one call.
const RANDOM_BYTES: u64 = 64 << 10;

/// The first bytes that a guest wrote to stderr: where a panic says what happened.
#[derive(Clone, Default)]
pub(crate) struct Stderr(Arc<Mutex<Vec<u8>>>);

/// The interfaces that are offered, without their versions: each minor version of 0.2 fits. [`link`] is their truth.
pub(crate) const OFFERED: [&str; 20] = [
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:clocks/wall-clock",
    "wasi:clocks/monotonic-clock",
    "wasi:random/random",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:cli/exit",
    "wasi:cli/environment",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/stderr",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:cli/terminal-stderr",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
];

/// An empty context. Its values are constants, so two instances with the same input do the same.
pub(crate) fn context(stderr: &Stderr) -> WasiCtx {
    WasiCtx::builder()
        .stdin(Nothing)
        .stdout(Nothing)
        .stderr(stderr.clone())
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .wall_clock(Still)
        .monotonic_clock(Still)
        .secure_random(Deterministic::new(b"haptic".to_vec()))
        .insecure_random(Deterministic::new(b"haptic".to_vec()))
        .insecure_random_seed(0)
        .max_random_size(RANDOM_BYTES)
        .build()
}

/// Offers the interfaces that an ordinary `wasm32-wasip2` build imports.
pub(crate) fn link(linker: &mut Linker<Call>) -> wasmtime::Result<()> {
    error::add_to_linker::<Call, Io>(linker, |call| Quiet(&mut call.table))?;
    poll::add_to_linker::<Call, Io>(linker, |call| Quiet(&mut call.table))?;
    streams::add_to_linker::<Call, Io>(linker, |call| Quiet(&mut call.table))?;
    clocks::wall_clock::add_to_linker::<Call, WasiClocks>(linker, Call::clocks)?;
    clocks::monotonic_clock::add_to_linker::<Call, WasiClocks>(linker, Call::clocks)?;
    random::random::add_to_linker::<Call, WasiRandom>(linker, Call::random)?;
    random::insecure::add_to_linker::<Call, WasiRandom>(linker, Call::random)?;
    random::insecure_seed::add_to_linker::<Call, WasiRandom>(linker, Call::random)?;
    cli::exit::add_to_linker::<Call, WasiCli>(linker, Call::cli)?;
    cli::environment::add_to_linker::<Call, WasiCli>(linker, Call::cli)?;
    cli::stdin::add_to_linker::<Call, WasiCli>(linker, Call::cli)?;
    cli::stdout::add_to_linker::<Call, WasiCli>(linker, Call::cli)?;
    cli::stderr::add_to_linker::<Call, WasiCli>(linker, Call::cli)?;
    cli::terminal_input::add_to_linker::<Call, WasiCli>(linker, Call::cli)?;
    cli::terminal_output::add_to_linker::<Call, WasiCli>(linker, Call::cli)?;
    cli::terminal_stdin::add_to_linker::<Call, WasiCli>(linker, Call::cli)?;
    cli::terminal_stdout::add_to_linker::<Call, WasiCli>(linker, Call::cli)?;
    cli::terminal_stderr::add_to_linker::<Call, WasiCli>(linker, Call::cli)?;
    filesystem::preopens::add_to_linker::<Call, WasiFilesystem>(linker, Call::filesystem)?;
    sync::filesystem::types::add_to_linker::<Call, WasiFilesystem>(linker, Call::filesystem)
}

struct Io;

impl HasData for Io {
    type Data<'a> = Quiet<'a>;
}

/// Streams and polls that never wait.
struct Quiet<'a>(&'a mut ResourceTable);

/// A clock that stands at zero.
struct Still;

/// A stream that takes everything and gives nothing.
struct Nothing;

// === impl Stderr ===

impl Stderr {
    /// What was written so far, as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }
}

impl IsTerminal for Stderr {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stderr {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl Pollable for Stderr {
    fn ready<'a, 'b>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(future::ready(()))
    }
}

impl OutputStream for Stderr {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let mut kept = self.0.lock();
        let room = STDERR_BYTES.saturating_sub(kept.len()).min(bytes.len());
        kept.extend_from_slice(&bytes[..room]);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }
}

// === impl Nothing ===

impl IsTerminal for Nothing {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdinStream for Nothing {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncRead + Send + Sync> {
        Box::new(tokio::io::empty())
    }

    fn p2_stream(&self) -> Box<dyn InputStream> {
        Box::new(Self)
    }
}

impl StdoutStream for Nothing {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(Self)
    }
}

impl Pollable for Nothing {
    fn ready<'a, 'b>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(future::ready(()))
    }
}

impl InputStream for Nothing {
    fn read(&mut self, _: usize) -> StreamResult<Bytes> {
        Err(StreamError::Closed)
    }
}

impl OutputStream for Nothing {
    fn write(&mut self, _: Bytes) -> StreamResult<()> {
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }
}

// === impl Still ===

impl HostWallClock for Still {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

impl HostMonotonicClock for Still {
    fn resolution(&self) -> u64 {
        1_000_000_000
    }

    fn now(&self) -> u64 {
        0
    }
}

// === impl Quiet ===

impl error::Host for Quiet<'_> {}

impl error::HostError for Quiet<'_> {
    fn to_debug_string(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<String> {
        Ok(self.0.get(&error)?.to_string())
    }

    fn drop(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<()> {
        self.0.delete(error)?;
        Ok(())
    }
}

impl poll::Host for Quiet<'_> {
    fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        let count = u32::try_from(pollables.len())?;
        if count == 0 {
            return Err(wasmtime::Error::msg("polled an empty list"));
        }
        Ok((0..count).collect())
    }
}

impl poll::HostPollable for Quiet<'_> {
    fn ready(&mut self, _: Resource<DynPollable>) -> wasmtime::Result<bool> {
        Ok(true)
    }

    fn block(&mut self, _: Resource<DynPollable>) -> wasmtime::Result<()> {
        Ok(())
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        wasmtime_wasi_io::bindings::wasi::io::poll::HostPollable::drop(self.0, pollable)
    }
}

impl streams::Host for Quiet<'_> {
    fn convert_stream_error(&mut self, error: StreamError) -> wasmtime::Result<streams::StreamError> {
        match error {
            StreamError::Closed => Ok(streams::StreamError::Closed),
            StreamError::LastOperationFailed(error) => {
                Ok(streams::StreamError::LastOperationFailed(self.0.push(error)?))
            }
            StreamError::Trap(error) => Err(error),
        }
    }
}

impl streams::HostInputStream for Quiet<'_> {
    fn read(&mut self, stream: Resource<DynInputStream>, length: u64) -> StreamResult<Vec<u8>> {
        let length = usize::try_from(length).map_or(WRITE_BYTES, |length| length.min(WRITE_BYTES));
        Ok(self.0.get_mut(&stream)?.read(length)?.to_vec())
    }

    fn blocking_read(&mut self, stream: Resource<DynInputStream>, length: u64) -> StreamResult<Vec<u8>> {
        self.read(stream, length)
    }

    fn skip(&mut self, stream: Resource<DynInputStream>, length: u64) -> StreamResult<u64> {
        Ok(self.read(stream, length)?.len() as u64)
    }

    fn blocking_skip(&mut self, stream: Resource<DynInputStream>, length: u64) -> StreamResult<u64> {
        self.skip(stream, length)
    }

    fn subscribe(&mut self, stream: Resource<DynInputStream>) -> wasmtime::Result<Resource<DynPollable>> {
        wasmtime_wasi_io::poll::subscribe(self.0, stream)
    }

    fn drop(&mut self, stream: Resource<DynInputStream>) -> wasmtime::Result<()> {
        self.0.delete(stream)?;
        Ok(())
    }
}

impl streams::HostOutputStream for Quiet<'_> {
    fn check_write(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<u64> {
        Ok(self.0.get_mut(&stream)?.check_write()? as u64)
    }

    fn write(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        self.0.get_mut(&stream)?.write(bytes.into())
    }

    fn blocking_write_and_flush(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        self.write(stream, bytes)
    }

    fn subscribe(&mut self, stream: Resource<DynOutputStream>) -> wasmtime::Result<Resource<DynPollable>> {
        wasmtime_wasi_io::poll::subscribe(self.0, stream)
    }

    fn write_zeroes(&mut self, stream: Resource<DynOutputStream>, length: u64) -> StreamResult<()> {
        let length = usize::try_from(length).map_or(WRITE_BYTES, |length| length.min(WRITE_BYTES));
        self.write(stream, vec![0; length])
    }

    fn blocking_write_zeroes_and_flush(&mut self, stream: Resource<DynOutputStream>, length: u64) -> StreamResult<()> {
        self.write_zeroes(stream, length)
    }

    fn flush(&mut self, _: Resource<DynOutputStream>) -> StreamResult<()> {
        Ok(())
    }

    fn blocking_flush(&mut self, _: Resource<DynOutputStream>) -> StreamResult<()> {
        Ok(())
    }

    fn splice(&mut self, _: Resource<DynOutputStream>, _: Resource<DynInputStream>, _: u64) -> StreamResult<u64> {
        // Every input is at its end.
        Err(StreamError::Closed)
    }

    fn blocking_splice(
        &mut self,
        to: Resource<DynOutputStream>,
        from: Resource<DynInputStream>,
        length: u64,
    ) -> StreamResult<u64> {
        self.splice(to, from, length)
    }

    fn drop(&mut self, stream: Resource<DynOutputStream>) -> wasmtime::Result<()> {
        self.0.delete(stream)?;
        Ok(())
    }
}
