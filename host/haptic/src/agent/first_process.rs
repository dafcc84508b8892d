//! What the first process of a container owes its children, when that process is haptic.
//!
//! The kernel gives every orphan to process 1, which must reap it: HAProxy's workers are orphans once their master was
//! killed. Reaping "whatever ended" in the agent itself would take the exit codes of its own children away from it. So
//! process 1 runs the agent as a child and does nothing but reap and pass signals on.

use std::{
    env, io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Command, ExitCode, ExitStatus},
};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// What a shell says of a process that a signal ended: 128 and its number.
const SIGNALLED: i32 = 128;

/// Whether this process has these duties.
pub(crate) fn is_first() -> bool {
    std::process::id() == 1
}

/// Runs this program again, with the same arguments, as a child; ends as the child does.
pub(crate) fn run_as_child() -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before the child is there, so that none of its signals is missed.
        let mut signals = Signals::new().context("listening for signals")?;
        let child = spawn().context("starting the agent below process 1")?;
        loop {
            match signals.next().await {
                Received::PassOn(passed) => {
                    // It may have ended already, which the next look finds out.
                    let _ = kill_process(child, passed);
                }
                Received::ChildEnded => {
                    if let Some(status) = reap(child).context("waiting for children")? {
                        return Ok(exit_code(status));
                    }
                }
            }
        }
    })
}

struct Signals {
    terminate: Stream,
    interrupt: Stream,
    child: Stream,
}

enum Received {
    PassOn(Signal),
    ChildEnded,
}

// === impl Signals ===

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            child: signal(SignalKind::child())?,
        })
    }

    async fn next(&mut self) -> Received {
        tokio::select! {
            _ = self.terminate.recv() => Received::PassOn(Signal::TERM),
            _ = self.interrupt.recv() => Received::PassOn(Signal::INT),
            _ = self.child.recv() => Received::ChildEnded,
        }
    }
}

fn spawn() -> anyhow::Result<Pid> {
    let mut arguments = env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let child = command.args(arguments).spawn()?;
    // Reaped below with all others; dropping the handle waits for nothing.
    Pid::from_raw(i32::try_from(child.id())?).context("a child has a pid")
}

/// Reaps whatever has ended. One signal may stand for several ends.
fn reap(agent: Pid) -> io::Result<Option<WaitStatus>> {
    let mut ended = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == agent => ended = Some(status),
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(ended),
            Err(error) => return Err(error.into()),
        }
    }
}

fn exit_code(status: WaitStatus) -> ExitCode {
    let status = ExitStatus::from_raw(status.as_raw());
    let code = status.code().unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
