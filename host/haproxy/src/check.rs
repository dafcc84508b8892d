//! The check jail: asks a HAProxy binary whether it accepts a file set, without trusting the set.
//!
//! `haproxy -c` runs text that a stranger may have written: it executes Lua files at load, prints lines of any file it
//! is pointed to, expands environment variables and resolves names (DESIGN §7). Each check therefore gets a fresh tree,
//! an empty environment, Landlock, seccomp, resource limits, and namespaces where the kernel gives them; its words are
//! trimmed and cleaned before anyone sees them. Calls block: use them on a blocking thread.

mod cancellation;
mod jail;
mod loader;
mod output;
mod starter;
mod tree;
mod watch;

use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use haptic_model::{CONFIG_PATH, FileSet};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use crate::check::{
    cancellation::Cancellation,
    jail::{JailReport, Measure},
    output::{CheckMessage, CheckSeverity},
    starter::{Starter, start_for_parent},
};
use crate::check::{output::Redaction, tree::Tree, watch::Ending};

/// One HAProxy binary, and how much a check may take.
#[derive(Clone, Debug)]
pub struct Checker {
    binary: PathBuf,
    version: String,
    minor: (u16, u16),
    limits: CheckLimits,
    scratch: PathBuf,
    starter: Starter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckLimits {
    /// Wall clock; the whole process group is killed at its end.
    pub wall: Duration,
    /// Processor time, in whole seconds.
    pub cpu: Duration,
    /// Address space.
    pub memory_bytes: u64,
    pub open_files: u64,
    /// What is kept of HAProxy's output; the rest is read and dropped.
    pub output_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckMode {
    /// A server name that does not resolve is an error. There is no network in the jail, so no name resolves.
    Strict,
    /// `-dr`: such a server starts without an address. This is the mode of the render gate, which works beside the way of a
    /// change: its HAProxy gives way to everything else of the process (nice 19).
    TolerateUnresolved,
}

/// What HAProxy said.
#[derive(Clone, Debug)]
pub struct CheckVerdict {
    pub passed: bool,
    /// Full version of the binary, e.g. `3.4.7-1`.
    pub haproxy_version: String,
    pub messages: Vec<CheckMessage>,
    pub elapsed: Duration,
    /// What held this check; see there what the kernel did not allow.
    pub jail: JailReport,
}

/// There is no verdict. None of these is ever a pass.
#[derive(Debug, Error)]
pub enum CheckError {
    #[error("cannot ask {binary} for its version: {source}; give the path of a HAProxy binary")]
    Binary { binary: PathBuf, source: io::Error },
    #[error("{binary} did not answer with a HAProxy version, but `{answer}`; give the path of a HAProxy binary")]
    NotHaproxy { binary: PathBuf, answer: String },
    #[error("cannot write {path} for the check: {source}")]
    Tree { path: PathBuf, source: io::Error },
    #[error("the file set has no {CONFIG_PATH} to check")]
    NoConfig,
    #[error("cannot start {binary} for the check: {source}")]
    Spawn { binary: PathBuf, source: io::Error },
    #[error("cannot watch the check: {0}")]
    Watch(#[source] io::Error),
    #[error("the check was cancelled")]
    Cancelled,
    #[error("the check took longer than {limit:?} and was stopped; look for a Lua file that loops when it is loaded")]
    TimedOut { limit: Duration },
    #[error("the check was killed by signal {signal}, most likely at its limit of {cpu:?} of processor time")]
    Killed { signal: i32, cpu: Duration },
}

// === impl CheckLimits ===

impl CheckLimits {
    /// Enough for 20,000 backends (haproxy-facts §2: 5,000 take 0.4 s and 140 MB), little enough for admission.
    pub const STANDARD: Self = Self {
        wall: Duration::from_secs(10),
        cpu: Duration::from_secs(10),
        memory_bytes: 2 << 30,
        open_files: 256,
        output_bytes: 64 << 10,
    };
}

// === impl Checker ===

impl Checker {
    /// Asks `binary` for its version. Trees are made in `/dev/shm` where it can be written, else in the directory for
    /// temporary files.
    pub fn new(binary: impl Into<PathBuf>, limits: CheckLimits) -> Result<Self, CheckError> {
        let binary = binary.into();
        let output = Command::new(&binary)
            .arg("-v")
            .env_clear()
            .output()
            .map_err(|source| CheckError::Binary { binary: binary.clone(), source })?;
        let answer = String::from_utf8_lossy(&output.stdout);
        let Some((version, minor)) = version_of(&answer) else {
            let answer = answer.lines().next().unwrap_or_default().chars().take(200).collect();
            return Err(CheckError::NotHaproxy { binary, answer });
        };
        let (scratch, starter) = (tree::scratch_directory(), Starter::InProcess);
        Ok(Self { binary, version, minor, limits, scratch, starter })
    }

    /// Has checks started by `starter` instead of by this process.
    #[must_use]
    pub fn with_starter(mut self, starter: Starter) -> Self {
        self.starter = starter;
        self
    }

    /// Makes the trees below `directory` instead.
    #[must_use]
    pub fn with_scratch(mut self, directory: impl Into<PathBuf>) -> Self {
        self.scratch = directory.into();
        self
    }

    /// Allows this much instead.
    #[must_use]
    pub fn with_limits(mut self, limits: CheckLimits) -> Self {
        self.limits = limits;
        self
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    /// Major and minor version.
    pub fn minor(&self) -> (u16, u16) {
        self.minor
    }

    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Runs `haproxy -c` on `files`. Cancellation kills it, and even after a successful exit it is no pass.
    pub fn check(
        &self,
        files: &FileSet,
        mode: CheckMode,
        cancellation: &Cancellation,
    ) -> Result<CheckVerdict, CheckError> {
        let started = Instant::now();
        if cancellation.is_cancelled() {
            return Err(CheckError::Cancelled);
        }
        if !files.contains_key(CONFIG_PATH) {
            return Err(CheckError::NoConfig);
        }
        let tree = Tree::write(&self.scratch, files)?;
        let failed = |source| CheckError::Spawn { binary: self.binary.clone(), source };
        let started_check = self.starter.start(&self.binary, tree.path(), mode, &self.limits).map_err(failed)?;
        let deadline = started + self.limits.wall;
        let watched = watch::until_end(started_check.child, deadline, self.limits.output_bytes, cancellation)
            .map_err(CheckError::Watch)?;
        let status = match watched.ending {
            _ if cancellation.is_cancelled() => return Err(CheckError::Cancelled),
            Ending::TimedOut => return Err(CheckError::TimedOut { limit: self.limits.wall }),
            Ending::Cancelled => return Err(CheckError::Cancelled),
            Ending::Exited(status) => status,
        };
        if let Some(signal) = self.starter.signal(status) {
            return Err(CheckError::Killed { signal, cpu: self.limits.cpu });
        }
        let (report, output) = match started_check.report {
            Some(report) => (report, watched.output.as_slice()),
            None => starter::told(&watched.output).map_err(failed)?,
        };
        let redaction = Redaction { tree: tree.path(), files, confined: report.landlock.is_enforced() };
        Ok(CheckVerdict {
            passed: status.success(),
            haproxy_version: self.version.clone(),
            messages: output::messages(output, &redaction),
            elapsed: started.elapsed(),
            jail: report,
        })
    }
}

/// From `HAProxy version 3.4.7-1 2026/10/14 - https://haproxy.org/`.
fn version_of(answer: &str) -> Option<(String, (u16, u16))> {
    let version = answer.strip_prefix("HAProxy version ")?.split_whitespace().next()?;
    let mut numbers = version.split(['.', '-']);
    let minor = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    Some((version.to_owned(), minor))
}
