//! What the pipeline and the render gate ask of `haproxy -c`.

use std::{collections::BTreeMap, time::Duration};

use haptic_haproxy::check::{CheckLimits, CheckMode, CheckSeverity, CheckVerdict, Checker};
use haptic_model::{FileSet, Reason, ReasonCode};

pub use haptic_haproxy::check::Cancellation;

/// Work that nobody waits for any more ends its running check.
#[derive(Default)]
pub(crate) struct CancelOnDrop(Cancellation);

/// Runs `haproxy -c` in a fresh jail on every call. Blocks: call it on a blocking thread.
pub trait ConfigCheck: Send + Sync {
    /// A check that was cancelled is [`Answer::Unavailable`], never a pass.
    fn check(&self, files: &FileSet, ask: CheckAsk, cancelled: &Cancellation) -> Answer;
}

/// How a check is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckAsk {
    /// Major and minor version of the HAProxy that is asked.
    pub haproxy: (u16, u16),
    pub names: NameResolution,
    pub bounds: CheckBounds,
}

/// What one check may take: `spec.renderGate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckBounds {
    /// Of wall-clock time, and of processor time in whole seconds. Default: 10 s.
    pub time: Duration,
    /// Bytes of address space. Default: 2 GiB.
    pub memory: u64,
}

/// What becomes of a server name that does not resolve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameResolution {
    /// `-dr`: one bad name must not stop the proxy.
    Tolerated,
    Required,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `build` is the version and build that was asked.
    Passed {
        build: String,
        warnings: Vec<CheckMessage>,
    },
    Refused {
        build: String,
        messages: Vec<CheckMessage>,
    },
    /// Nobody could be asked.
    Unavailable {
        reason: Reason,
    },
}

/// One line of HAProxy's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckMessage {
    /// Path in the file set; empty = unknown.
    pub file: String,
    /// 1-based; 0 = unknown.
    pub line: u32,
    pub text: String,
}

/// The HAProxy builds that are here to ask, one for each minor version.
#[derive(Clone, Debug, Default)]
pub struct Checkers(BTreeMap<(u16, u16), Checker>);

// === impl Checkers ===

impl Checkers {
    pub fn new(checkers: impl IntoIterator<Item = Checker>) -> Self {
        Self(checkers.into_iter().map(|checker| (checker.minor(), checker)).collect())
    }
}

impl ConfigCheck for Checkers {
    fn check(&self, files: &FileSet, ask: CheckAsk, cancelled: &Cancellation) -> Answer {
        let Some(checker) = self.0.get(&ask.haproxy) else {
            let (major, minor) = ask.haproxy;
            let message = format!("NoCheckerForVersion: no HAProxy {major}.{minor} is here to check for it");
            return Answer::Unavailable { reason: Reason::new(ReasonCode::Note, message) };
        };
        let mode = match ask.names {
            NameResolution::Tolerated => CheckMode::TolerateUnresolved,
            NameResolution::Required => CheckMode::Strict,
        };
        match checker.clone().with_limits(ask.bounds.limits()).check(files, mode, cancelled) {
            Ok(verdict) => verdict.into(),
            Err(error) => Answer::Unavailable { reason: Reason::new(ReasonCode::Note, error.to_string()) },
        }
    }
}

// === impl CheckBounds ===

impl CheckBounds {
    fn limits(self) -> CheckLimits {
        CheckLimits { wall: self.time, cpu: self.time, memory_bytes: self.memory, ..CheckLimits::STANDARD }
    }
}

impl Default for CheckBounds {
    fn default() -> Self {
        Self { time: CheckLimits::STANDARD.wall, memory: CheckLimits::STANDARD.memory_bytes }
    }
}

// === impl Answer ===

impl From<CheckVerdict> for Answer {
    fn from(verdict: CheckVerdict) -> Self {
        let build = verdict.haproxy_version;
        let of = |severity| verdict.messages.iter().filter(move |message| message.severity == severity);
        let plain = |message: &haptic_haproxy::check::CheckMessage| CheckMessage {
            file: message.file.clone().unwrap_or_default(),
            line: message.line,
            text: message.text.clone(),
        };
        if verdict.passed {
            return Self::Passed { build, warnings: of(CheckSeverity::Warning).map(plain).collect() };
        }
        let mut messages: Vec<_> = of(CheckSeverity::Error).map(plain).collect();
        if messages.is_empty() {
            messages = verdict.messages.iter().map(plain).collect();
        }
        if messages.is_empty() {
            let text = "it refuses the configuration without a word".to_owned();
            messages.push(CheckMessage { file: String::new(), line: 0, text });
        }
        Self::Refused { build, messages }
    }
}

// === impl CancelOnDrop ===

impl CancelOnDrop {
    pub(crate) fn cancellation(&self) -> Cancellation {
        self.0.clone()
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
