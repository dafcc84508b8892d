//! What earlier renders left: the output of every unit and of every snippet of a hook, with the reads it was made
//! from.
//!
//! A snippet whose own reads did not change is not run again: its text, its records and its units are taken over, and
//! only those of its units are looked at whose reads changed, found by key. So a change costs what it touches.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use haptic_model::ObjectRef;
use haptic_store::{Changes, Read, Snapshot, Stamp};

use crate::{
    Inputs,
    assemble::Assembled,
    readers::number,
    records::UnitOutput,
    snippet::{Earlier, Played},
};

/// What a unit read, with the answers of that moment.
pub(crate) type UnitReads = Arc<[(Read, Stamp)]>;

/// Reused between renders of one [`crate::Renderer`]. It only saves work: the bytes never depend on it. A clone shares
/// the outputs of units and goes its own way from then on.
#[derive(Clone, Default)]
pub struct Memo {
    renderer: u64,
    haproxy: (u16, u16),
    quarantined: std::collections::BTreeSet<Arc<str>>,
    /// Whether the last render left out the same units as this one.
    same_quarantine: bool,
    units: HashMap<Arc<str>, Remembered>,
    /// Who rendered a unit last, and in which render: one unit may be given only once in a render.
    owners: Owners,
    /// What each snippet of a hook gave, until it is taken for the next render.
    played: HashMap<Arc<str>, Played>,
    /// Snippets of this render whose units were taken over without being given one by one.
    replayed: HashSet<Arc<str>>,
    /// Snippets of which a unit went to another one.
    robbed: HashSet<Arc<str>>,
    /// Counts renders.
    render: u64,
    /// The snapshot that the stamps of `units` were compared with last.
    snapshot: Option<Arc<Snapshot>>,
    /// What differs between that snapshot and the current one; `None` = unknown.
    changes: Option<Changes>,
    pub(crate) assembled: Option<Assembled>,
    hits: u64,
    misses: u64,
}

#[derive(Clone)]
struct Remembered {
    item: u64,
    reads: UnitReads,
    output: Arc<UnitOutput>,
}

#[derive(Clone)]
struct Owner {
    unit: Arc<str>,
    snippet: Arc<str>,
    render: u64,
}

/// Owners in one piece: who knows a place in it finds one without looking a name up.
#[derive(Clone, Default)]
struct Owners {
    places: HashMap<Arc<str>, u32>,
    /// A place that is free names no unit.
    list: Vec<Owner>,
    free: Vec<u32>,
}

// === impl Memo ===

impl Memo {
    /// Units that were kept and units that were rendered, in the last render.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// What the units of an object asked for by all components of a key, and did not find in the last render.
    pub fn unanswered(&self, object: &ObjectRef) -> Vec<Read> {
        let suffix = format!("/{}/{}/{}", object.kind, object.namespace, object.name);
        let Some(snapshot) = &self.snapshot else { return Vec::new() };
        let mut reads: Vec<Read> = Vec::new();
        for (_, unit) in self.units.iter().filter(|(key, _)| key.ends_with(&suffix)) {
            let whole = |read: &&Read| matches!(read, Read::Fetch { resource, keys } if snapshot.arity(resource) == Some(keys.len()));
            let nothing = |read: &&Read| snapshot.stamp(read).is_of_nothing();
            reads.extend(unit.reads.iter().map(|(read, _)| read).filter(whole).filter(nothing).cloned());
        }
        reads.sort();
        reads.dedup();
        reads
    }

    pub(crate) fn begin(&mut self, renderer: u64, inputs: &Inputs) {
        if self.renderer != renderer || self.haproxy != inputs.haproxy {
            *self = Self { renderer, haproxy: inputs.haproxy, ..Self::default() };
        }
        self.render += 1;
        self.replayed.clear();
        self.robbed.clear();
        self.same_quarantine = self.quarantined == inputs.quarantined;
        if !self.same_quarantine {
            self.quarantined.clone_from(&inputs.quarantined);
        }
        (self.hits, self.misses) = (0, 0);
        self.changes = self.snapshot.as_ref().map(|earlier| inputs.snapshot.changes_since(earlier));
    }

    /// Forgets what this render did not use.
    ///
    /// What stays must have been compared with this render's snapshot: the next one looks only at what changed since.
    pub(crate) fn end(&mut self, inputs: &Inputs) {
        let render = self.render;
        self.played.retain(|_, played| played.render == render);
        // Every unit of a snippet has an owner, so as many owners as these are no others.
        if self.owners.places.len() != self.played.values().map(|played| played.units.len()).sum::<usize>() {
            let Self { owners, replayed, units, .. } = self;
            owners.retain(|owner| owner.render == render || replayed.contains(&owner.snippet));
            units.retain(|key, _| owners.places.contains_key(key));
        }
        self.snapshot = Some(Arc::clone(&inputs.snapshot));
    }

    /// The render failed half way: what is remembered belongs to several snapshots. So the next one runs every snippet
    /// and compares every stamp.
    pub(crate) fn doubt(&mut self) {
        self.snapshot = None;
    }

    /// Makes `unit` part of this render, given by `snippet`. Returns where that is noted, so that it is found at once the
    /// next time; `None` = it already is part.
    pub(crate) fn see(&mut self, unit: &Arc<str>, noted: Option<u32>, snippet: &Arc<str>) -> Option<u32> {
        let render = self.render;
        let Some(place) = self.owners.find(unit, noted) else {
            return Some(self.owners.add(Owner { unit: Arc::clone(unit), snippet: Arc::clone(snippet), render }));
        };
        let owner = &mut self.owners.list[place as usize];
        if owner.render == render || self.replayed.contains(&owner.snippet) {
            return None;
        }
        if !Arc::ptr_eq(&owner.snippet, snippet) {
            let earlier = std::mem::replace(&mut owner.snippet, Arc::clone(snippet));
            if earlier != *snippet {
                self.robbed.insert(earlier);
            }
        }
        owner.unit = Arc::clone(unit);
        owner.render = render;
        Some(place)
    }

    /// The unit's output, if its item and everything it read are as they were.
    pub(crate) fn recall(&mut self, unit: &Arc<str>, item: u64, snapshot: &Snapshot) -> Option<Arc<UnitOutput>> {
        let remembered = self.units.get(unit)?;
        if remembered.item == item && settled(self.changes.as_ref(), &remembered.reads, snapshot) {
            self.hits += 1;
            return Some(Arc::clone(&remembered.output));
        }
        None
    }

    /// Forgets a unit that is left out: what it read is not looked at meanwhile.
    pub(crate) fn forget(&mut self, unit: &str) {
        self.units.remove(unit);
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
        self.units.insert(Arc::clone(unit), Remembered { item, reads: reads.into(), output: Arc::clone(&output) });
        output
    }

    /// What `unit` read; nothing if it is not remembered.
    pub(crate) fn reads(&self, unit: &str) -> UnitReads {
        self.units.get(unit).map(|unit| Arc::clone(&unit.reads)).unwrap_or_default()
    }

    /// What a snippet gave in the last render, with the indices of its units whose reads may have changed, if it would
    /// do the same again but for those.
    pub(crate) fn replayable(&mut self, snippet: &str, snapshot: &Snapshot) -> Option<(Played, Vec<usize>)> {
        let changes = self.changes.as_ref().filter(|_| self.same_quarantine)?;
        let played = self.played.get(snippet)?;
        if played.render == self.render || self.robbed.contains(snippet) {
            return None;
        }
        if !settled(Some(changes), &played.reads, snapshot) {
            return None;
        }
        let played = self.played.remove(snippet)?;
        let touched = played.readers.affected(changes);
        Some((played, touched))
    }

    /// Keeps what a snippet gave; `taken_over` = without running it.
    pub(crate) fn keep(&mut self, snippet: &Arc<str>, mut played: Played, taken_over: bool) {
        played.render = self.render;
        if taken_over {
            self.hits += (played.units.len() as u64).saturating_sub(played.looked_at);
            self.replayed.insert(Arc::clone(snippet));
        }
        self.played.insert(Arc::clone(snippet), played);
    }

    /// What a snippet gave in the last render, for who runs it again.
    pub(crate) fn earlier(&mut self, snippet: &str) -> Option<Earlier> {
        let played = self.played.remove(snippet)?;
        let touched = self.changes.as_ref().map(|changes| played.readers.affected(changes));
        let settled = touched.filter(|_| self.same_quarantine && self.quarantined.is_empty());
        Some(Earlier::new(played, settled))
    }

    /// A unit was taken over.
    pub(crate) fn kept_one(&mut self) {
        self.hits += 1;
    }
}

// === impl Owners ===

impl Owners {
    fn find(&self, unit: &Arc<str>, noted: Option<u32>) -> Option<u32> {
        let is_it = |place: &u32| self.list.get(*place as usize).is_some_and(|owner| Arc::ptr_eq(&owner.unit, unit));
        noted.filter(is_it).or_else(|| self.places.get(unit).copied())
    }

    fn add(&mut self, owner: Owner) -> u32 {
        let unit = Arc::clone(&owner.unit);
        let place = match self.free.pop() {
            Some(place) => {
                self.list[place as usize] = owner;
                place
            }
            None => {
                self.list.push(owner);
                number(self.list.len() - 1)
            }
        };
        self.places.insert(unit, place);
        place
    }

    fn retain(&mut self, stays: impl Fn(&Owner) -> bool) {
        let Self { places, list, free } = self;
        places.retain(|_, place| {
            let owner = &mut list[*place as usize];
            let stays = stays(owner);
            if !stays {
                // Whoever noted the place must not find a unit there that is none any more.
                owner.unit = Arc::default();
                free.push(*place);
            }
            stays
        });
    }
}

/// Whether every read would have the same answer now.
fn settled(changes: Option<&Changes>, reads: &[(Read, Stamp)], snapshot: &Snapshot) -> bool {
    let unaffected = |read: &Read| changes.is_some_and(|changes| !changes.may_affect(read));
    reads.iter().all(|(read, stamp)| unaffected(read) || snapshot.stamp(read) == *stamp)
}
