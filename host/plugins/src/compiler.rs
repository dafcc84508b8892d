//! From a component to its compiled image.
//!
//! What compiling takes depends on bytes that somebody else wrote, and it cannot be interrupted. So a controller has it
//! done by a process of its own ([`CompilerProcess`]), which has limits, is given nothing but the module, and takes with
//! it whatever the compiler left behind in memory. Tools that end soon may compile where they are.

mod process;
mod room;
mod service;

use std::{io, path::PathBuf, time::Duration};

use thiserror::Error;
use wasmtime::Engine;

pub use self::{process::CompilerProcess, service::compile_for_parent};

/// Who compiles.
#[derive(Debug, Default)]
pub enum Compiler {
    /// This process, with no limit of time or memory.
    #[default]
    InProcess,
    /// A process of its own for each module, one after the other.
    Process(CompilerProcess),
}

/// What compiling one module may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// Memory that the process writes to. Where the control group of this process has less left, three quarters of
    /// that. Default 1 GiB: a plugin in Python takes a third of it.
    pub memory_bytes: u64,
    /// Processor time of all its threads. Default 60 s, several times what a plugin in Python takes.
    pub processor_time: Duration,
    /// From the start to the whole image, on a machine that has other work. Default 5 min.
    pub time: Duration,
}

/// A module was not compiled, for a reason that is not known to be the module's.
#[derive(Debug, Error)]
pub enum CompileFailure {
    #[error("the process that compiles plugins, {}, did not start; it will be tried again with the next change", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("talking to the process that compiles plugins")]
    Pipe(#[source] io::Error),
    #[error("compiling it takes more than {limit_bytes} bytes of memory; build it smaller, or give haptic more memory")]
    Memory { limit_bytes: u64 },
    #[error("compiling it takes more than {limit_ms} ms of processor time; build it smaller, or with optimisation")]
    ProcessorTime { limit_ms: u64 },
    #[error("compiling it takes more than {limit_ms} ms; build it smaller, or give haptic more of a processor")]
    Time { limit_ms: u64 },
    #[error("the process that compiles it ended early ({how}); report this, with the module")]
    Died { how: String },
}

/// Why there is no image.
#[derive(Debug)]
pub(crate) enum NoImage {
    /// It is no component that the compiler takes.
    Refused(wasmtime::Error),
    Failed(CompileFailure),
}

// === impl Compiler ===

impl Compiler {
    /// The compiled image of a component. Blocks, for seconds if it is large.
    pub(crate) fn image(&self, engine: &Engine, component: &[u8]) -> Result<Vec<u8>, NoImage> {
        match self {
            Self::InProcess => engine.precompile_component(component).map_err(NoImage::Refused),
            Self::Process(process) => process.image(component),
        }
    }
}

// === impl CompileLimits ===

impl Default for CompileLimits {
    fn default() -> Self {
        Self { memory_bytes: 1 << 30, processor_time: Duration::from_mins(1), time: Duration::from_mins(5) }
    }
}

impl CompileFailure {
    /// Whether the module asks for more than it may have.
    pub fn is_cost(&self) -> bool {
        matches!(self, Self::Memory { .. } | Self::ProcessorTime { .. } | Self::Time { .. })
    }
}
