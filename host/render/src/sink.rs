//! Escaping by sink: what a value must look like where it is printed, so that it can never become a directive.
//!
//! The rules hold outside and inside double quotes, so a template may write `"{{ value }}"` as well as `{{ value }}`:
//! a backslash sequence means the same to HAProxy in both (tested against real binaries in `tests/sinks.rs`).

use std::fmt::Write as _;

/// Marks where a unit's text begins and ends inside the core text. A control character, so that no sink lets it
/// through and no template may contain it.
pub(crate) const MARK: char = '\u{1}';

/// One word of HAProxy configuration, in a place that may be a log-format string.
pub(crate) fn token(value: &str) -> Result<String, String> {
    if value.contains('%') {
        return Err(format!(
            "{} holds a `%`, which HAProxy may read as a log-format variable; print it with `| log_format` where the \
             directive takes a log-format string, or with `| literal` where it does not",
            shown(value)
        ));
    }
    literal(value)
}

/// One word of HAProxy configuration, in a place that is not a log-format string.
pub(crate) fn literal(value: &str) -> Result<String, String> {
    if value.is_empty() {
        return Ok("\"\"".to_owned());
    }
    refuse_control(value)?;
    if value.starts_with('-') {
        return Err(format!("{} starts with `-`, which HAProxy may read as a flag", shown(value)));
    }
    if matches!(value, "{" | "}" | "||" | "or" | "!") {
        return Err(format!("{} is a word of HAProxy's condition syntax", shown(value)));
    }
    let mut escaped = String::with_capacity(value.len() + 8);
    for c in value.chars() {
        match c {
            ' ' | '#' | '\\' | '"' | '\'' => {
                escaped.push('\\');
                escaped.push(c);
            }
            // `\$` is taken literally outside quotes, and a bare `$` expands the environment inside them.
            '$' => escaped.push_str("\\x24"),
            c => escaped.push(c),
        }
    }
    Ok(escaped)
}

/// A log-format string that prints the value as it is.
pub(crate) fn log_format(value: &str) -> Result<String, String> {
    literal(&value.replace('%', "%%"))
}

/// A regular expression that matches the value and nothing else.
pub(crate) fn regex_literal(value: &str) -> Result<String, String> {
    literal(&regex::escape(value))
}

/// The key of a map entry: the first word of a line.
pub(crate) fn map_key(value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Err("a map key must not be empty".to_owned());
    }
    refuse_control(value)?;
    if value.contains(char::is_whitespace) {
        return Err(format!("{} holds white space, which ends a map key", shown(value)));
    }
    if value.starts_with('#') {
        return Err(format!("{} starts with `#`, which makes the map line a comment", shown(value)));
    }
    Ok(())
}

/// The value of a map entry: the rest of a line.
pub(crate) fn map_value(value: &str) -> Result<(), String> {
    refuse_control(value)?;
    if value.is_empty() || value.trim() != value {
        return Err(format!("{} is empty or has white space at an end, which HAProxy would cut off", shown(value)));
    }
    Ok(())
}

/// A word of a crt-list line.
pub(crate) fn crt_list_word(value: &str) -> Result<(), String> {
    refuse_control(value)?;
    let forbidden = |c: char| c.is_whitespace() || matches!(c, '#' | '[' | ']' | '\\' | '"' | '\'' | ';');
    if value.is_empty() || value.contains(forbidden) {
        return Err(format!("{} may not stand in a crt-list line", shown(value)));
    }
    Ok(())
}

/// A name of a proxy or server: the set of characters that HAProxy takes.
pub(crate) fn name(value: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':');
    if value.is_empty() || value.len() > 250 || !value.chars().all(allowed) {
        return Err(format!("{} is not a name: 1 to 250 of `A-Z a-z 0-9 . _ - :`", shown(value)));
    }
    Ok(())
}

/// A value as messages show it: shortened, control characters spelled out.
pub(crate) fn shown(value: &str) -> String {
    let mut text = String::from("`");
    for (index, c) in value.chars().enumerate() {
        if index == 60 {
            text.push('…');
            break;
        }
        if c.is_control() {
            let _ = write!(text, "\\u{{{:x}}}", u32::from(c));
        } else {
            text.push(c);
        }
    }
    text.push('`');
    text
}

fn refuse_control(value: &str) -> Result<(), String> {
    match value.chars().find(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
        Some(c) => Err(format!("{} holds the control character U+{:04X}", shown(value), u32::from(c))),
        None => Ok(()),
    }
}
