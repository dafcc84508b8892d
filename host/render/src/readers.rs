//! Which units of a snippet read what, so that a change is brought to those it touches and to no other.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use haptic_store::{Changes, Read};

use crate::memo::UnitReads;

/// A unit as it is looked up.
pub(crate) trait Reader {
    fn reads(&self) -> &UnitReads;
}

/// Units that are as they were: `(place before, place now)`, both in order.
pub(crate) type Kept = Vec<(u32, u32)>;

/// Units by what they read. A unit has the same number, its slot, as long as it is among the snippet's units, whatever
/// comes before it: so one that comes or goes costs what it reads.
#[derive(Clone, Default)]
pub(crate) struct Readers {
    resources: HashMap<Arc<str>, ResourceReaders>,
    /// The slot of each unit, in the order of the units.
    slots: Vec<u32>,
    /// The place of each slot among the units.
    places: Vec<u32>,
    /// Slots that no unit has.
    free: Vec<u32>,
}

#[derive(Clone, Default)]
struct ResourceReaders {
    lists: BTreeSet<u32>,
    fetches: HashMap<Box<[Arc<str>]>, Vec<u32>>,
}

// === impl Readers ===

impl Readers {
    pub(crate) fn new<R: Reader>(units: &[R]) -> Self {
        let mut readers = Self::default();
        for unit in units {
            let slot = readers.take_slot();
            readers.slots.push(slot);
            readers.add(slot, unit.reads());
        }
        readers.find_places();
        readers
    }

    /// The readers of `units`, given that these are those of earlier ones, of which `gone` are left.
    pub(crate) fn follow<R: Reader>(mut self, gone: &[Option<R>], kept: &Kept, units: &[R]) -> Self {
        if kept.is_empty() {
            return Self::new(units);
        }
        let before = std::mem::take(&mut self.slots);
        for (slot, unit) in before.iter().zip(gone) {
            if let Some(unit) = unit {
                self.remove(*slot, unit.reads());
                self.free.push(*slot);
            }
        }
        self.slots.reserve(units.len());
        let mut kept = kept.iter().peekable();
        for (place, unit) in (0..).zip(units) {
            let slot = match kept.next_if(|(_, now)| *now == place) {
                Some((old, _)) => before[*old as usize],
                None => {
                    let slot = self.take_slot();
                    self.add(slot, unit.reads());
                    slot
                }
            };
            self.slots.push(slot);
        }
        self.find_places();
        self
    }

    /// The unit at `index` reads other things than before.
    pub(crate) fn reads_instead(&mut self, index: usize, before: &UnitReads, now: &UnitReads) {
        self.replace(self.slots[index], before, now);
    }

    /// The units of which a read may have another answer now, by index, in order.
    pub(crate) fn affected(&self, changes: &Changes) -> Vec<usize> {
        let mut slots: BTreeSet<u32> = BTreeSet::new();
        for (resource, keys) in changes.by_resource() {
            let Some(readers) = self.resources.get(resource) else { continue };
            slots.extend(&readers.lists);
            match keys {
                None => slots.extend(readers.fetches.values().flatten()),
                Some(keys) => {
                    for key in keys {
                        // A fetch may name fewer components than a key has.
                        for length in 1..=key.len() {
                            slots.extend(readers.fetches.get(&key[..length]).into_iter().flatten());
                        }
                    }
                }
            }
        }
        let mut places: Vec<usize> = slots.into_iter().map(|slot| self.places[slot as usize] as usize).collect();
        places.sort_unstable();
        places
    }

    fn take_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(0);
            number(self.places.len() - 1)
        })
    }

    fn find_places(&mut self) {
        for (place, slot) in self.slots.iter().enumerate() {
            self.places[*slot as usize] = number(place);
        }
    }

    fn replace(&mut self, slot: u32, before: &UnitReads, now: &UnitReads) {
        if !Arc::ptr_eq(before, now) {
            self.remove(slot, before);
            self.add(slot, now);
        }
    }

    fn add(&mut self, slot: u32, reads: &UnitReads) {
        for (read, _) in reads.iter() {
            let readers = self.resources.entry(Arc::clone(read.resource())).or_default();
            match read {
                Read::List { .. } => drop(readers.lists.insert(slot)),
                Read::Fetch { keys, .. } => match readers.fetches.get_mut(keys) {
                    Some(slots) => slots.push(slot),
                    None => drop(readers.fetches.insert(keys.clone(), vec![slot])),
                },
            }
        }
    }

    fn remove(&mut self, slot: u32, reads: &UnitReads) {
        for (read, _) in reads.iter() {
            let Some(readers) = self.resources.get_mut(read.resource()) else { continue };
            match read {
                Read::List { .. } => drop(readers.lists.remove(&slot)),
                Read::Fetch { keys, .. } => {
                    if let Some(slots) = readers.fetches.get_mut(keys) {
                        slots.retain(|other| *other != slot);
                        if slots.is_empty() {
                            readers.fetches.remove(keys);
                        }
                    }
                }
            }
        }
    }
}

pub(crate) fn number(index: usize) -> u32 {
    u32::try_from(index).expect("a render has fewer than 2^32 units")
}
