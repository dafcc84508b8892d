//! What stands in `haproxy.cfg`, merged from all units. A change of some backends in their places is followed without
//! merging and writing everything again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haptic_model::{BackendRecord, BindRecord, Finding, ProfileRecord};

use super::{config, conflict};
use crate::{
    RenderError,
    compile::Compiled,
    records::{BackendSection, ProfileSection, Records, UnitOutput},
    session::Outcome,
};

/// Profiles by name. A name is the digest of the content, so equal names are equal profiles.
pub(super) type Profiles = BTreeMap<Arc<str>, UsedProfile>;

#[derive(Clone)]
pub(super) struct UsedProfile {
    pub(super) section: Arc<ProfileSection>,
    /// How many units declare it, and one more if the templates outside of units do.
    uses: usize,
    /// The first unit that declares it: what is left out when HAProxy refuses its text. `None` = it stands outside of
    /// units.
    pub(super) owner: Option<usize>,
}

/// A backend and the index of the unit that declared it.
pub(super) type Backends = BTreeMap<Arc<str>, (Arc<BackendSection>, Option<usize>)>;

#[derive(Clone)]
pub(super) struct Layout {
    /// The main template's text, units marked.
    core: String,
    /// Declared outside of units.
    records: Records,
    units: Vec<Arc<UnitOutput>>,
    profiles: Profiles,
    backends: Backends,
    pub(super) binds: Vec<BindRecord>,
    /// Names that more than one unit declares, with the same content or with another.
    declared_twice: BTreeSet<Arc<str>>,
    /// Backends that two objects declare with other content.
    pub(super) conflicts: Vec<Finding>,
    pub(super) written: config::Written,
}

/// What differs between two outputs of a unit, where only backends in their places do.
struct Difference {
    unit: usize,
    /// `(position, old text, new section)`
    backends: Vec<(usize, Arc<str>, Arc<BackendSection>)>,
}

// === impl Layout ===

impl Layout {
    pub(super) fn new(compiled: &Compiled, outcome: Outcome) -> Result<Self, RenderError> {
        let core = config::core(compiled, &outcome)?;
        let profiles = profiles(&outcome);
        let (mut declared_twice, mut conflicts) = (BTreeSet::new(), Vec::new());
        let backends = backends(&outcome, &mut declared_twice, &mut conflicts);
        let mut binds: Vec<_> = outcome.records.binds.iter().map(|bind| bind.record.clone()).collect();
        binds.extend(outcome.units.iter().flat_map(|unit| unit.binds.iter().map(|bind| bind.record.clone())));
        binds.sort();
        binds.dedup();
        let written = config::write(&core, &profiles, &backends, &outcome.units);
        let Outcome { core, records, units, .. } = outcome;
        Ok(Self { core, records, units, profiles, backends, binds, declared_twice, conflicts, written })
    }

    /// Whether these units put the same into shared files as those of this layout, and the same ones win.
    pub(super) fn has_claims_of(&self, units: &[Arc<UnitOutput>]) -> bool {
        let same = |old: &Arc<UnitOutput>, new: &Arc<UnitOutput>| {
            Arc::ptr_eq(old, new) || (Arc::ptr_eq(&old.claims, &new.claims) && old.precedence == new.precedence)
        };
        self.units.len() == units.len() && self.units.iter().zip(units).all(|(old, new)| same(old, new))
    }

    /// This layout as it is with another outcome, and the backends that changed; the outcome back if more than backends
    /// in their places changed.
    pub(super) fn follow(mut self, outcome: Outcome) -> Result<(Self, Vec<Arc<BackendRecord>>), Box<Outcome>> {
        let Some(differences) = self.differences(&outcome) else { return Err(Box::new(outcome)) };
        let mut replaced = Vec::new();
        for Difference { unit, backends } in differences {
            self.count_profiles(unit, &outcome.units[unit]);
            replaced.extend(backends);
        }
        if self.profiles.values().any(|used| used.uses == 0) {
            return Err(Box::new(outcome));
        }
        replaced.sort_by_key(|(position, ..)| *position);
        for (.., section) in &replaced {
            if let Some((known, _)) = self.backends.get_mut(&section.record.name) {
                *known = Arc::clone(section);
            }
        }
        if !replaced.is_empty() {
            self.written.replace(&replaced);
        }
        self.units = outcome.units;
        let changed = replaced.into_iter().map(|(.., section)| Arc::clone(&section.record)).collect();
        Ok((self, changed))
    }

    /// `None` = more than backends in their places.
    fn differences(&self, outcome: &Outcome) -> Option<Vec<Difference>> {
        let comparable = self.core == outcome.core
            && self.units.len() == outcome.units.len()
            && self.records.same_configuration(&outcome.records);
        if !comparable {
            return None;
        }
        let pairs = self.units.iter().zip(&outcome.units).enumerate();
        let changed = pairs.filter(|(_, (old, new))| !Arc::ptr_eq(old, new));
        changed.map(|(index, (old, new))| self.difference(index, old, new)).collect()
    }

    fn difference(&self, unit: usize, old: &UnitOutput, new: &UnitOutput) -> Option<Difference> {
        let in_place = Arc::ptr_eq(&old.text, &new.text)
            && Arc::ptr_eq(&old.binds, &new.binds)
            && old.precedence == new.precedence
            && old.backends.len() == new.backends.len()
            && self.knows_profiles(new)
            && self.keeps_owners(unit, old, new);
        if !in_place {
            return None;
        }
        let mut backends = Vec::new();
        for (before, now) in old.backends.iter().zip(new.backends.iter()) {
            if Arc::ptr_eq(before, now) {
                continue;
            }
            let owner = self.backends.get(&now.record.name).and_then(|(_, owner)| *owner);
            let name = &now.record.name;
            if before.record.name != *name || owner != Some(unit) || self.declared_twice.contains(name) {
                return None;
            }
            backends.push((self.written.position(&now.record.name)?, Arc::clone(&before.text), Arc::clone(now)));
        }
        Some(Difference { unit, backends })
    }

    /// Whether a unit declares no profile that is new.
    fn knows_profiles(&self, new: &UnitOutput) -> bool {
        new.profiles.iter().all(|profile| self.profiles.contains_key(&profile.record.name))
    }

    /// Whether every profile stays that of the same unit.
    fn keeps_owners(&self, unit: usize, old: &UnitOutput, new: &UnitOutput) -> bool {
        if Arc::ptr_eq(&old.profiles, &new.profiles) {
            return true;
        }
        let declares = |output: &UnitOutput, name: &str| output.profiles.iter().any(|it| *it.record.name == *name);
        let owner = |name: &str| self.profiles.get(name).and_then(|used| used.owner);
        let lost = |name: &str| owner(name) == Some(unit) && !declares(new, name);
        let won = |name: &str| owner(name).is_some_and(|owner| owner > unit);
        !old.profiles.iter().any(|it| lost(&it.record.name)) && !new.profiles.iter().any(|it| won(&it.record.name))
    }

    fn count_profiles(&mut self, unit: usize, new: &UnitOutput) {
        let old = Arc::clone(&self.units[unit]);
        if Arc::ptr_eq(&old.profiles, &new.profiles) {
            return;
        }
        for profile in new.profiles.iter() {
            if let Some(used) = self.profiles.get_mut(&profile.record.name) {
                used.uses += 1;
            }
        }
        for profile in old.profiles.iter() {
            if let Some(used) = self.profiles.get_mut(&profile.record.name) {
                used.uses -= 1;
            }
        }
    }

    pub(super) fn profile_records(&self) -> BTreeMap<Arc<str>, ProfileRecord> {
        self.profiles.iter().map(|(name, used)| (Arc::clone(name), used.section.record.clone())).collect()
    }

    pub(super) fn backend_records(&self) -> BTreeMap<Arc<str>, Arc<BackendRecord>> {
        self.backends.iter().map(|(name, (section, _))| (Arc::clone(name), Arc::clone(&section.record))).collect()
    }
}

fn profiles(outcome: &Outcome) -> Profiles {
    let mut profiles = Profiles::new();
    let mut count = |declared: &[Arc<ProfileSection>], owner: Option<usize>| {
        for section in declared {
            if let Some(used) = profiles.get_mut(&section.record.name) {
                used.uses += 1;
            } else {
                let used = UsedProfile { section: Arc::clone(section), uses: 1, owner };
                profiles.insert(Arc::clone(&section.record.name), used);
            }
        }
    };
    count(&outcome.records.profiles, None);
    outcome.units.iter().enumerate().for_each(|(index, unit)| count(&unit.profiles, Some(index)));
    profiles
}

fn backends(outcome: &Outcome, declared_twice: &mut BTreeSet<Arc<str>>, conflicts: &mut Vec<Finding>) -> Backends {
    let mut backends: Backends = BTreeMap::new();
    for section in &outcome.records.backends {
        backends.insert(Arc::clone(&section.record.name), (Arc::clone(section), None));
    }
    for (index, unit) in outcome.units.iter().enumerate() {
        for section in unit.backends.iter() {
            let Some((known, owner)) = backends.get(&section.record.name) else {
                backends.insert(Arc::clone(&section.record.name), (Arc::clone(section), Some(index)));
                continue;
            };
            declared_twice.insert(Arc::clone(&section.record.name));
            if known.digest == section.digest {
                continue;
            }
            let newcomer_wins = owner.is_some_and(|owner| unit.precedence < outcome.units[owner].precedence);
            let loser = if newcomer_wins { owner.map(|owner| &outcome.units[owner]) } else { Some(unit) };
            conflicts.push(conflict(
                loser,
                format!("backend `{}` is also declared by another object, with other content", section.record.name),
            ));
            if newcomer_wins {
                backends.insert(Arc::clone(&section.record.name), (Arc::clone(section), Some(index)));
            }
        }
    }
    backends
}
