//! Keys that stand in a file more than once. HAProxy finds the first.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::{
    Check,
    config::{Kind, Severity},
    entries::Entry,
};

/// Any number: hashes must be the same in every call.
const SEED: u64 = 0x6861_7074_6963;

/// Reports every key that was there before.
pub(crate) fn check(check: &mut Check<'_>) {
    let entries = check.entries;
    let state = FixedState::with_seed(SEED);
    let key = |index: &u32| entries.key(entries.list()[*index as usize]);
    let hash = |index: &u32| state.hash_one(key(index));
    // By number: with a million keys it counts that this has four bytes.
    let mut seen: HashTable<u32> = HashTable::with_capacity(entries.list().len());
    for (index, entry) in (0..).zip(entries.list()) {
        let hashed = hash(&index);
        match seen.find(hashed, |known| key(known) == key(&index)) {
            Some(first) => told(check, *entry, entries.list()[*first as usize]),
            None => drop(seen.insert_unique(hashed, index, hash)),
        }
    }
}

/// Tells of a key that stands twice. Where both say the same, it is never more than a warning.
pub(crate) fn told(check: &mut Check<'_>, second: Entry, first: Entry) {
    let list = check.usage.kind == Kind::List;
    let same = list || check.entries.value(second) == check.entries.value(first);
    let severity = match check.config.unreachable {
        Severity::Error if same => Severity::Warning,
        severity => severity,
    };
    check.tell(severity, second, |check| {
        let (key, line) = (check.key_text(second), first.line());
        if same {
            return format!("`{key}` stands already in line {line}; remove one of the two");
        }
        format!("`{key}` has another value in line {line}, which HAProxy takes; remove one of the two")
    });
}
