//! Patterns that have a shape of their own: regular expressions and hexadecimal bytes.

use regex_syntax::ast::{Error, ErrorKind, parse::ParserBuilder};

use crate::{Check, config::Match, entries::Entry};

/// Deeper groups than this are left to HAProxy.
const DEEPEST: u32 = 200;

/// Reports patterns that HAProxy refuses.
pub(crate) fn check(check: &mut Check<'_>, matching: Match) {
    let wrong: fn(&[u8]) -> Option<(usize, &'static str)> = match matching {
        Match::Reg => regex,
        Match::Regm => regex_with_groups,
        Match::Bin => binary,
        _ => return,
    };
    for entry in check.entries.list() {
        if let Some((offset, message)) = wrong(check.entries.key(*entry)) {
            told(check, *entry, offset, message);
        }
    }
}

fn told(check: &mut Check<'_>, entry: Entry, offset: usize, message: &str) {
    let column = check.entries.column(entry) + u32::try_from(offset).unwrap_or(0);
    let position = haptic_plugin_sdk::Position::at(check.file.path(), entry.line(), column);
    check.findings.error(position, format!("`{}`: {message}", check.key_text(entry)));
}

fn binary(key: &[u8]) -> Option<(usize, &'static str)> {
    if let Some(offset) = key.iter().position(|byte| !byte.is_ascii_hexdigit()) {
        return Some((offset, "this is no hexadecimal digit; write two of 0-9 and a-f for each byte"));
    }
    (key.len() % 2 == 1).then_some((key.len() - 1, "a byte has two hexadecimal digits; add the missing one"))
}

/// As HAProxy compiles what only has to match: without groups that are remembered, unless they have names.
fn regex(key: &[u8]) -> Option<(usize, &'static str)> {
    let text = std::str::from_utf8(key).ok()?;
    let error = parsed(text)?;
    let has_names = ["(?<", "(?P<", "(?'"].iter().any(|name| text.contains(name));
    if matches!(error.kind(), ErrorKind::UnsupportedBackreference) && !has_names {
        let message = "HAProxy remembers no groups here and refuses a reference to one; write out what it repeats";
        return Some((error.span().start.offset, message));
    }
    refused(text, &error)
}

fn regex_with_groups(key: &[u8]) -> Option<(usize, &'static str)> {
    let text = std::str::from_utf8(key).ok()?;
    refused(text, &parsed(text)?)
}

fn parsed(text: &str) -> Option<Error> {
    ParserBuilder::new().nest_limit(DEEPEST).build().parse(text).err()
}

/// Where HAProxy's PCRE2 refuses an expression, and why. The parser knows another dialect: an error counts only where
/// both agree, and after something that PCRE2 alone knows (look-around, back-references, `\Q`, …) nothing is told.
fn refused(text: &str, error: &Error) -> Option<(usize, &'static str)> {
    let offset = error.span().start.offset;
    let message = match error.kind() {
        ErrorKind::GroupUnclosed => "this group is not closed; write `)` behind it, or `\\(` for the character",
        ErrorKind::GroupUnopened => "this `)` closes no group; remove it, or write `\\)` for the character",
        // `[a[b]` is whole in PCRE2, where a bracket in a class is a character.
        ErrorKind::ClassUnclosed if !text[offset + 1..].contains('[') => {
            "this class is not closed; write `]` behind it, or `\\[` for the character"
        }
        ErrorKind::ClassRangeInvalid => "this range ends before it begins; swap its ends",
        ErrorKind::EscapeUnexpectedEof => {
            "nothing follows this backslash; remove it, or write `\\\\` for the character"
        }
        // A brace without numbers is a character in PCRE2.
        ErrorKind::RepetitionMissing if !text[offset..].starts_with('{') => {
            "nothing stands before this to repeat; write what is repeated, or a backslash before it"
        }
        ErrorKind::RepetitionCountInvalid => "this repetition ends before it begins; swap its numbers",
        _ => return None,
    };
    Some((offset, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pcre2_refuses_is_found_where_it_is() {
        let offset = |text: &str| regex(text.as_bytes()).map(|(offset, _)| offset);
        assert_eq!(offset("^a("), Some(2));
        assert_eq!(offset("a)"), Some(1));
        assert_eq!(offset("[a"), Some(0));
        assert_eq!(offset("[z-a]"), Some(1));
        assert_eq!(offset("a\\"), Some(1));
        assert_eq!(offset("*a"), Some(0));
        assert_eq!(offset(r"(a)\1"), Some(3));
        assert_eq!(regex_with_groups(br"(a)\1"), None);
        assert!(offset("a{2,1}").is_some());
    }

    #[test]
    fn what_pcre2_takes_is_not_refused() {
        let taken = [
            "a",
            "",
            "(?=a)b",
            r"(?<x>a)\1",
            r"\Qa(",
            "(?#c)",
            "(?>a)",
            r"\R",
            r"\K",
            "{",
            "]",
            "a++",
            "a{,3}",
            "a||b",
            "()",
            "[a[b]",
            "[]a]",
            "(?<x>a)",
            "(?P<x>a)(?P=x)",
            "[^]]",
            "a**",
            "[[:alpha:]]",
            r"\h",
            "(?i)x",
            "a{",
            "x{1,2}?",
        ];
        for text in taken {
            assert_eq!(regex(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn depth_is_no_danger() {
        let deep = "(".repeat(100_000) + &")".repeat(100_000);
        assert_eq!(regex(deep.as_bytes()), None);
    }
}
