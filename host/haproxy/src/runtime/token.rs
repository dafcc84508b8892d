//! The guard of the command line: what may stand as one word on it.

use thiserror::Error;

/// A value that would be more or less than one word on HAProxy's command line.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("`{shown}` cannot stand in a runtime command: {reason}")]
pub struct UnsafeToken {
    shown: String,
    reason: &'static str,
}

/// Passes a value that is exactly one word. Anything else is refused, never rewritten: HAProxy's command line knows no
/// quotes (haproxy-facts §4), so a rewritten value would be another value.
pub fn check_token(value: &str) -> Result<&str, UnsafeToken> {
    let refuse = |reason| {
        let shown = value.chars().take(80).flat_map(char::escape_default).collect();
        Err(UnsafeToken { shown, reason })
    };
    if value.is_empty() {
        return refuse("it is empty");
    }
    if value.contains(';') {
        return refuse("`;` separates commands");
    }
    if value.contains('\\') {
        return refuse("a backslash escapes what follows");
    }
    if value.contains("<<") {
        return refuse("`<<` starts a payload");
    }
    if value.chars().any(char::is_whitespace) {
        return refuse("white space ends a word");
    }
    if value.chars().any(char::is_control) {
        return refuse("it has a control character");
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_not_one_word() {
        for bad in ["", "a;b", "a b", "a\tb", "a\nb", "a\\b", "<<x", "a<<", "a\u{0}b", "a\u{a0}b", "\u{7f}"] {
            assert!(check_token(bad).is_err(), "{bad:?} must be refused");
        }
    }

    #[test]
    fn passes_names_paths_and_map_keys_unchanged() {
        for good in ["be_default", "/shop/cart", "a.b|/x?y=%20&z#f", "[::1]:80", "grüße.example", "a<b"] {
            assert_eq!(check_token(good), Ok(good));
        }
    }
}
