//! Rule 5: map entries.

use std::collections::{BTreeMap, HashMap};

use haptic_model::{Entries, FilePath, FileRecord, MapEntry, Op, Plan, ReasonCode};

use crate::plan::{Sides, is_safe_token, script::Script};

/// A loaded map whose content changed.
pub(super) fn change(sides: Sides<'_>, path: &FilePath, old: &FileRecord, next: &FileRecord, script: &mut Script) {
    if !sides.baseline.inventory.maps.contains(path) {
        let message = format!("map {path} is not loaded, so only its file changes");
        return script.note(ReasonCode::MapNotLoaded, message);
    }
    let (Entries::Map { ordered: was_ordered, entries: before }, Entries::Map { ordered, entries: after }) =
        (&old.entries, &next.entries)
    else {
        return replace(path, script);
    };
    if let Some(entry) = after.iter().find(|entry| entry.key.is_empty() || entry.value.is_empty()) {
        let message = format!("map {path}: the entry `{}` lacks a key or a value", entry.key);
        return script.reload(ReasonCode::UnsafeToken, message);
    }
    let steps = if *ordered || *was_ordered {
        in_order(before, after).filter(|_| ordered == was_ordered)
    } else {
        in_any_order(before, after)
    };
    match steps {
        Some(steps) if steps.are_safe() => steps.push(path, script),
        _ => replace(path, script),
    }
}

/// The entries of a map of the plan; none if it is not made of records.
pub(super) fn entries<'a>(plan: &'a Plan, path: &FilePath) -> &'a [MapEntry] {
    match plan.files.get(path).map(|file| &file.entries) {
        Some(Entries::Map { entries, .. }) => entries,
        _ => &[],
    }
}

fn replace(path: &FilePath, script: &mut Script) {
    script.map_upserts.push(Op::MapReplace { map: path.clone() });
}

#[derive(Default)]
struct Steps<'a> {
    adds: Vec<&'a MapEntry>,
    sets: Vec<&'a MapEntry>,
    dels: Vec<&'a MapEntry>,
}

/// What differs after the same start and the same end are taken away, and these two.
struct Differing<'a> {
    old: &'a [MapEntry],
    next: &'a [MapEntry],
    start: &'a [MapEntry],
    end: &'a [MapEntry],
}

/// Only the content of a key counts. `None` = a key stands twice, which single commands do not handle alike on every
/// version (haproxy-facts §0 trap 7).
fn in_any_order<'a>(old: &'a [MapEntry], next: &'a [MapEntry]) -> Option<Steps<'a>> {
    let Differing { old, next, start, end } = differing(old, next);
    let mut before: BTreeMap<&str, Vec<&MapEntry>> = BTreeMap::new();
    for entry in old {
        before.entry(&entry.key).or_default().push(entry);
    }
    let mut after: BTreeMap<&str, Vec<&MapEntry>> = BTreeMap::new();
    for entry in next {
        after.entry(&entry.key).or_default().push(entry);
    }
    let mut steps = Steps::default();
    for (key, entries) in &after {
        match (before.get(key).map(Vec::as_slice), entries.as_slice()) {
            (None, [entry]) => steps.adds.push(entry),
            (Some([known]), [entry]) if known.value == entry.value => {}
            (Some([_]), [entry]) => steps.sets.push(entry),
            (Some(known), entries) if known == entries => {}
            _ => return None,
        }
    }
    for (key, entries) in &before {
        match entries.as_slice() {
            _ if after.contains_key(key) => {}
            [entry] => steps.dels.push(entry),
            _ => return None,
        }
    }
    steps.are_alone(start, end).then_some(steps)
}

/// Position counts: values may change, entries may go, new ones may come at the end. `None` = anything else.
fn in_order<'a>(old: &'a [MapEntry], next: &'a [MapEntry]) -> Option<Steps<'a>> {
    let Differing { old, next, start, end } = differing(old, next);
    let mut wanted: HashMap<&str, usize> = HashMap::with_capacity(next.len());
    for entry in next {
        *wanted.entry(&entry.key).or_default() += 1;
    }
    if wanted.values().any(|&count| count > 1) {
        return None;
    }
    let mut steps = Steps::default();
    let mut rest = next;
    for entry in old {
        if !wanted.contains_key(&*entry.key) {
            steps.dels.push(entry);
            continue;
        }
        let (first, others) = rest.split_first()?;
        if first.key != entry.key {
            return None;
        }
        if first.value != entry.value {
            steps.sets.push(first);
        }
        rest = others;
    }
    if !rest.is_empty() && !end.is_empty() {
        return None;
    }
    steps.adds.extend(rest);
    // What is left must be new: a second entry of a known key would have been met above, except for keys of `old`
    // that stand twice.
    let mut known: Vec<&str> = old.iter().map(|entry| &*entry.key).collect();
    known.sort_unstable();
    if known.windows(2).any(|pair| pair[0] == pair[1]) {
        return None;
    }
    steps.are_alone(start, end).then_some(steps)
}

fn differing<'a>(old: &'a [MapEntry], next: &'a [MapEntry]) -> Differing<'a> {
    let start = old.iter().zip(next).take_while(|(a, b)| a == b).count();
    let (same, next) = next.split_at(start);
    let old = &old[start..];
    let end = old.iter().rev().zip(next.iter().rev()).take_while(|(a, b)| a == b).count();
    let (next, tail) = next.split_at(next.len() - end);
    Differing { old: &old[..old.len() - end], next, start: same, end: tail }
}

// === impl Steps ===

impl Steps<'_> {
    /// No entry besides those that changed has one of their keys.
    fn are_alone(&self, start: &[MapEntry], end: &[MapEntry]) -> bool {
        let touched: std::collections::HashSet<&str> = self.all().map(|entry| &*entry.key).collect();
        touched.is_empty() || !start.iter().chain(end).any(|entry| touched.contains(&*entry.key))
    }

    /// Single commands carry key and value as words; a key that starts with `#` would be read as a reference.
    fn are_safe(&self) -> bool {
        let key = |entry: &&MapEntry| is_safe_token(&entry.key) && !entry.key.starts_with('#');
        self.all().all(|entry| key(&entry))
            && self.adds.iter().chain(&self.sets).all(|entry| is_safe_token(&entry.value))
    }

    fn all(&self) -> impl Iterator<Item = &MapEntry> {
        self.adds.iter().chain(&self.sets).chain(&self.dels).copied()
    }

    fn push(self, map: &FilePath, script: &mut Script) {
        script.map_upserts.extend(self.sets.iter().map(|entry| Op::MapSet {
            map: map.clone(),
            key: entry.key.clone(),
            value: entry.value.clone(),
        }));
        script.map_upserts.extend(self.adds.iter().map(|entry| Op::MapAdd {
            map: map.clone(),
            key: entry.key.clone(),
            value: entry.value.clone(),
        }));
        let dels = self.dels.iter().map(|entry| Op::MapDel { map: map.clone(), key: entry.key.clone() });
        script.map_deletes.extend(dels);
    }
}
