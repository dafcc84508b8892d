//! Entries that are never found because an earlier one is found in every text that they would match.
//!
//! HAProxy looks through `dir`, `dom`, `end`, `reg` and `sub` patterns in their order. For `beg` it takes the longest
//! and for `str` the only one, so that there is nothing to find beyond keys that stand twice.

use hashbrown::HashTable;

use crate::{
    Check,
    config::{Kind, Match},
    entries::{Entries, Entry},
};

/// Pieces of keys that are looked up for one file. Where they are used up, later entries are not looked at: a list of a
/// million patterns would take seconds otherwise.
const MOST_PIECES: u32 = 30_000_000;

/// Bits for each entry in the filter before the table.
const FILTER_BITS: usize = 8;

/// Longer keys are not looked at.
const LONGEST_KEY: usize = 512;

/// Expressions that match every text.
const MATCH_ALL: [&[u8]; 12] =
    [b"", b"^", b"$", b".*", b"^.*", b".*$", b"^.*$", b"(.*)", b"^(.*)", b"(.*)$", b"^(.*)$", b".*?"];

/// Keys by their bytes, from the first or from the last.
struct Seen<'a> {
    entries: &'a Entries<'a>,
    matching: Match,
    /// Numbers of entries.
    table: HashTable<u32>,
    /// A bit for every hash in the table. Nearly all pieces are in no table, and this tells it from a small memory.
    filter: Vec<u64>,
    pieces: u32,
}

/// A hash that grows byte by byte, so that all pieces of a key cost no more than its bytes.
#[derive(Clone, Copy)]
struct Growing(u64);

/// Reports entries that an earlier one hides. Of keys that are the same only the first is looked at.
pub(crate) fn check(check: &mut Check<'_>, matching: Match) {
    match matching {
        Match::Reg | Match::Regm => match_all(check),
        Match::Dir | Match::Dom | Match::End | Match::Sub => pieces(check, matching),
        _ => {}
    }
}

fn match_all(check: &mut Check<'_>) {
    let entries = check.entries;
    let Some(index) = entries.list().iter().position(|entry| MATCH_ALL.contains(&entries.key(*entry))) else { return };
    let first = entries.list()[index];
    if let Some(next) = entries.list().get(index + 1) {
        check.unreachable(*next, first, "matches every text");
    }
}

fn pieces(check: &mut Check<'_>, matching: Match) {
    let entries = check.entries;
    let mut seen = Seen {
        entries,
        matching,
        table: HashTable::with_capacity(entries.list().len()),
        filter: vec![0; (entries.list().len() * FILTER_BITS / 64 + 1).next_power_of_two()],
        pieces: 0,
    };
    for (index, entry) in (0..).zip(entries.list()).filter(|(_, entry)| entries.key(**entry).len() <= LONGEST_KEY) {
        if seen.pieces > MOST_PIECES {
            return;
        }
        match seen.hiding(*entry) {
            // The same key is told as standing twice.
            Some(first) if entries.key(first) == entries.key(*entry) => {}
            Some(first) if check.usage.kind == Kind::List || says_something_else(check, *entry, first) => {
                check.unreachable(*entry, first, "is in all that this matches");
            }
            Some(_) => {}
            None => seen.add(index),
        }
    }
}

fn says_something_else(check: &Check<'_>, entry: Entry, first: Entry) -> bool {
    check.entries.value(entry) != check.entries.value(first)
}

// === impl Seen ===

impl<'a> Seen<'a> {
    fn add(&mut self, index: u32) {
        let (entries, matching) = (self.entries, self.matching);
        let key = |index: &u32| compared(entries.key(entries.list()[*index as usize]), matching);
        let hashed = hash(key(&index), matching);
        let (word, bit) = self.bit(hashed);
        self.filter[word] |= bit;
        self.table.insert_unique(hashed, index, |known| hash(key(known), matching));
    }

    /// The entry that is found wherever this one would be.
    fn hiding(&mut self, entry: Entry) -> Option<Entry> {
        let key = self.compared(entry);
        let starts: Vec<usize> = match self.matching {
            Match::End => vec![0],
            Match::Sub => (0..key.len()).collect(),
            _ => {
                let after = key.iter().enumerate().filter(|(_, byte)| is_delimiter(**byte, self.matching));
                std::iter::once(0).chain(after.map(|(index, _)| index + 1)).collect()
            }
        };
        for start in starts {
            let rest = &key[start..];
            let mut growing = Growing::new();
            for length in 1..=rest.len() {
                // A suffix grows from its end.
                let (byte, piece) = match self.matching {
                    Match::End => (rest[rest.len() - length], &rest[rest.len() - length..]),
                    _ => (rest[length - 1], &rest[..length]),
                };
                growing = growing.with(byte);
                let whole = !matches!(self.matching, Match::Dir | Match::Dom)
                    || rest.get(length).is_none_or(|next| is_delimiter(*next, self.matching));
                self.pieces += 1;
                let hashed = growing.hash();
                let (word, bit) = self.bit(hashed);
                if !whole || self.filter[word] & bit == 0 {
                    continue;
                }
                let (entries, matching) = (self.entries, self.matching);
                let same = |known: &u32| compared(entries.key(entries.list()[*known as usize]), matching) == piece;
                if let Some(known) = self.table.find(hashed, same) {
                    return Some(entries.list()[*known as usize]);
                }
            }
        }
        None
    }

    /// Where in the filter a hash has its bit.
    fn bit(&self, hash: u64) -> (usize, u64) {
        // Bits that neither the table's groups nor its tags are made of.
        let middle = usize::try_from((hash >> 24) & 0x7fff_ffff).unwrap_or(0);
        ((middle / 64) & (self.filter.len() - 1), 1 << (middle % 64))
    }

    fn compared(&self, entry: Entry) -> &'a [u8] {
        compared(self.entries.key(entry), self.matching)
    }
}

/// What of a key HAProxy compares: for `dir` and `dom` without delimiters around it.
fn compared(key: &[u8], matching: Match) -> &[u8] {
    if !matches!(matching, Match::Dir | Match::Dom) {
        return key;
    }
    let leading = key.iter().take_while(|byte| is_delimiter(**byte, matching)).count();
    let trailing = key[leading..].iter().rev().take_while(|byte| is_delimiter(**byte, matching)).count();
    &key[leading..key.len() - trailing]
}

fn hash(key: &[u8], matching: Match) -> u64 {
    let grow = |growing: Growing, byte: &u8| growing.with(*byte);
    match matching {
        Match::End => key.iter().rev().fold(Growing::new(), grow),
        _ => key.iter().fold(Growing::new(), grow),
    }
    .hash()
}

fn is_delimiter(byte: u8, matching: Match) -> bool {
    match matching {
        Match::Dir => matches!(byte, b'/' | b'?'),
        _ => matches!(byte, b'/' | b'?' | b'.' | b':'),
    }
}

// === impl Growing ===

impl Growing {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn with(self, byte: u8) -> Self {
        Self((self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    }

    /// Mixed, since a table looks at the highest and lowest bits.
    fn hash(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }
}
