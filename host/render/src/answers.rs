//! What the filters of plugins answered in this render, as values of the engine.
//!
//! Filters are pure, and a template calls them with the same few arguments over and over. The plugin host remembers
//! answers too, by the arguments' canonical JSON text; this memory stands before it, because making that text and
//! reading the answer back costs several times what a native filter does.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use minijinja::{Error, Value, value::ValueKind};

use crate::filters::json_into;

/// Keys and answers that one render remembers. Beyond it the plugin host is asked, as for a new value.
const MAX_BYTES: usize = 16 << 20;

/// What an entry takes besides its key and its text.
const ENTRY_BYTES: usize = 128;

#[derive(Default)]
pub(crate) struct Answers {
    /// The hasher is random, because whoever writes an object chooses the arguments.
    known: HashMap<Box<[u8]>, Value, RandomState>,
    bytes: usize,
    /// Lent to the one key that is being written, so that most calls allocate nothing.
    buffer: Vec<u8>,
}

/// One call: the filter and its arguments, every part with its kind and its length, so that no two calls share a key.
/// Two keys may still mean the same arguments; the plugin host knows that.
pub(crate) struct Key(Vec<u8>);

// === impl Answers ===

impl Answers {
    pub(crate) fn lend(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// The answer to `key`, or the key back.
    pub(crate) fn get(&mut self, key: Key) -> Result<Value, Key> {
        match self.known.get(key.0.as_slice()) {
            Some(answer) => {
                let answer = answer.clone();
                self.buffer = key.0;
                Ok(answer)
            }
            None => Err(key),
        }
    }

    /// Remembers `answer`, which was read from `text`.
    pub(crate) fn put(&mut self, key: Key, answer: Value, text: &str) {
        let cost = ENTRY_BYTES + key.0.len() + size(&answer, text);
        if self.bytes + cost <= MAX_BYTES {
            self.bytes += cost;
            self.known.insert(key.0.as_slice().into(), answer);
        }
        self.buffer = key.0;
    }
}

// === impl Key ===

impl Key {
    /// Starts the key of a call; `filter` is one number for one filter.
    pub(crate) fn new(mut buffer: Vec<u8>, filter: u32) -> Self {
        buffer.clear();
        buffer.extend_from_slice(&filter.to_le_bytes());
        Self(buffer)
    }

    pub(crate) fn name(&mut self, name: &str) {
        self.part(b'n', name.as_bytes());
    }

    pub(crate) fn value(&mut self, value: &Value) -> Result<(), Error> {
        match value.kind() {
            ValueKind::String => {
                if let Some(text) = value.as_str() {
                    self.part(b's', text.as_bytes());
                    return Ok(());
                }
            }
            ValueKind::Number if value.is_integer() => {
                if let Some(number) = value.as_i64() {
                    self.0.push(b'i');
                    self.0.extend_from_slice(&number.to_le_bytes());
                    return Ok(());
                }
            }
            _ => {}
        }
        let start = self.0.len();
        self.part(b'j', &[]);
        json_into(&mut self.0, value)?;
        let length = (self.0.len() - start - HEAD) as u64;
        self.0[start + 1..start + HEAD].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    fn part(&mut self, kind: u8, bytes: &[u8]) {
        self.0.push(kind);
        self.0.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.0.extend_from_slice(bytes);
    }
}

/// About what `answer` takes in memory. A list takes much more than its text: each item is a value, and may be an
/// allocation; an object of one entry has room for eleven.
fn size(answer: &Value, text: &str) -> usize {
    if !matches!(answer.kind(), ValueKind::Seq | ValueKind::Map) {
        return text.len();
    }
    let parts = text.bytes().map(|byte| match byte {
        b'{' => 640,
        b'[' | b',' => 128,
        _ => 1,
    });
    parts.sum()
}

/// A part's kind and length.
const HEAD: usize = 1 + size_of::<u64>();

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn key(values: &[Value]) -> Vec<u8> {
        let mut key = Key::new(Vec::new(), 7);
        for value in values {
            key.value(value).unwrap();
        }
        key.0
    }

    #[test]
    fn calls_that_differ_have_keys_that_differ() {
        let keys = [
            key(&[]),
            key(&["".into()]),
            key(&["ab".into()]),
            key(&["a".into(), "b".into()]),
            key(&["1".into()]),
            key(&[1.into()]),
            key(&[1.0.into()]),
            key(&[true.into()]),
            key(&[().into()]),
            key(&[vec![1, 2].into()]),
            key(&[vec![1].into(), 2.into()]),
            key(&["[1,2]".into()]),
            key(&[Value::from_bytes(b"ab".to_vec())]),
        ];
        for (index, one) in keys.iter().enumerate() {
            for other in &keys[..index] {
                assert_ne!(one, other);
            }
        }
    }

    #[test]
    fn a_call_is_found_again_and_another_filters_is_not() {
        let mut answers = Answers::default();
        answers.put(Key::new(Vec::new(), 1), "one".into(), "one");
        let buffer = answers.lend();
        assert_eq!(answers.get(Key::new(buffer, 1)).ok(), Some("one".into()));
        assert!(answers.get(Key::new(Vec::new(), 2)).is_err());
    }

    #[test]
    fn forgets_what_does_not_fit() {
        let mut answers = Answers::default();
        answers.put(Key::new(Vec::new(), 1), "one".into(), &" ".repeat(MAX_BYTES));
        assert!(answers.get(Key::new(Vec::new(), 1)).is_err());
    }

    #[test]
    fn charges_lists_and_objects_for_what_they_take() {
        for (item, bytes) in [("[]", 64), ("{}", 64), ("0", 24), (r#"{"":0}"#, 600)] {
            let text = format!("[{}]", vec![item; 1000].join(","));
            let answer: Value = serde_json::from_str(&text).unwrap();
            assert!(size(&answer, &text) >= 1000 * bytes, "{item}");
        }
        // Few answers that are long lists fill the memory, though their texts are short.
        let text = format!("[{}]", vec!["[]"; 20_000].join(","));
        let answer: Value = serde_json::from_str(&text).unwrap();
        let mut answers = Answers::default();
        (0..10).for_each(|filter| answers.put(Key::new(Vec::new(), filter), answer.clone(), &text));
        let known = (0..10).filter(|filter| answers.get(Key::new(Vec::new(), *filter)).is_ok()).count();
        assert_eq!(known, 3);
    }

    #[test]
    fn charges_every_entry() {
        let mut answers = Answers::default();
        (0..200_000).for_each(|filter| answers.put(Key::new(Vec::new(), filter), true.into(), "true"));
        assert_eq!(answers.known.len(), MAX_BYTES / (ENTRY_BYTES + 4 + 4));
    }
}
