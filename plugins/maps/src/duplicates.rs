//! Keys that stand in a file more than once. HAProxy finds the first.

use hashbrown::{HashTable, hash_table};

use crate::{
    Check,
    config::{Kind, Severity},
    entries::{Entries, Entry},
};

/// Reports every key that was there before.
pub(crate) fn check(check: &mut Check<'_>) {
    let entries = check.entries;
    if ascend(entries) {
        return;
    }
    let key = |index: &u32| entries.key(entries.list()[*index as usize]);
    // By number: with a million keys it counts that this has four bytes.
    let mut seen: HashTable<u32> = HashTable::with_capacity(entries.list().len());
    for (index, entry) in (0..).zip(entries.list()) {
        let this = key(&index);
        match seen.entry(hash(this), |known| key(known) == this, |known| hash(key(known))) {
            hash_table::Entry::Occupied(first) => told(check, *entry, entries.list()[*first.get() as usize]),
            hash_table::Entry::Vacant(place) => _ = place.insert(index),
        }
    }
}

/// Whether each key stands behind the one before it, as in files that a program wrote. Then none stands twice, and to
/// see it costs a fraction of a table.
fn ascend(entries: &Entries<'_>) -> bool {
    entries.list().windows(2).all(|pair| is_less(entries.key(pair[0]), entries.key(pair[1])))
}

/// As `<` of slices, which WebAssembly takes byte by byte.
fn is_less(mut one: &[u8], mut other: &[u8]) -> bool {
    while let (Some((first, one_rest)), Some((second, other_rest))) =
        (one.split_first_chunk::<8>(), other.split_first_chunk::<8>())
        && first == second
    {
        (one, other) = (one_rest, other_rest);
    }
    match (one.first_chunk(), other.first_chunk()) {
        (Some(first), Some(second)) => u64::from_be_bytes(*first) < u64::from_be_bytes(*second),
        _ => one < other,
    }
}

/// Eight bytes at a time by multiplications of 64 bits, which WebAssembly has; those of 128, of which most fast hashes
/// are made, it has not. It is the same in every call. Keys that are made to collide cost time, which is bounded.
fn hash(key: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, bytes: u64| {
        let mixed = (hash ^ bytes).wrapping_mul(FACTOR);
        mixed ^ (mixed >> 32)
    };
    let (pieces, rest) = key.as_chunks::<8>();
    let hash = pieces.iter().fold(key.len() as u64, |hash, piece| mix(hash, u64::from_le_bytes(*piece)));
    let last = match key.last_chunk::<8>() {
        Some(last) if !rest.is_empty() => u64::from_le_bytes(*last),
        _ => rest.iter().fold(0, |bytes, byte| (bytes << 8) | u64::from(*byte)),
    };
    mix(hash, last).wrapping_mul(FACTOR)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_slices_are() {
        let keys: Vec<Vec<u8>> =
            ["", "a", "b", "abcdefgh", "abcdefgi", "abcdefghi", "abcdefgh\u{80}", "abcdefghabcdefgh"]
                .map(|key| key.as_bytes().to_vec())
                .to_vec();
        for one in &keys {
            for other in &keys {
                assert_eq!(is_less(one, other), one < other, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn hashes_of_many_keys_differ() {
        let keys = (0..100_000).map(|number| format!("{}{number}", "x".repeat(number % 20)));
        let hashes: std::collections::BTreeSet<u64> = keys.map(|key| hash(key.as_bytes())).collect();
        assert_eq!(hashes.len(), 100_000);
    }
}
