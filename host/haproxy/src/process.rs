//! The life of a local HAProxy in master-worker mode: start, adopt, reload, watch, stop.
//!
//! A HAProxy that was started here outlives its starter: it has a process group of its own, reads nothing and writes its
//! words to a file. A later [`Launch::adopt`] finds it by its master socket. Measured on 3.0, 3.2 and 3.4: when the
//! master is killed, its worker ends within milliseconds; still [`Launch::leftovers`] looks for survivors, because two
//! processes that share a port by `SO_REUSEPORT` split the traffic silently (haproxy-facts §0 trap 15).
//!
//! The command line is `haproxy -W -S RUN/master.sock,… -f RUN/agent.cfg -f BASE/haproxy.cfg`. `agent.cfg` holds the
//! worker's stats socket and belongs to the agent; with `default-path config` in `haproxy.cfg` every path is relative to
//! the file that names it, so the two directories do not disturb each other (measured, also after reloads).

mod bind;
mod master;
mod scan;
mod start;

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use thiserror::Error;
use tokio::io::{Interest, unix::AsyncFd};

pub use bind::{BindError, test_bind};
pub use master::{Master, Processes, ReloadError};
pub use scan::start_ticks;

/// Longest path of a unix socket that HAProxy binds: it appends `.PID.tmp` (haproxy-facts §0 trap 17).
pub const MAX_SOCKET_PATH: usize = 97;
/// How often a process without a descriptor is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How a HAProxy is run.
#[derive(Clone, Debug)]
pub struct Launch {
    pub binary: PathBuf,
    /// `haproxy.cfg` of the file set.
    pub config: PathBuf,
    /// For sockets, `agent.cfg` and the log; its sockets are `master.sock` and `worker.sock`.
    pub run_dir: PathBuf,
    /// How long a start may take until both sockets answer.
    pub start_timeout: Duration,
}

/// A process that cannot be mistaken for a later one of the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// In clock ticks since boot, from `/proc/PID/stat`.
    pub start_ticks: u64,
}

/// A running master and its current worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    pub master: ProcessIdentity,
    pub worker: ProcessIdentity,
}

#[derive(Debug, Error)]
pub enum StartError {
    /// In HAProxy's own words.
    #[error("HAProxy refused to start: {words}")]
    Refused { words: String },
    #[error("could not run {binary}")]
    Spawn {
        binary: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not prepare {path} for HAProxy")]
    Prepare {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the socket path {path} is longer than {MAX_SOCKET_PATH} bytes; choose a shorter directory")]
    SocketPath { path: PathBuf },
    #[error("HAProxy did not open its sockets within {limit:?}; its words: {words}")]
    Timeout { limit: Duration, words: String },
    #[error("processes {pids:?} of an earlier HAProxy do not end, and would share its ports")]
    Leftovers { pids: Vec<u32> },
}

/// Resolves when a process has ended, whether or not it is a child of this one.
#[derive(Debug)]
pub struct Exit {
    identity: ProcessIdentity,
    fd: Option<AsyncFd<OwnedFd>>,
}

// === impl Launch ===

impl Launch {
    pub fn master_socket(&self) -> PathBuf {
        self.run_dir.join("master.sock")
    }

    pub fn worker_socket(&self) -> PathBuf {
        self.run_dir.join("worker.sock")
    }

    pub fn agent_config(&self) -> PathBuf {
        self.run_dir.join("agent.cfg")
    }

    /// Standard output and error of HAProxy since its last start.
    pub fn log(&self) -> PathBuf {
        self.run_dir.join("haproxy.log")
    }

    /// Starts HAProxy from the files on disk and waits until both sockets answer. What an earlier HAProxy of the same
    /// sockets left behind is stopped first.
    pub async fn start(&self) -> Result<Running, StartError> {
        start::start(self).await
    }

    /// Finds a HAProxy that an earlier process started on the same sockets, from the same binary and for the same set.
    /// `None` = none answers, or it is another one, which [`Launch::start`] would stop first.
    pub async fn adopt(&self) -> Option<Running> {
        let master = Master::new(&self.master_socket(), self.start_timeout);
        let processes = master.show_proc().await.ok()?;
        if !scan::runs(processes.master, &self.binary, &self.config) {
            return None;
        }
        let master = ProcessIdentity::of(processes.master)?;
        let worker = ProcessIdentity::of(processes.worker?)?;
        Some(Running { master, worker })
    }

    /// Pids of living processes that were started on this master socket: master, workers, old workers and orphans.
    pub fn leftovers(&self) -> Vec<u32> {
        scan::processes_naming(&self.master_socket())
    }

    /// Ends every process of this launch: SIGTERM, then SIGKILL after `grace`.
    pub async fn kill_leftovers(&self, grace: Duration) -> Result<(), StartError> {
        start::end_all(self, Signal::TERM, grace).await
    }

    /// Drains (SIGUSR1) for at most `drain`, then ends what is left.
    pub async fn stop(&self, drain: Duration) -> Result<(), StartError> {
        start::drain(self, drain).await
    }
}

// === impl ProcessIdentity ===

impl ProcessIdentity {
    /// `None` = no such process, or it has ended and only waits to be reaped.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, start_ticks: start_ticks(pid)? })
    }

    pub fn is_alive(&self) -> bool {
        Self::of(self.pid) == Some(*self)
    }

    /// Sends a signal, unless the process has ended.
    pub fn signal(&self, signal: Signal) {
        if self.is_alive()
            && let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw)
        {
            // It may end between the look and the signal, which is what was wanted.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

// === impl Exit ===

impl Exit {
    #[expect(
        deprecated,
        reason = "its successor is unsafe to call; an `OwnedFd` keeps its descriptor for its whole life"
    )]
    pub fn watch(identity: ProcessIdentity) -> Self {
        let pid = i32::try_from(identity.pid).ok().and_then(Pid::from_raw);
        let fd = pid
            .and_then(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK).ok())
            .and_then(|fd| AsyncFd::with_interest(fd, Interest::READABLE).ok());
        Self { identity, fd }
    }

    /// Cancel-safe.
    pub async fn wait(&self) {
        if !self.identity.is_alive() {
            return;
        }
        if let Some(fd) = &self.fd {
            // Readable means ended; an error of the reactor means that nothing more is known.
            let _ = fd.readable().await;
        }
        // Without a descriptor (too many are open, or a sandbox has none) looking is all that is left: a caller that
        // is told of an end which has not come would kill a HAProxy that serves.
        while self.identity.is_alive() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Whether HAProxy can bind a socket at this path.
pub fn check_socket_path(path: &Path) -> Result<(), StartError> {
    if path.as_os_str().len() > MAX_SOCKET_PATH {
        return Err(StartError::SocketPath { path: path.to_owned() });
    }
    Ok(())
}
