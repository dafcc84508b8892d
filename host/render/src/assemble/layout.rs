//! What stands in `haproxy.cfg`, merged from all units. Units that come, go or change are followed without merging and
//! writing everything again, as long as they change nothing but backends.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haptic_model::{BackendRecord, BindRecord, Finding, ProfileRecord};
use imbl::OrdMap;

use super::{
    config::{self, Edit},
    conflict,
};
use crate::{
    RenderError,
    align::{Step, align},
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

/// The backends that are not as they were.
#[derive(Default)]
pub(super) struct ChangedBackends {
    pub(super) now: Vec<Arc<BackendRecord>>,
    pub(super) gone: Vec<Arc<str>>,
}

/// Both sides of a step; nothing where a unit came or went.
struct Sides<'a> {
    /// With its index.
    old: Option<(usize, &'a UnitOutput)>,
    new: Option<(usize, &'a UnitOutput)>,
    /// How many of the old units stand before it.
    after: usize,
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

    /// What became of the units; `None` = what stayed is in another order.
    pub(super) fn steps(&self, units: &[Arc<UnitOutput>]) -> Option<Vec<Step>> {
        align(&self.units, units, Arc::ptr_eq, |unit| unit.origin.unit.as_deref().unwrap_or_default())
    }

    pub(super) fn units(&self) -> &[Arc<UnitOutput>] {
        &self.units
    }

    /// This layout as it is with another outcome, and the backends that changed; the outcome back if more than backends
    /// changed.
    pub(super) fn follow(mut self, outcome: Outcome, steps: &[Step]) -> Result<(Self, ChangedBackends), Box<Outcome>> {
        let Some(edits) = self.edits(&outcome, steps) else { return Err(Box::new(outcome)) };
        self.count_profiles(&outcome.units, steps);
        if self.profiles.values().any(|used| used.uses == 0) {
            return Err(Box::new(outcome));
        }
        self.renumber(steps);
        let mut changed = ChangedBackends::default();
        for edit in &edits {
            match edit {
                Edit::Removed { section } => {
                    self.backends.remove(&section.record.name);
                    changed.gone.push(Arc::clone(&section.record.name));
                }
                Edit::Replaced { now } => {
                    if let Some((known, _)) = self.backends.get_mut(&now.record.name) {
                        *known = Arc::clone(now);
                    }
                    changed.now.push(Arc::clone(&now.record));
                }
                Edit::Inserted { section, unit, .. } => {
                    self.backends.insert(Arc::clone(&section.record.name), (Arc::clone(section), Some(*unit)));
                    changed.now.push(Arc::clone(&section.record));
                }
            }
        }
        if !edits.is_empty() {
            self.written.edit(&edits);
        }
        self.units = outcome.units;
        Ok((self, changed))
    }

    /// What to change in the text, in the order of the names; `None` = more than backends.
    fn edits(&self, outcome: &Outcome, steps: &[Step]) -> Option<Vec<Edit>> {
        if self.core != outcome.core || !self.records.same_configuration(&outcome.records) {
            return None;
        }
        let mut edits = Vec::new();
        let mut after = 0;
        for step in steps {
            let (old, new) = step.places();
            let sides = Sides {
                old: old.map(|index| (index, &*self.units[index])),
                new: new.map(|index| (index, &*outcome.units[index])),
                after,
            };
            after += usize::from(old.is_some());
            if let (Some((_, old)), Some((_, new))) = (sides.old, sides.new)
                && std::ptr::eq(old, new)
            {
                continue;
            }
            if !sides.only_backends() || !self.keeps_profiles(&sides) {
                return None;
            }
            self.edits_of(&sides, &mut edits)?;
        }
        edits.sort_by(|a, b| a.name().cmp(b.name()));
        let twice = edits.windows(2).any(|pair| pair[0].name() == pair[1].name());
        (!twice).then_some(edits)
    }

    /// Adds the changes of one unit's backends; `None` = another unit's are touched.
    fn edits_of(&self, sides: &Sides<'_>, edits: &mut Vec<Edit>) -> Option<()> {
        let before = sides.old.map(|(_, unit)| unit.backends.as_slice()).unwrap_or_default();
        let now = sides.new.map(|(_, unit)| unit.backends.as_slice()).unwrap_or_default();
        let named = |sections: &[Arc<BackendSection>], name: &str| {
            sections.iter().find(|section| *section.record.name == *name).cloned()
        };
        for section in before {
            let name = &section.record.name;
            let now = named(now, name);
            if now.as_ref().is_some_and(|now| Arc::ptr_eq(now, section)) {
                continue;
            }
            let owner = self.backends.get(name).and_then(|(_, owner)| *owner);
            if owner != sides.old.map(|(index, _)| index) || self.declared_twice.contains(name) {
                return None;
            }
            let removed = || Edit::Removed { section: Arc::clone(section) };
            edits.push(now.map_or_else(removed, |now| Edit::Replaced { now }));
        }
        if let Some((unit, output)) = sides.new {
            for section in now.iter().filter(|section| named(before, &section.record.name).is_none()) {
                if self.backends.contains_key(&section.record.name) {
                    return None;
                }
                let (section, origin) = (Arc::clone(section), Arc::clone(&output.origin));
                edits.push(Edit::Inserted { section, unit, origin });
            }
        }
        Some(())
    }

    /// Whether no profile comes or goes, and every one stays that of the same unit.
    fn keeps_profiles(&self, sides: &Sides<'_>) -> bool {
        let declared = |unit: Option<&UnitOutput>, name: &str| {
            unit.is_some_and(|unit| unit.profiles.iter().any(|it| *it.record.name == *name))
        };
        let (old, new) = (sides.old.map(|(_, unit)| unit), sides.new.map(|(_, unit)| unit));
        let owner = |name: &str| self.profiles.get(name).and_then(|used| used.owner);
        let lost = |name: &str| sides.old.is_some_and(|(index, _)| owner(name) == Some(index)) && !declared(new, name);
        let won = |name: &str| !declared(old, name) && owner(name).is_some_and(|owner| owner >= sides.after);
        let before = old.iter().flat_map(|unit| unit.profiles.iter());
        let mut now = new.iter().flat_map(|unit| unit.profiles.iter());
        !before.into_iter().any(|it| lost(&it.record.name))
            && now.all(|it| self.profiles.contains_key(&it.record.name) && !won(&it.record.name))
    }

    fn count_profiles(&mut self, units: &[Arc<UnitOutput>], steps: &[Step]) {
        for step in steps {
            let (old, new) = step.places();
            if let (Some(old), Some(new)) = (old, new)
                && (Arc::ptr_eq(&self.units[old], &units[new])
                    || Arc::ptr_eq(&self.units[old].profiles, &units[new].profiles))
            {
                continue;
            }
            for profile in new.iter().flat_map(|index| units[*index].profiles.iter()) {
                if let Some(used) = self.profiles.get_mut(&profile.record.name) {
                    used.uses += 1;
                }
            }
            for profile in old.iter().flat_map(|index| self.units[*index].profiles.iter()) {
                if let Some(used) = self.profiles.get_mut(&profile.record.name) {
                    used.uses -= 1;
                }
            }
        }
    }

    /// Owners are indices of units, and those moved. What a unit that went has owned is removed, or was not followed.
    fn renumber(&mut self, steps: &[Step]) {
        if steps.iter().all(|step| matches!(step, Step::Kept(old, new) if old == new)) {
            return;
        }
        let mut moved = vec![None; self.units.len()];
        for step in steps {
            if let Step::Kept(old, new) = *step {
                moved[old] = Some(new);
            }
        }
        let owners = self.backends.values_mut().map(|(_, owner)| owner);
        for owner in owners.chain(self.profiles.values_mut().map(|used| &mut used.owner)) {
            *owner = owner.and_then(|index| moved[index]);
        }
    }

    pub(super) fn profile_records(&self) -> BTreeMap<Arc<str>, ProfileRecord> {
        self.profiles.iter().map(|(name, used)| (Arc::clone(name), used.section.record.clone())).collect()
    }

    pub(super) fn backend_records(&self) -> OrdMap<Arc<str>, Arc<BackendRecord>> {
        self.backends.iter().map(|(name, (section, _))| (Arc::clone(name), Arc::clone(&section.record))).collect()
    }
}

// === impl Sides ===

impl Sides<'_> {
    /// Whether nothing differs that stands elsewhere than in a backend.
    fn only_backends(&self) -> bool {
        let alone = |unit: &UnitOutput| unit.text.trim().is_empty() && unit.binds.is_empty();
        match (self.old, self.new) {
            (Some((_, old)), Some((_, new))) => {
                Arc::ptr_eq(&old.text, &new.text)
                    && Arc::ptr_eq(&old.binds, &new.binds)
                    && old.precedence == new.precedence
            }
            (Some((_, unit)), None) | (None, Some((_, unit))) => alone(unit),
            (None, None) => true,
        }
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
