//! The plan diff: what brings one HAProxy worker from what it runs to what was rendered.
//!
//! [`diff`] is a pure function of the next [`Plan`] and a [`Baseline`]. It reads records, never HAProxy text: text that
//! no record explains means reload, and so does every doubt. Operations are ordered so that what is new exists before
//! traffic is switched to it, and what is old goes last. Cost follows the change: equal digests are never looked into.

mod backends;
mod certificates;
mod files;
mod keywords;
mod maps;
mod script;
mod sections;

use std::collections::BTreeSet;

use haptic_model::{FilePath, Op, PLAN_SCHEMA_VERSION, Plan, Reason, ReasonCode, Verdict};

use crate::plan::script::Script;

/// More operations than this are not cheaper than a reload.
pub const MAX_OPERATIONS: usize = 8_000;

/// Servers that may wait for their removal at one time, earlier ones included.
pub const MAX_PENDING_SERVERS: usize = 1_000;

/// Backends that may wait for their removal at one time, earlier ones included.
pub const MAX_PENDING_BACKENDS: usize = 100;

/// Reasons that are kept one by one; what is over is counted in a last one.
pub const MAX_REASONS: usize = 32;

/// What is known about one worker.
#[derive(Clone, Copy, Debug)]
pub struct Baseline<'a> {
    /// What the worker runs, the operations that it took since its start included. While a reload is pending that is
    /// the plan before the pending one. `None` = unknown.
    pub plan: Option<&'a Plan>,
    /// Major and minor version of its binary.
    pub haproxy: (u16, u16),
    pub inventory: &'a Inventory,
    /// What waits to be removable, as `backend/server` or `backend`: these names are still taken.
    pub pending_deletes: &'a BTreeSet<String>,
    /// A reload waits for the pacing window.
    pub reload_pending: bool,
}

/// What the worker has loaded, and can therefore change at run time, by its runtime names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    pub maps: BTreeSet<FilePath>,
    pub certificates: BTreeSet<FilePath>,
    pub ca_files: BTreeSet<FilePath>,
    pub crl_files: BTreeSet<FilePath>,
    pub crt_lists: BTreeSet<FilePath>,
}

/// The decision for one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff {
    pub verdict: Verdict,
    /// In the order in which they must run. Empty unless the verdict is `runtime`.
    pub ops: Vec<Op>,
    /// What may run in the worker at once although a reload is pending. Whatever the verdict is.
    pub in_place_ops: Vec<Op>,
    /// Files of the next plan that are new or have other content.
    pub changed_files: Vec<FilePath>,
    /// Files of the baseline that the next plan does not have.
    pub removed_files: Vec<FilePath>,
    /// Why a reload is needed; empty for every other verdict.
    pub reasons: Vec<Reason>,
    /// What a person should know although it is no reason for a reload.
    pub notes: Vec<Reason>,
}

/// The two sides of a diff, as its rules see them.
#[derive(Clone, Copy)]
struct Sides<'a> {
    next: &'a Plan,
    old: &'a Plan,
    baseline: &'a Baseline<'a>,
}

/// Decides how `next` reaches a worker in the state `baseline`.
pub fn diff(next: &Plan, baseline: &Baseline<'_>) -> Diff {
    let Some(old) = baseline.plan else {
        return whole_set(next, "it is not known what this HAProxy runs, so it loads the whole configuration");
    };
    if old.schema_version != next.schema_version || next.schema_version != PLAN_SCHEMA_VERSION {
        return whole_set(next, "what this HAProxy runs was recorded by another version of haptic");
    }
    let mut script = Script::default();
    let sides = Sides { next, old, baseline };
    if old.id != next.id {
        let sections = sections::compare(sides, &mut script);
        let backends = backends::compare(sides, &sections, &mut script);
        files::compare(sides, &backends, &mut script);
    }
    if baseline.reload_pending && script.reasons.is_empty() {
        let message = "a reload is already pending, and this change joins it";
        script.reasons.push(Reason::new(ReasonCode::ReloadPending, message));
    }
    script.finish(sides)
}

fn whole_set(next: &Plan, message: &str) -> Diff {
    Diff {
        verdict: Verdict::Reload,
        ops: Vec::new(),
        in_place_ops: Vec::new(),
        changed_files: next.files.keys().cloned().collect(),
        removed_files: Vec::new(),
        reasons: vec![Reason::new(ReasonCode::NoBaseline, message)],
        notes: Vec::new(),
    }
}

/// A token that the runtime API reads as exactly one word (haproxy-facts §4: it knows `\` and `;`, but no quotes).
fn is_safe_token(token: &str) -> bool {
    !token.is_empty()
        && !token.contains("<<")
        && !token.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, ';' | '\\'))
}
