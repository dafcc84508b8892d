//! What the filters of one session answered, by filter and canonical arguments.
//!
//! All keys stand in one buffer and all answers in another: an entry with allocations of its own would cost as much as
//! the call that it saves.

use std::{hash::BuildHasher as _, ops::Range};

use foldhash::quality::RandomState;
use hashbrown::HashTable;

/// Arguments and answers that one session remembers. Beyond it answers are right but not remembered.
const MAX_BYTES: usize = 64 << 20;

#[derive(Default)]
pub(crate) struct Answered {
    entries: HashTable<Entry>,
    keys: Vec<u8>,
    texts: String,
    /// Random, because whoever writes an object chooses the arguments.
    hasher: RandomState,
}

/// Where the key and the answer of a call are.
struct Entry {
    key: [u32; 2],
    text: [u32; 2],
    refused: bool,
}

// === impl Answered ===

impl Answered {
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The answer to a call, or the filter's words on why it has none.
    pub(crate) fn get(&self, hash: u64, key: &[u8]) -> Option<Result<&str, &str>> {
        let entry = self.entries.find(hash, |entry| &self.keys[range(entry.key)] == key)?;
        let text = &self.texts[range(entry.text)];
        Some(if entry.refused { Err(text) } else { Ok(text) })
    }

    /// Remembers the answer to a call that is not known.
    pub(crate) fn put(&mut self, hash: u64, key: &[u8], answer: Result<&str, &str>) {
        let (Ok(text) | Err(text)) = answer;
        if self.keys.len() + self.texts.len() + key.len() + text.len() > MAX_BYTES {
            return;
        }
        let entry = Entry {
            key: place(self.keys.len(), key.len()),
            text: place(self.texts.len(), text.len()),
            refused: answer.is_err(),
        };
        self.keys.extend_from_slice(key);
        self.texts.push_str(text);
        let (keys, hasher) = (&self.keys, &self.hasher);
        self.entries.insert_unique(hash, entry, |entry| hasher.hash_one(&keys[range(entry.key)]));
    }
}

fn place(start: usize, length: usize) -> [u32; 2] {
    [start, start + length].map(|place| u32::try_from(place).expect("the buffers are smaller than 4 GiB"))
}

fn range([start, end]: [u32; 2]) -> Range<usize> {
    start as usize..end as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(answered: &mut Answered, key: &str, answer: Result<&str, &str>) {
        let hash = answered.hash(key.as_bytes());
        assert_eq!(answered.get(hash, key.as_bytes()), None, "{key}");
        answered.put(hash, key.as_bytes(), answer);
    }

    fn get<'a>(answered: &'a Answered, key: &str) -> Option<Result<&'a str, &'a str>> {
        answered.get(answered.hash(key.as_bytes()), key.as_bytes())
    }

    #[test]
    fn every_key_has_its_own_answer() {
        let mut answered = Answered::default();
        let text = |number: usize| format!("{number}").repeat(number % 5);
        for number in 0..5000 {
            let answer = text(number);
            let answer = if number % 3 == 0 { Err(answer.as_str()) } else { Ok(answer.as_str()) };
            put(&mut answered, &format!("key {number}"), answer);
        }
        for number in 0..5000 {
            let answer = text(number);
            let expected = if number % 3 == 0 { Err(answer.as_str()) } else { Ok(answer.as_str()) };
            assert_eq!(get(&answered, &format!("key {number}")), Some(expected), "{number}");
        }
        assert_eq!(get(&answered, ""), None);
    }

    #[test]
    fn what_does_not_fit_is_not_remembered_and_harms_nothing() {
        let mut answered = Answered::default();
        put(&mut answered, "a", Ok("1"));
        put(&mut answered, "b", Ok(&" ".repeat(MAX_BYTES)));
        put(&mut answered, "c", Err(""));
        assert_eq!(["a", "b", "c"].map(|key| get(&answered, key)), [Some(Ok("1")), None, Some(Err(""))]);
    }
}
