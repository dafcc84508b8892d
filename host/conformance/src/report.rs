//! What a run of the harness found.

use std::time::Duration;

use haptic_plugins::Inspection;
use serde::Serialize;

/// What a run found, in the order in which a person should read it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub plugin: String,
    /// Of haptic, whose plugin host it was.
    pub haptic: &'static str,
    /// `None` if the module is no component.
    pub module: Option<ModuleFacts>,
    pub summary: Summary,
    /// The author's cases, then the checks.
    pub results: Vec<CheckResult>,
    /// What the cases cost, one row each; empty if the plugin does not load.
    pub costs: Vec<CaseCost>,
}

/// What the module says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleFacts {
    pub bytes: u64,
    /// To be pinned in the plugin's `module.sha256`.
    pub sha256: String,
    pub generation: Option<String>,
    pub contracts: Vec<String>,
    pub pure: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub passed: usize,
    pub warned: usize,
    pub failed: usize,
    pub skipped: usize,
}

/// One case or check.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckResult {
    pub group: Group,
    pub name: String,
    pub status: Status,
    /// What was seen, in a sentence; on a failure with what is to be done about it. May have several lines.
    pub says: String,
    #[serde(rename = "millis", serialize_with = "millis")]
    pub elapsed: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// The author's.
    Case,
    /// The contract's.
    Check,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Passed,
    /// Not against the contract, but a person should look.
    Warned,
    Failed,
    /// There was nothing to check; the sentence says why.
    Skipped,
}

/// What one case costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseCost {
    pub case: String,
    /// The fastest of a few calls: what else the machine does is no cost of the plugin.
    #[serde(rename = "micros", serialize_with = "micros")]
    pub elapsed: Duration,
    /// Memories and tables of the instance at the end of the call, which is the most it held.
    pub memory_bytes: u64,
    /// What the call read of its files; 0 for filters.
    pub input_bytes: u64,
}

/// What one case or check says, before it has a name and a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) status: Status,
    pub(crate) says: String,
}

// === impl Report ===

impl Report {
    /// No case and no check failed.
    pub fn passed(&self) -> bool {
        self.summary.failed == 0
    }
}

// === impl ModuleFacts ===

impl From<&Inspection> for ModuleFacts {
    fn from(inspection: &Inspection) -> Self {
        Self {
            bytes: inspection.size,
            sha256: inspection.sha256.to_string(),
            generation: inspection.generation.clone(),
            contracts: inspection.contracts.iter().map(ToString::to_string).collect(),
            pure: inspection.pure,
        }
    }
}

// === impl Summary ===

impl Summary {
    pub(crate) fn of(results: &[CheckResult]) -> Self {
        let count = |status| results.iter().filter(|result| result.status == status).count();
        Self {
            passed: count(Status::Passed),
            warned: count(Status::Warned),
            failed: count(Status::Failed),
            skipped: count(Status::Skipped),
        }
    }
}

// === impl Said ===

impl Said {
    pub(crate) fn pass(says: impl Into<String>) -> Self {
        Self { status: Status::Passed, says: says.into() }
    }

    pub(crate) fn warn(says: impl Into<String>) -> Self {
        Self { status: Status::Warned, says: says.into() }
    }

    pub(crate) fn fail(says: impl Into<String>) -> Self {
        Self { status: Status::Failed, says: says.into() }
    }

    pub(crate) fn skip(why: impl Into<String>) -> Self {
        Self { status: Status::Skipped, says: why.into() }
    }
}

fn millis<S: serde::Serializer>(elapsed: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(rounded(elapsed.as_secs_f64() * 1e3))
}

pub(crate) fn micros<S: serde::Serializer>(elapsed: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(rounded(elapsed.as_secs_f64() * 1e6))
}

/// To one decimal.
fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
