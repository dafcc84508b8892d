//! Named steps of an apply, and the hook by which tests break it there.

use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicBool, Ordering},
};

use haptic_haproxy::process::{ProcessIdentity, Running};
use rustix::process::{Signal, getpid, kill_process};
use thiserror::Error;

/// A step that was just reached. What stands before it is done and on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApplyStep {
    /// The fence passed; the content of every part is in the staging directory and verified.
    Staged,
    /// Backups are linked and the record names them.
    Journaled,
    /// One file other than the configuration was renamed or removed.
    FileRenamed,
    /// The whole set is in place.
    ConfigRenamed,
    /// The runtime operations are about to run.
    OpsRunning,
    /// A reload or start is about to be asked for.
    Reloading,
    /// The record says that the new set is applied; the answer is not sent.
    Committed,
}

/// What the agent does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Continue,
    /// Stop here without any clean-up, as if the process was killed.
    Crash,
}

/// Whom a hook may harm.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultTarget {
    pub running: Option<Running>,
}

pub trait FaultHook: Send + Sync {
    fn at(&self, step: ApplyStep, target: FaultTarget) -> Fault;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// `kill -9` of this very process.
    KillSelf,
    KillWorker,
    KillMaster,
    /// Stop the agent without clean-up, but not the process it runs in.
    Crash,
}

/// One action at the first time a step is reached; written `STEP:ACTION`, e.g. `config_renamed:kill-self`.
#[derive(Debug)]
pub struct ScriptedFault {
    step: ApplyStep,
    action: FaultAction,
    fired: AtomicBool,
}

#[derive(Debug, Error)]
#[error(
    "`{0}` is not a fault: write STEP:ACTION, where STEP is staged, journaled, file_renamed, config_renamed, ops_running, \
     reloading or committed, and ACTION is kill-self, kill-worker, kill-master or crash"
)]
pub struct InvalidFault(String);

// === impl ApplyStep ===

impl ApplyStep {
    pub const ALL: [Self; 7] = [
        Self::Staged,
        Self::Journaled,
        Self::FileRenamed,
        Self::ConfigRenamed,
        Self::OpsRunning,
        Self::Reloading,
        Self::Committed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Journaled => "journaled",
            Self::FileRenamed => "file_renamed",
            Self::ConfigRenamed => "config_renamed",
            Self::OpsRunning => "ops_running",
            Self::Reloading => "reloading",
            Self::Committed => "committed",
        }
    }
}

impl fmt::Display for ApplyStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// === impl ScriptedFault ===

impl ScriptedFault {
    pub fn new(step: ApplyStep, action: FaultAction) -> Self {
        Self { step, action, fired: AtomicBool::new(false) }
    }

    pub fn has_fired(&self) -> bool {
        self.fired.load(Ordering::SeqCst)
    }
}

impl FromStr for ScriptedFault {
    type Err = InvalidFault;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidFault(text.to_owned());
        let (step, action) = text.split_once(':').ok_or_else(invalid)?;
        let step = ApplyStep::ALL.into_iter().find(|known| known.name() == step).ok_or_else(invalid)?;
        let action = match action {
            "kill-self" => FaultAction::KillSelf,
            "kill-worker" => FaultAction::KillWorker,
            "kill-master" => FaultAction::KillMaster,
            "crash" => FaultAction::Crash,
            _ => return Err(invalid()),
        };
        Ok(Self::new(step, action))
    }
}

impl FaultHook for ScriptedFault {
    fn at(&self, step: ApplyStep, target: FaultTarget) -> Fault {
        if step != self.step || self.fired.swap(true, Ordering::SeqCst) {
            return Fault::Continue;
        }
        let kill = |process: Option<ProcessIdentity>| {
            if let Some(process) = process {
                process.signal(Signal::KILL);
            }
            Fault::Continue
        };
        match self.action {
            FaultAction::KillWorker => kill(target.running.map(|running| running.worker)),
            FaultAction::KillMaster => kill(target.running.map(|running| running.master)),
            FaultAction::Crash => Fault::Crash,
            FaultAction::KillSelf => {
                // Nothing after this runs if it succeeds, and it always may signal itself.
                let _ = kill_process(getpid(), Signal::KILL);
                Fault::Crash
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_step_and_refuses_unknown_words() {
        for step in ApplyStep::ALL {
            let fault: ScriptedFault = format!("{step}:kill-worker").parse().expect("a fault");
            assert_eq!(fault.step, step);
        }
        let error = "renamed:kill-self".parse::<ScriptedFault>().expect_err("no such step");
        assert!(error.to_string().contains("config_renamed"), "{error}");
    }
}
