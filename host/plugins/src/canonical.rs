//! One spelling for equal JSON values, so that a filter's answer is found again however its arguments were written.
//!
//! The guest is given the same spelling: were it given the caller's, an answer that depends on it (say, on the order of
//! an object's members) would be remembered for a call that was spelled another way.

use std::borrow::Cow;

use haptic_model::ports::FilterCall;
use serde_json::Value;

/// The arguments of one call in their canonical spelling, where it differs from the caller's.
pub(crate) struct Arguments {
    value: String,
    positional: Vec<String>,
    named: Vec<(String, String)>,
}

// === impl Arguments ===

impl Arguments {
    /// `None` if `call` is canonical already, as nearly every call of a template is.
    pub(crate) fn of(call: FilterCall<'_>) -> Option<Self> {
        let spelled = std::iter::once(call.value).chain(call.positional.iter().map(String::as_str));
        let sorted = call.named.is_sorted_by(|(one, _), (other, _)| one <= other);
        let mut spelled = spelled.chain(call.named.iter().map(|(_, value)| value.as_str()));
        if sorted && spelled.all(|text| matches!(canonical(text), Cow::Borrowed(_))) {
            return None;
        }
        let owned = |text: &String| canonical(text).into_owned();
        let mut named: Vec<_> = call.named.iter().map(|(name, value)| (name.clone(), owned(value))).collect();
        named.sort_by(|(one, _), (other, _)| one.cmp(other));
        Some(Self {
            value: canonical(call.value).into_owned(),
            positional: call.positional.iter().map(owned).collect(),
            named,
        })
    }

    pub(crate) fn of_filter<'a>(&'a self, filter: &'a str) -> FilterCall<'a> {
        FilterCall { filter, value: &self.value, positional: &self.positional, named: &self.named }
    }
}

/// No space between tokens, members of objects sorted by name, strings with no escape but those they need. Text with
/// a number that is not a plain integer of 64 bits stays as it is, because reading and writing it might change it;
/// so does what is not JSON, for the guest to refuse.
fn canonical(text: &str) -> Cow<'_, str> {
    if is_plain_scalar(text.as_bytes()) {
        return text.into();
    }
    let Ok(mut value) = serde_json::from_str::<Value>(text) else { return text.into() };
    if has_fraction(&value) {
        return text.into();
    }
    value.sort_all_objects();
    let spelled = value.to_string();
    if spelled == text { text.into() } else { spelled.into() }
}

/// Whether `text` is one JSON value.
pub(crate) fn is_json(text: &str) -> bool {
    is_plain_scalar(text.as_bytes()) || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Whether `text` is a scalar that can be written in no other canonical way; `false` may be wrong.
fn is_plain_scalar(text: &[u8]) -> bool {
    match text {
        b"true" | b"false" | b"null" | b"0" => true,
        [b'"', inner @ .., b'"'] => !inner.iter().any(|&byte| matches!(byte, b'"' | b'\\' | ..b' ')),
        [b'1'..=b'9', digits @ ..] => digits.len() < 18 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(values) => values.iter().any(has_fraction),
        Value::Object(members) => members.values().any(has_fraction),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn equal_values_have_one_spelling() {
        for (text, spelled) in [
            (r#"{"b":1,"a":[{"d":null,"c":""}]}"#, r#"{"a":[{"c":"","d":null}],"b":1}"#),
            (" [ 1 , 2 ]\n", "[1,2]"),
            (r#""\u0061\/""#, r#""a/""#),
            (r#""\u000A""#, r#""\n""#),
            ("-7", "-7"),
            (" true", "true"),
        ] {
            assert_eq!(canonical(text), spelled, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_written_again_without_loss_stays() {
        for text in
            ["1.0", "-0", "[0.1, 1e400]", "123456789012345678901234567890", "[ 1e2 ]", "not json", "", "\"\u{7f}é\""]
        {
            assert_eq!(canonical(text), text);
        }
    }

    #[test]
    fn scalars_are_known_without_being_read() {
        for text in ["\"10.0.0.1\"", "\"\"", "true", "null", "5", "123456789012345678"] {
            assert!(is_plain_scalar(text.as_bytes()), "{text}");
            assert!(matches!(canonical(text), Cow::Borrowed(_)), "{text}");
        }
        for text in ["\"a\"b\"", "\"\\u0061\"", "\"a\nb\"", "\"", "01", "1.5", "[]"] {
            assert!(!is_plain_scalar(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn named_arguments_have_one_order() {
        let named = [("b".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())];
        let call = FilterCall { filter: "f", value: "1", positional: &[], named: &named };
        let arguments = Arguments::of(call).unwrap();
        assert_eq!(arguments.of_filter("f").named[0].0, "a");
        assert!(Arguments::of(arguments.of_filter("f")).is_none());
    }
}
