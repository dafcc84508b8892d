//! Shared files as they are after some units came, went or changed, without merging all others again: possible as long as
//! only entries of maps differ that nobody else claims and whose order in the map is that of their keys.

use std::{collections::BTreeMap, sync::Arc};

use haptic_model::{Entries, FilePath, MapEntry, Origin, SourceSpan};

use super::{Line, Outside, SharedFiles};
use crate::{
    align::Step,
    records::{Claims, MapClaim, UnitOutput},
};

/// What changes in one map, by key.
type Changes<'a> = BTreeMap<&'a Arc<str>, Change<'a>>;

#[derive(Clone, Copy, Default)]
struct Change<'a> {
    /// It was claimed.
    was: bool,
    /// What is claimed now, and by whom.
    now: Option<(&'a Arc<str>, &'a Arc<Origin>)>,
}

// === impl SharedFiles ===

impl SharedFiles {
    /// `None` = everything must be merged again.
    pub(in crate::assemble) fn follow(
        &self,
        outside: &Outside,
        old: &[Arc<UnitOutput>],
        new: &[Arc<UnitOutput>],
        steps: &[Step],
    ) -> Option<Self> {
        if self.outside != *outside {
            return None;
        }
        let mut changes: BTreeMap<&FilePath, Changes<'_>> = BTreeMap::new();
        for step in steps {
            let (before, now) = step.places();
            self.collect(before.map(|index| &old[index]), now.map(|index| &new[index]), &mut changes)?;
        }
        let mut followed = self.clone();
        for (path, changes) in changes {
            let Entries::Map { ordered: false, entries } = &self.files.get(path)?.record.entries else { return None };
            let lines = changed_lines(entries, self.sources.get(path)?, &changes)?;
            followed.add_map(path, false, lines.iter().copied(), Some(self));
        }
        Some(followed)
    }

    fn collect<'a>(
        &self,
        old: Option<&'a Arc<UnitOutput>>,
        new: Option<&'a Arc<UnitOutput>>,
        changes: &mut BTreeMap<&'a FilePath, Changes<'a>>,
    ) -> Option<()> {
        if let (Some(old), Some(new)) = (old, new) {
            if Arc::ptr_eq(old, new) {
                return Some(());
            }
            if old.precedence != new.precedence {
                return None;
            }
            if Arc::ptr_eq(&old.claims, &new.claims) {
                return Some(());
            }
        }
        let nothing = Claims::default();
        let claims = |unit: Option<&'a Arc<UnitOutput>>| unit.map(|unit| &*unit.claims);
        let (before, now) = (claims(old).unwrap_or(&nothing), claims(new).unwrap_or(&nothing));
        if !before.only_map_entries_differ(now) {
            return None;
        }
        for claim in claims(old).iter().flat_map(|claims| &claims.map_entries) {
            self.uncontested(claim)?;
            changes.entry(&claim.map).or_default().entry(&claim.key).or_default().was = true;
        }
        for claim in claims(new).iter().flat_map(|claims| &claims.map_entries) {
            self.uncontested(claim)?;
            let origin = &new.expect("who claims it is there").origin;
            let change = changes.entry(&claim.map).or_default().entry(&claim.key).or_default();
            if change.now.is_some() {
                return None;
            }
            change.now = Some((&claim.value, origin));
        }
        Some(())
    }

    fn uncontested(&self, claim: &MapClaim) -> Option<()> {
        let contested =
            !self.contested.is_empty() && self.contested.contains(&(claim.map.clone(), Arc::clone(&claim.key)));
        (!contested).then_some(())
    }
}

/// `None` = a key is claimed that somebody else has, or nothing is left.
fn changed_lines<'a>(entries: &'a [MapEntry], spans: &'a [SourceSpan], changes: &Changes<'a>) -> Option<Vec<Line<'a>>> {
    let mut lines = Vec::with_capacity(entries.len() + changes.len());
    let mut changes = changes.iter().map(|(key, change)| (*key, *change)).peekable();
    let mut span = 0;
    for (number, entry) in (1_u32..).zip(entries) {
        while spans.get(span + 1).is_some_and(|next| next.first_line <= number) {
            span += 1;
        }
        while let Some((key, change)) = changes.next_if(|(key, _)| **key < entry.key) {
            lines.push(change.new_line(key)?);
        }
        match changes.next_if(|(key, _)| **key == entry.key) {
            None => lines.push(Line { key: &entry.key, value: &entry.value, origin: &spans.get(span)?.origin }),
            Some((_, Change { was: false, .. })) => return None,
            Some((key, change)) => lines.extend(change.line(key)),
        }
    }
    for (key, change) in changes {
        lines.push(change.new_line(key)?);
    }
    (!lines.is_empty()).then_some(lines)
}

// === impl Change ===

impl<'a> Change<'a> {
    fn line(self, key: &'a Arc<str>) -> Option<Line<'a>> {
        let (value, origin) = self.now?;
        Some(Line { key, value, origin })
    }

    /// Of a key that the map does not have.
    fn new_line(self, key: &'a Arc<str>) -> Option<Line<'a>> {
        self.line(key).filter(|_| !self.was)
    }
}
