//! What earlier renders left: the output of every unit with the reads it was made from.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use haptic_store::{Changes, Read, Snapshot, Stamp};

use crate::{Inputs, assemble::Assembled, records::UnitOutput};

/// Reused between renders of one [`crate::Renderer`]. It only saves work: the bytes never depend on it.
#[derive(Default)]
pub struct Memo {
    renderer: u64,
    haproxy: (u16, u16),
    units: HashMap<Arc<str>, Remembered>,
    /// The snapshot that the stamps of `units` were compared with last.
    snapshot: Option<Arc<Snapshot>>,
    /// What differs between that snapshot and the current one; `None` = unknown.
    changes: Option<Changes>,
    seen: HashSet<Arc<str>>,
    pub(crate) assembled: Option<Assembled>,
    hits: u64,
    misses: u64,
}

struct Remembered {
    item: u64,
    reads: Vec<(Read, Stamp)>,
    output: Arc<UnitOutput>,
}

// === impl Memo ===

impl Memo {
    /// Units that were kept and units that were rendered, in the last render.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    pub(crate) fn begin(&mut self, renderer: u64, inputs: &Inputs) {
        if self.renderer != renderer || self.haproxy != inputs.haproxy {
            *self = Self { renderer, haproxy: inputs.haproxy, ..Self::default() };
        }
        self.seen.clear();
        (self.hits, self.misses) = (0, 0);
        self.changes = self.snapshot.as_ref().map(|earlier| inputs.snapshot.changes_since(earlier));
    }

    /// Forgets the units that were not rendered this time.
    pub(crate) fn end(&mut self, inputs: &Inputs) {
        let seen = &self.seen;
        if self.units.len() != seen.len() {
            self.units.retain(|key, _| seen.contains(key));
        }
        self.snapshot = Some(Arc::clone(&inputs.snapshot));
    }

    /// Marks `unit` as part of this render; false when it already is.
    pub(crate) fn see(&mut self, unit: &Arc<str>) -> bool {
        self.seen.insert(Arc::clone(unit))
    }

    /// The unit's output, if its item and everything it read are as they were.
    pub(crate) fn recall(&mut self, unit: &Arc<str>, item: u64, snapshot: &Snapshot) -> Option<Arc<UnitOutput>> {
        let remembered = self.units.get(unit)?;
        let changes = self.changes.as_ref();
        let settled = |read: &Read| changes.is_some_and(|changes| !changes.may_affect(read));
        let unchanged = remembered.item == item
            && remembered.reads.iter().all(|(read, stamp)| settled(read) || snapshot.stamp(read) == *stamp);
        if unchanged {
            self.hits += 1;
            Some(Arc::clone(&remembered.output))
        } else {
            None
        }
    }

    /// Keeps a fresh output; parts equal to the earlier one keep their pointers.
    pub(crate) fn remember(
        &mut self,
        unit: &Arc<str>,
        item: u64,
        reads: Vec<(Read, Stamp)>,
        output: UnitOutput,
    ) -> Arc<UnitOutput> {
        self.misses += 1;
        let output = match self.units.get(unit) {
            Some(earlier) => Arc::new(output.share_with(&earlier.output)),
            None => Arc::new(output),
        };
        self.units.insert(Arc::clone(unit), Remembered { item, reads, output: Arc::clone(&output) });
        output
    }
}
