//! Who starts HAProxy in its jail: this process, or a small one that it starts for that.

use std::{
    io::{self, Write as _},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
};

use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::check::{
    CheckLimits, CheckMode, JailReport,
    jail::{self, Parent},
};

/// Whose child HAProxy is while it checks. Default: this process's.
#[derive(Clone, Debug, Default)]
pub enum Starter {
    /// This process, which is copied for it: that costs what the process is large, and slows down what it does next.
    #[default]
    InProcess,
    /// A program that calls [`start_for_parent`] with its last argument. Its jail is the same.
    Process { program: PathBuf, arguments: Vec<String> },
}

/// A check that runs.
pub(super) struct Started {
    pub(super) child: Child,
    /// `None` = the beginning of its output, see [`told`].
    pub(super) report: Option<JailReport>,
}

#[derive(Serialize, Deserialize)]
struct Order {
    binary: PathBuf,
    tree: PathBuf,
    mode: CheckMode,
    limits: CheckLimits,
}

/// The first line of a starter's output.
#[derive(Serialize, Deserialize)]
enum Told {
    Started(JailReport),
    Failed(String),
}

/// What an exit code tells besides, as shells do it: the number of a signal.
const SIGNALLED: i32 = 128;

/// What the process does that [`Starter::Process`] starts: starts one check and ends as that does. An error is a
/// failure to write to standard error.
pub fn start_for_parent(order: &str) -> io::Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let jailed = serde_json::from_str(order)
        .map_err(io::Error::from)
        .and_then(|Order { binary, tree, mode, limits }| jail::spawn(&binary, &tree, mode, &limits, Parent::Starter));
    let jailed = match jailed {
        Ok(jailed) => jailed,
        Err(error) => {
            tell(&Told::Failed(error.to_string()))?;
            return Ok(ExitCode::FAILURE);
        }
    };
    tell(&Told::Started(jailed.report.clone()))?;
    let status = jailed.release().wait()?;
    let code = status.code().unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

fn tell(told: &Told) -> io::Result<()> {
    let mut line = serde_json::to_vec(told)?;
    line.push(b'\n');
    io::stderr().lock().write_all(&line)
}

/// The report at the beginning of a starter's output, and the output of HAProxy.
pub(super) fn told(output: &[u8]) -> io::Result<(JailReport, &[u8])> {
    let end = output.iter().position(|byte| *byte == b'\n').unwrap_or(output.len());
    let (line, rest) = output.split_at(end);
    match serde_json::from_slice(line) {
        Ok(Told::Started(report)) => Ok((report, rest)),
        Ok(Told::Failed(reason)) => Err(io::Error::other(reason)),
        Err(_) => {
            let said = String::from_utf8_lossy(line).chars().take(200).collect::<String>();
            Err(io::Error::other(format!("the process that starts it said only `{said}`")))
        }
    }
}

// === impl Starter ===

impl Starter {
    pub(super) fn start(
        &self,
        binary: &Path,
        tree: &Path,
        mode: CheckMode,
        limits: &CheckLimits,
    ) -> io::Result<Started> {
        match self {
            Self::InProcess => {
                let jailed = jail::spawn(binary, tree, mode, limits, Parent::Watcher)?;
                let report = Some(jailed.report.clone());
                Ok(Started { child: jailed.release(), report })
            }
            Self::Process { program, arguments } => {
                let order = Order { binary: binary.to_owned(), tree: tree.to_owned(), mode, limits: *limits };
                // The standard library starts this one without copying the process.
                let child = Command::new(program)
                    .args(arguments)
                    .arg(serde_json::to_string(&order)?)
                    .env_clear()
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .process_group(0)
                    .spawn()?;
                Ok(Started { child, report: None })
            }
        }
    }

    /// By which signal the check ended.
    pub(super) fn signal(&self, status: ExitStatus) -> Option<i32> {
        let relayed = || match self {
            Self::InProcess => None,
            Self::Process { .. } => status.code().map(|code| code - SIGNALLED).filter(|signal| *signal > 0),
        };
        status.signal().or_else(relayed)
    }
}
