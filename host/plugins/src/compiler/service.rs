//! The process that compiles, from its own side: a module in, an image out, and nothing else within reach.

use std::{
    fs,
    io::{self, Read as _, Write as _},
};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetError, Scope,
};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

use crate::engine::compiling_engine;

/// The first byte of what is written to standard output, which says what the rest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Answer {
    Image = b'I',
    /// Why the compiler does not take the component, as text.
    Refused = b'R',
    /// Nothing follows.
    OutOfMemory = b'M',
}

/// What the process does that a [`crate::CompilerProcess`] starts: reads a component from standard input to its end and
/// writes the image to standard output. It gives up files, network and other processes first, so this must be all
/// that the process is for. Blocks; an error is one of the two pipes.
pub fn compile_for_parent() -> io::Result<()> {
    confine()?;
    let mut component = Vec::new();
    io::stdin().lock().read_to_end(&mut component)?;
    let image = compiling_engine().and_then(|engine| engine.precompile_component(&component));
    let (answer, body) = match image {
        Ok(image) => (Answer::Image, image),
        Err(error) if error.is::<wasmtime::OutOfMemory>() => (Answer::OutOfMemory, Vec::new()),
        Err(error) => (Answer::Refused, format!("{error:#}").into_bytes()),
    };
    let mut output = io::stdout().lock();
    output.write_all(&[answer as u8])?;
    output.write_all(&body)?;
    output.flush()
}

/// What this process needs from here on is memory, threads and the descriptors that it has. Parents limit memory and
/// time. A kernel without Landlock still gives no descriptor, and so no file and no socket.
fn confine() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // Where the machine itself runs out of memory, this goes first.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let _ = close_files();
    for (resource, most) in [(Resource::Nofile, 3), (Resource::Fsize, 0), (Resource::Core, 0), (Resource::Memlock, 0)] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// No file is opened, changed or executed, nobody connected to, and no other process is sent a signal.
fn close_files() -> Result<(), RulesetError> {
    let abi = ABI::V6;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .restrict_self()?;
    Ok(())
}

// === impl Answer ===

impl Answer {
    pub(super) fn of(byte: u8) -> Option<Self> {
        [Self::Image, Self::Refused, Self::OutOfMemory].into_iter().find(|answer| *answer as u8 == byte)
    }
}
