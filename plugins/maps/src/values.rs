//! The values of a map.

use std::net::{Ipv4Addr, Ipv6Addr};

use haptic_plugin_sdk::Position;

use crate::{
    Check,
    config::{Severity, Value},
    entries::Entry,
};

/// What is wrong with a value, if anything, and how severe it is.
type Wrong = Option<(Severity, String)>;

/// Reports values that are missing or not of their type.
pub(crate) fn check(check: &mut Check<'_>) {
    let entries = check.entries;
    // Nothing can be wrong with a text but that it is missing or holds a comment.
    let any = check.usage.value == Value::Str && !entries.has_hash();
    for entry in entries.list() {
        if any && entries.has_value(*entry) {
            continue;
        }
        let value = entries.value(*entry);
        let wrong = if value.is_empty() { empty(check, *entry) } else { of_type(check, value) };
        let Some((severity, message)) = wrong else { continue };
        let position = Position::at(check.file.path(), entry.line(), entries.value_column(*entry));
        match severity {
            Severity::Ignore => {}
            Severity::Warning => check.findings.warn(position, message),
            Severity::Error => check.findings.error(position, message),
        }
    }
}

fn empty(check: &Check<'_>, entry: Entry) -> Wrong {
    if check.config.empty_values == Severity::Ignore && check.usage.value != Value::Ip {
        return None;
    }
    let key = check.key_text(entry);
    Some(match check.usage.value {
        Value::Str => {
            (check.config.empty_values, format!("`{key}` has no value and gives an empty one; write a value"))
        }
        Value::Int => (check.config.empty_values, format!("`{key}` has no value and HAProxy takes 0; write a number")),
        Value::Ip => (Severity::Error, format!("`{key}` has no value; write an address behind it")),
    })
}

fn of_type(check: &Check<'_>, value: &[u8]) -> Wrong {
    // What is quoted in a message need not be long.
    let text = || String::from_utf8_lossy(&value[..value.len().min(100)]).into_owned();
    match check.usage.value {
        Value::Str => (check.entries.has_hash() && has_comment(value)).then(|| {
            let message = "a comment cannot follow a value: `#` and all behind it are part of the value; move it to a line \
                           of its own";
            (Severity::Warning, message.to_owned())
        }),
        Value::Int => integer(&text()),
        Value::Ip => address(&text()),
    }
}

/// Whether a `#` stands behind a blank.
fn has_comment(value: &[u8]) -> bool {
    memchr::memchr_iter(b'#', value).any(|at| at > 0 && matches!(value[at - 1], b' ' | b'\t'))
}

fn integer(text: &str) -> Wrong {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some((
            Severity::Error,
            format!("`{text}` is no number; write digits, with `-` before them if negative"),
        ));
    }
    if text.parse::<i64>().is_err() {
        let message = format!("`{text}` is more than HAProxy can count and it takes the nearest it can; write less");
        return Some((Severity::Error, message));
    }
    None
}

fn address(text: &str) -> Wrong {
    let (address, rest) = text.split_at(text.find([' ', '\t', '/']).unwrap_or(text.len()));
    let is_v4 = address.parse::<Ipv4Addr>().is_ok();
    if !is_v4 && address.parse::<Ipv6Addr>().is_err() {
        return Some((
            Severity::Error,
            format!("`{address}` is no address; write one such as 192.0.2.1 or 2001:db8::1"),
        ));
    }
    if rest.is_empty() {
        return None;
    }
    let message = format!("HAProxy takes the address `{address}` and ignores `{rest}`, or refuses it; remove that");
    Some((Severity::Error, message))
}
