//! Units that HAProxy refused. They are left out of every render until the object they are about changes, so one bad
//! object costs itself and nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haptic_model::{Finding, ObjectRef};
use parking_lot::Mutex;

/// Identifies one version of an object's content.
pub type Fingerprint = u64;

#[derive(Debug, Default)]
pub struct Quarantine {
    entries: Mutex<BTreeMap<Arc<str>, Entry>>,
}

/// A unit to leave out.
#[derive(Clone, Debug)]
pub struct RefusedUnit {
    pub unit: Arc<str>,
    pub object: Option<ObjectRef>,
    pub finding: Finding,
}

/// What a render has to know.
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    pub units: BTreeSet<Arc<str>>,
    /// Why, one for each unit.
    pub findings: Vec<Finding>,
}

#[derive(Debug)]
struct Entry {
    object: Option<ObjectRef>,
    /// Of the object when its text was refused; `None` for text of no object, which stays out until the templates
    /// change.
    fingerprint: Option<Fingerprint>,
    finding: Finding,
}

// === impl Quarantine ===

impl Quarantine {
    /// Returns how many units were not in quarantine before.
    pub fn add(
        &self,
        refused: impl IntoIterator<Item = RefusedUnit>,
        fingerprint: impl Fn(&ObjectRef) -> Option<Fingerprint>,
    ) -> usize {
        let mut entries = self.entries.lock();
        let before = entries.len();
        for RefusedUnit { unit, object, finding } in refused {
            let fingerprint = object.as_ref().and_then(&fingerprint);
            entries.insert(unit, Entry { object, fingerprint, finding });
        }
        entries.len() - before
    }

    /// Frees the units whose objects have changed or are gone, and returns the others.
    pub fn left_out(&self, fingerprint: impl Fn(&ObjectRef) -> Option<Fingerprint>) -> LeftOut {
        let mut entries = self.entries.lock();
        entries.retain(|_, entry| match &entry.object {
            Some(object) => {
                let now = fingerprint(object);
                now.is_some() && now == entry.fingerprint
            }
            None => true,
        });
        LeftOut {
            units: entries.keys().cloned().collect(),
            findings: entries.values().map(|entry| entry.finding.clone()).collect(),
        }
    }

    /// The units whose objects would not have changed, without freeing the others.
    pub fn standing(&self, fingerprint: impl Fn(&ObjectRef) -> Option<Fingerprint>) -> BTreeSet<Arc<str>> {
        let entries = self.entries.lock();
        let stands = |entry: &Entry| match &entry.object {
            Some(object) => {
                let then = fingerprint(object);
                then.is_some() && then == entry.fingerprint
            }
            None => true,
        };
        entries.iter().filter(|(_, entry)| stands(entry)).map(|(unit, _)| unit.clone()).collect()
    }

    pub fn units(&self) -> BTreeSet<Arc<str>> {
        self.entries.lock().keys().cloned().collect()
    }

    /// New templates are a new trial for everyone.
    pub fn clear(&self) {
        self.entries.lock().clear();
    }
}

#[cfg(test)]
mod tests;
