//! What the agent knows beyond its own life: one small JSON file, replaced whole before each step.
//!
//! The list of files is not in it: the tree itself is the authority, and the record holds one digest of it. So an
//! apply writes a few hundred bytes, however many files the set has.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use haptic_model::{Digest, FilePath, Framer, PlanId};
use haptic_wire::{Token, WorkerIdentity};
use serde::{Deserialize, Serialize};

use crate::AgentError;

/// Raised when a field changes its meaning; a record of another format means that the plan is unknown.
const FORMAT: u32 = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) format: u32,
    /// Greatest that was accepted.
    pub(crate) token: Token,
    /// The set on disk, unless `step` says otherwise.
    pub(crate) applied: Option<KnownSet>,
    /// What the worker serves.
    pub(crate) running: Option<PlanId>,
    /// What HAProxy is started from.
    pub(crate) lkg: Option<KnownSet>,
    /// The worker that `running` is about.
    pub(crate) worker: Option<WorkerIdentity>,
    pub(crate) step: Step,
    /// Leads from the set on disk back to the set that the worker serves. Empty when both are the same.
    pub(crate) undo: Journal,
    /// Leads from the set that the worker serves back to the last known good.
    pub(crate) to_lkg: Journal,
    /// A reload is scheduled.
    pub(crate) reload_pending: bool,
    /// Operations ran in the worker that belong to the pending set.
    pub(crate) worker_ahead: bool,
}

/// A set by its plan, and the digest of all its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownSet {
    pub(crate) plan: PlanId,
    pub(crate) tree: Digest,
}

/// Where an apply stands on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    #[default]
    Idle,
    /// Renames may have happened. If the tree has the digest of the target, all of them have.
    Writing { target: KnownSet },
    /// Backups are being put back; doing it again does no harm.
    Restoring { lkg: bool },
}

/// Per path, what stood there before its first change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Journal {
    /// The set that the entries lead back to; `None` = unknown.
    pub(crate) base: Option<KnownSet>,
    pub(crate) entries: BTreeMap<FilePath, Before>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Before {
    Absent,
    /// The number of a backup file.
    Kept(u64),
}

/// The record's file.
#[derive(Debug)]
pub(crate) struct RecordFile {
    path: PathBuf,
    temporary: PathBuf,
}

// === impl RecordFile ===

impl RecordFile {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self { path: state_dir.join("agent.json"), temporary: state_dir.join("agent.json.new") }
    }

    /// `None` = there is none, or it is of another format.
    pub(crate) fn read(&self) -> Result<Option<Record>, AgentError> {
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(AgentError::File { action: "read", path: self.path.clone(), source }),
        };
        let record: Record =
            serde_json::from_slice(&text).map_err(|source| AgentError::Record { path: self.path.clone(), source })?;
        Ok((record.format == FORMAT).then_some(record))
    }

    pub(crate) fn write(&self, record: &mut Record) -> Result<(), AgentError> {
        record.format = FORMAT;
        let text = serde_json::to_vec(record).expect("a record has only string keys");
        let failed = |source| AgentError::File { action: "write", path: self.path.clone(), source };
        // No fsync: what must survive is a killed process, not a power loss.
        std::fs::write(&self.temporary, text).map_err(failed)?;
        std::fs::rename(&self.temporary, &self.path).map_err(failed)
    }
}

// === impl Journal ===

impl Journal {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn backups(&self) -> impl Iterator<Item = u64> + '_ {
        self.entries.values().filter_map(|before| match before {
            Before::Kept(number) => Some(*number),
            Before::Absent => None,
        })
    }

    /// Appends a journal that starts where this one's set is left: for each path the older entry counts. Returns the
    /// backups that nobody needs any more.
    pub(crate) fn fold(&mut self, later: Journal) -> Vec<u64> {
        if self.is_empty() {
            *self = later;
            return Vec::new();
        }
        let mut unneeded = Vec::new();
        for (path, before) in later.entries {
            match (self.entries.contains_key(&path), before) {
                (true, Before::Kept(number)) => unneeded.push(number),
                (true, Before::Absent) => {}
                (false, before) => {
                    self.entries.insert(path, before);
                }
            }
        }
        unneeded
    }
}

/// One digest of a whole tree.
pub(crate) fn tree_digest(files: &BTreeMap<FilePath, Digest>) -> Digest {
    let mut framer = Framer::default();
    for (path, digest) in files {
        framer.field(path.as_str()).field(digest.as_bytes());
    }
    framer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(entries: &[(&str, Before)]) -> Journal {
        let entries = entries.iter().map(|(path, before)| (FilePath::new(path).expect("a path"), *before)).collect();
        Journal { base: None, entries }
    }

    #[test]
    fn the_first_change_of_a_path_counts() {
        let mut to_lkg = journal(&[("a", Before::Kept(1)), ("b", Before::Absent)]);
        let unneeded = to_lkg.fold(journal(&[("a", Before::Kept(2)), ("b", Before::Kept(3)), ("c", Before::Kept(4))]));
        assert_eq!(unneeded, [2, 3]);
        assert_eq!(to_lkg, journal(&[("a", Before::Kept(1)), ("b", Before::Absent), ("c", Before::Kept(4))]));
    }
}
