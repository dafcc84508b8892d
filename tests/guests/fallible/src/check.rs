//! The validator.

use std::{collections::BTreeSet, hint::black_box};

use crate::bindings::haptic::plugin::{
    files::File,
    types::{Finding, Report, Verdict},
};

/// What is held with the mistake `hoard`, just within the default limit of 64 MiB.
const HOARD_BYTES: usize = 54 << 20;

pub(crate) fn check(mistake: &str, file: &File, data: &[File], now: u64) -> Report {
    let path = file.path();
    let size = file.size();
    assert!(mistake != "trap-on-large" || size < 4 << 20, "too large");
    // Reading in pieces would be better manners; so a large file meets the input limit or the memory limit.
    let content = file.read_all();
    blunder(mistake, &content, data, now, size);
    let split: fn(&u8) -> bool =
        if mistake == "count-line-ends-twice" { |byte| matches!(byte, b'\r' | b'\n') } else { |byte| *byte == b'\n' };
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    let mut keys = BTreeSet::new();
    for (number, text) in (1..).zip(content.split(split)) {
        let text = text.strip_suffix(b"\r").filter(|_| mistake != "echo-bytes").unwrap_or(text);
        let finding = |column: usize, message: String| Finding {
            path: path.clone(),
            line: number,
            column: u32::try_from(column).unwrap_or(u32::MAX),
            message,
        };
        let mut words = text.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let Some(key) = words.next() else { continue };
        let value = words.next();
        if !keys.insert(key) {
            assert!(mistake != "trap-on-duplicate", "a key is there twice");
            // One of many is enough to make a person look.
            if warnings.len() < 10 {
                warnings.push(finding(1, "the key is there already; write it once".to_owned()));
            }
        }
        let digits = value.is_some_and(|value| value.iter().all(u8::is_ascii_digit));
        assert!(digits || mistake != "trap-on-no-number", "no number");
        if !digits && errors.len() < 10 {
            let value = value.unwrap_or_default();
            let shown = if mistake == "echo-bytes" {
                String::from_utf8_lossy(value).into_owned()
            } else {
                value.escape_ascii().take(100).map(char::from).collect()
            };
            errors.push(finding(text.len() + 1, format!("`{shown}` is no number; write `KEY NUMBER`")));
        }
    }
    let verdict = match (errors.as_slice(), warnings.as_slice()) {
        _ if mistake == "always-valid" => Verdict::Valid,
        ([], []) => Verdict::Valid,
        ([], _) => Verdict::Warning,
        _ => Verdict::Error,
    };
    Report { verdict, warnings, errors }
}

/// What goes wrong before any line is looked at.
fn blunder(mistake: &str, content: &[u8], data: &[File], now: u64, size: u64) {
    match mistake {
        "trap-on-not-utf8" => drop(std::str::from_utf8(content).expect("it is text")),
        "loop-on-empty" => while content.is_empty() && black_box(true) {},
        "trap-on-one-byte" if !content.is_empty() => {
            black_box(content[1]);
        }
        "trap-on-nul" => assert!(!content.contains(&0), "a NUL"),
        "recurse-by-byte" => {
            black_box(depth(content.split(|byte| *byte == b'\n').max_by_key(|line| line.len()).unwrap_or_default()));
        }
        "trap-on-cut" => {
            assert!(content.is_empty() || content.ends_with(b"\n") || size > 200, "no line feed at the end");
        }
        "need-data" => assert!(!data.is_empty(), "no data file"),
        "add-to-clock" => drop(now.checked_add(86_400).expect("tomorrow exists")),
        "hoard" => drop(black_box(vec![1_u8; HOARD_BYTES])),
        _ => {}
    }
}

/// A frame for each byte: the optimiser cannot make a loop of it.
fn depth(line: &[u8]) -> u64 {
    let page = black_box([line.len() as u64; 32]);
    match line {
        [] => page[0],
        [_, rest @ ..] => depth(rest) + page[rest.len() % 32],
    }
}
