//! What earlier renders left: the output of every unit with the reads it was made from.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use haptic_store::{Read, Snapshot, Stamp};

use crate::{Inputs, assemble::Assembled, records::UnitOutput};

/// Reused between renders of one [`crate::Renderer`]. It only saves work: the bytes never depend on it.
#[derive(Default)]
pub struct Memo {
    renderer: u64,
    haproxy: (u16, u16),
    units: HashMap<Arc<str>, Remembered>,
    /// The snapshot that the stamps of `units` were compared with last.
    snapshot: Option<Arc<Snapshot>>,
    /// Resources that differ between that snapshot and the current one.
    changed: HashSet<Arc<str>>,
    everything_may_have_changed: bool,
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
        self.changed.clear();
        self.seen.clear();
        (self.hits, self.misses) = (0, 0);
        self.everything_may_have_changed = true;
        if let Some(earlier) = &self.snapshot {
            self.everything_may_have_changed = false;
            self.changed.extend(inputs.snapshot.changed_since(earlier).cloned());
        }
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
        let remembered = self.units.get_mut(unit)?;
        let unchanged = remembered.item == item
            && remembered.reads.iter().all(|(read, stamp)| {
                let settled = !self.everything_may_have_changed && !self.changed.contains(read.resource());
                settled || snapshot.stamp(read) == *stamp
            });
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
