//! The process that compiles, from the side of the one that wants the image.
//!
//! Its memory and processor time are limited from outside before it has the first byte of the module: it reads all of
//! it before it begins, and we hold the end of that pipe. What it does to itself stands in [`super::service`].

use std::{
    ffi::OsString,
    io::{self, Read},
    os::{
        fd::AsFd,
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Resource, Rlimit, Signal, pidfd_open, prlimit},
};

use crate::{
    compiler::{CompileFailure, CompileLimits, NoImage, room, service::Answer},
    report::printable,
};

/// The longest answer that is taken. An image is two to three times its module.
const MAX_ANSWER_BYTES: usize = 4 * crate::MAX_MODULE_BYTES;

/// Each thread holds what it compiles: with very many, the limit of memory would be met by an honest module.
const MAX_THREADS: usize = 8;

/// What is kept of the process's last words.
const MAX_WORDS_BYTES: usize = 400;

/// What the standard library says before it ends a process that is refused memory.
const OUT_OF_MEMORY: &str = "memory allocation of";

/// Compiles in a process of its own: this program again, or one of the same build.
#[derive(Debug)]
pub struct CompilerProcess {
    program: PathBuf,
    arguments: Vec<OsString>,
    limits: CompileLimits,
    /// One compiles at a time: it uses every processor, and the memory of two might not be there.
    turn: Mutex<()>,
}

/// Killed and reaped on every way out.
struct Running(Child);

/// What is still to be written to the process, and what it has said so far.
struct Talk<'a> {
    left: &'a [u8],
    answer: Vec<u8>,
    words: Vec<u8>,
}

// === impl CompilerProcess ===

impl CompilerProcess {
    /// `program` with `arguments` must come to [`crate::compile_for_parent`], in a build of the same haptic.
    pub fn new(program: PathBuf, arguments: Vec<OsString>, limits: CompileLimits) -> Self {
        Self { program, arguments, limits, turn: Mutex::default() }
    }

    pub(super) fn image(&self, component: &[u8]) -> Result<Vec<u8>, NoImage> {
        let _turn = self.turn.lock();
        let memory_bytes = room::left().map_or(self.limits.memory_bytes, |left| self.limits.memory_bytes.min(left));
        let limits = CompileLimits { memory_bytes, ..self.limits };
        let mut talk = Talk { left: component, answer: Vec::new(), words: Vec::new() };
        let ended = self.run(limits, &mut talk).map_err(NoImage::Failed)?;
        talk.conclude(ended, limits)
    }

    /// The process's end; `None` if it had to be killed, because its time was over.
    fn run(&self, limits: CompileLimits, talk: &mut Talk<'_>) -> Result<Option<ExitStatus>, CompileFailure> {
        let deadline = Instant::now() + limits.time;
        let start = |source| CompileFailure::Start { program: self.program.clone(), source };
        let mut running = Running(self.command().spawn().map_err(start)?);
        limit(&running.0, limits).map_err(start)?;
        let exit = pidfd_open(running.pid(), PidfdFlags::empty()).map_err(|errno| start(errno.into()))?;
        let in_time = talk.over(&mut running.0, deadline).map_err(CompileFailure::Pipe)?;
        if !in_time || !readable(&exit, deadline).map_err(CompileFailure::Pipe)? {
            return Ok(None);
        }
        running.0.wait().map(Some).map_err(CompileFailure::Pipe)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // It cannot look how many it may use: it opens no files.
        let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        command
            .arg0("haptic")
            .args(&self.arguments)
            .env_clear()
            .env("RAYON_NUM_THREADS", threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

fn limit(child: &Child, limits: CompileLimits) -> io::Result<()> {
    let seconds = limits.processor_time.as_secs().max(1);
    let bounds = [
        // Memory that it may write to, which is what compiling takes; addresses alone cost nothing.
        (Resource::Data, limits.memory_bytes, limits.memory_bytes),
        // The first bound is told by a signal that nothing else sends.
        (Resource::Cpu, seconds, seconds + 1),
    ];
    for (resource, current, maximum) in bounds {
        let bound = Rlimit { current: Some(current), maximum: Some(maximum) };
        prlimit(Some(Pid::from_child(child)), resource, bound)?;
    }
    Ok(())
}

/// Waits until something can be read, or was closed; `false` if that is not before the deadline.
fn readable(descriptor: &impl AsFd, deadline: Instant) -> io::Result<bool> {
    wait(&mut [PollFd::new(descriptor, PollFlags::IN)], deadline)
}

/// Waits for one of several; `false` if none is ready before the deadline.
fn wait(descriptors: &mut [PollFd<'_>], deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(descriptors, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

/// Reads what is there and keeps no more than `most` bytes in all. Whether more may come.
fn drain(pipe: &mut impl Read, kept: &mut Vec<u8>, most: usize) -> io::Result<bool> {
    let mut piece = [0; 16 << 10];
    match pipe.read(&mut piece) {
        Ok(0) => Ok(false),
        Ok(count) => {
            kept.extend_from_slice(&piece[..count.min(most.saturating_sub(kept.len()))]);
            Ok(true)
        }
        Err(error) if is_for_later(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

// === impl Talk ===

impl Talk<'_> {
    /// Writes and reads until the process closes its ends; `false` if it has not by the deadline.
    fn over(&mut self, child: &mut Child, deadline: Instant) -> io::Result<bool> {
        let (mut input, mut output, mut errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let pipes =
            [input.as_ref().map(AsFd::as_fd), output.as_ref().map(AsFd::as_fd), errors.as_ref().map(AsFd::as_fd)];
        for pipe in pipes.into_iter().flatten() {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        while output.is_some() || errors.is_some() {
            let mut awaited = Vec::with_capacity(3);
            awaited.extend(input.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
            awaited.extend(output.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            awaited.extend(errors.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            if !wait(&mut awaited, deadline)? || Instant::now() >= deadline {
                return Ok(false);
            }
            if let Some(pipe) = &mut input
                && !self.feed(pipe)
            {
                input = None;
            }
            if let Some(pipe) = &mut output
                && !drain(pipe, &mut self.answer, MAX_ANSWER_BYTES)?
            {
                output = None;
            }
            if self.answer.len() == MAX_ANSWER_BYTES {
                return Err(io::Error::other(format!("it answers {MAX_ANSWER_BYTES} bytes and more")));
            }
            if let Some(pipe) = &mut errors
                && !drain(pipe, &mut self.words, MAX_WORDS_BYTES)?
            {
                errors = None;
            }
        }
        Ok(true)
    }

    /// Writes as much as fits. Whether there is more to write, and somebody who reads.
    fn feed(&mut self, pipe: &mut impl io::Write) -> bool {
        match pipe.write(self.left) {
            Ok(count) => self.left = &self.left[count..],
            Err(error) if is_for_later(&error) => {}
            // It ended without reading all; its end says why.
            Err(_) => return false,
        }
        !self.left.is_empty()
    }

    fn conclude(mut self, ended: Option<ExitStatus>, limits: CompileLimits) -> Result<Vec<u8>, NoImage> {
        let Some(status) = ended else {
            return Err(NoImage::Failed(CompileFailure::Time { limit_ms: millis(limits.time) }));
        };
        let memory = || Err(NoImage::Failed(CompileFailure::Memory { limit_bytes: limits.memory_bytes }));
        if status.success() {
            let body = self.answer.split_off(1.min(self.answer.len()));
            match self.answer.first().copied().and_then(Answer::of) {
                Some(Answer::Image) => return Ok(body),
                Some(Answer::OutOfMemory) => return memory(),
                Some(Answer::Refused) => {
                    let words = String::from_utf8_lossy(&body).into_owned();
                    return Err(NoImage::Refused(wasmtime::Error::msg(words)));
                }
                None => {}
            }
        }
        let words = String::from_utf8_lossy(&self.words);
        let signal = status.signal();
        if signal == Some(Signal::ABORT.as_raw()) && words.contains(OUT_OF_MEMORY) {
            return memory();
        }
        if signal == Some(Signal::XCPU.as_raw()) {
            let limit_ms = millis(limits.processor_time);
            return Err(NoImage::Failed(CompileFailure::ProcessorTime { limit_ms }));
        }
        let words = printable(words.trim(), MAX_WORDS_BYTES);
        let how = if words.is_empty() { status.to_string() } else { format!("{status}: {words}") };
        Err(NoImage::Failed(CompileFailure::Died { how }))
    }
}

// === impl Running ===

impl Running {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended and was waited for is left alone by both.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
