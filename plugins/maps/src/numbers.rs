//! Numbers and ranges of numbers. HAProxy looks at them in their order and takes the first that holds.

use std::collections::BTreeMap;

use crate::{Check, entries::Entry};

/// Numbers that earlier entries hold: the first of each run of them, with its last.
#[derive(Default)]
struct Taken {
    runs: BTreeMap<i64, i64>,
}

/// Reports what is no number, and numbers that earlier entries hold already.
pub(crate) fn check(check: &mut Check<'_>) {
    let mut taken = Taken::default();
    for entry in check.entries.list() {
        let key = check.entries.key(*entry);
        match range(key) {
            Err(wrong) => {
                let message = format!("`{}` {wrong}; write a number `5` or a range `5:9`", check.key_text(*entry));
                check.error(*entry, message);
            }
            Ok((first, last)) => {
                if key.first() == Some(&b'-') {
                    at_most(check, *entry, last);
                }
                if !taken.add(first, last) {
                    check.tell(check.config.unreachable, *entry, |check| {
                        let key = check.key_text(*entry);
                        format!(
                            "`{key}` is never found: the entries above hold all its numbers; remove it or move it up"
                        )
                    });
                }
            }
        }
    }
}

/// `-5` does not mean what it looks like.
fn at_most(check: &mut Check<'_>, entry: Entry, last: i64) {
    check.warn(
        entry,
        format!("`-{last}` is no negative number: HAProxy reads a range, all numbers up to {last}; write `:{last}`"),
    );
}

/// The first and last number of `5`, `5:9`, `5-9`, `:9` and `5:`.
fn range(key: &[u8]) -> Result<(i64, i64), &'static str> {
    let number = |digits: &[u8]| {
        let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let text = text.filter(|text| !text.is_empty()).ok_or("is no number")?;
        text.parse::<i64>().map_err(|_| "is more than HAProxy can count")
    };
    let Some(at) = key.iter().position(|byte| matches!(byte, b':' | b'-')) else {
        return number(key).map(|number| (number, number));
    };
    let (first, last) = (&key[..at], &key[at + 1..]);
    let first = if first.is_empty() && !last.is_empty() { i64::MIN } else { number(first)? };
    let last = if last.is_empty() { i64::MAX } else { number(last)? };
    if first > last { Err("is a range that ends before it begins") } else { Ok((first, last)) }
}

// === impl Taken ===

impl Taken {
    /// Adds a range; false if nothing in it is new.
    fn add(&mut self, mut first: i64, mut last: i64) -> bool {
        if let Some((_, end)) = self.runs.range(..=first).next_back()
            && *end >= last
        {
            return false;
        }
        // Runs that touch become one. Each is removed once, so all of this stays linear but for the tree.
        while let Some((start, end)) = self.runs.range(..=last.saturating_add(1)).next_back() {
            let (start, end) = (*start, *end);
            if end.saturating_add(1) < first {
                break;
            }
            self.runs.remove(&start);
            first = first.min(start);
            last = last.max(end);
        }
        self.runs.insert(first, last);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_haproxy_does() {
        assert_eq!(range(b"5"), Ok((5, 5)));
        assert_eq!(range(b"5:9"), Ok((5, 9)));
        assert_eq!(range(b"5-9"), Ok((5, 9)));
        assert_eq!(range(b":9"), Ok((i64::MIN, 9)));
        assert_eq!(range(b"-9"), Ok((i64::MIN, 9)));
        assert_eq!(range(b"5:"), Ok((5, i64::MAX)));
        for wrong in ["", ":", "5:1", "x", "1x", "1.5", "+5", "9223372036854775808", "1:2:3", "5--9"] {
            assert!(range(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_held_by_several_together_is_held() {
        let mut taken = Taken::default();
        assert!(taken.add(1, 3));
        assert!(taken.add(4, 6));
        assert!(!taken.add(2, 5));
        assert!(taken.add(6, 8));
        assert!(!taken.add(1, 8));
        assert!(taken.add(i64::MIN, i64::MAX));
        assert!(!taken.add(0, 0));
        assert!(!taken.add(i64::MAX, i64::MAX));
    }
}
