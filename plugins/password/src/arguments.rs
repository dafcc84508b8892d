//! What the filters take. No refusal repeats a password.

use std::ops::RangeInclusive;

use haptic_plugin_sdk::FilterError;
use serde_json::Value;

use crate::encoding::ALPHABET;

/// Bounds what one hash costs; longer passwords are no safer.
const MAX_PASSWORD_BYTES: usize = 256;

/// A password that crypt(3) reads as it was meant: text, not empty, without NUL.
pub(crate) fn password(value: &Value) -> Result<&[u8], FilterError> {
    let Some(text) = value.as_str() else {
        return Err(FilterError::refused("the password must be text"));
    };
    if text.is_empty() {
        return Err(FilterError::refused("the password is empty: everyone would know it; is its source missing?"));
    }
    if text.len() > MAX_PASSWORD_BYTES {
        let length = text.len();
        let message = format!("the password has {length} bytes; at most {MAX_PASSWORD_BYTES} are hashed");
        return Err(FilterError::refused(message));
    }
    if text.contains('\0') {
        return Err(FilterError::refused("the password has a NUL byte, where crypt(3) would end it"));
    }
    if text.ends_with('\n') {
        let message = "the password ends with a line end, which no one types; remove it with `| trim`";
        return Err(FilterError::refused(message));
    }
    Ok(text.as_bytes())
}

/// A salt of crypt(3)'s alphabet.
pub(crate) fn salt(value: Option<Value>, length: RangeInclusive<usize>) -> Result<String, FilterError> {
    let (least, most) = (*length.start(), *length.end());
    let count = if least == most { format!("exactly {most}") } else { format!("{least} to {most}") };
    match value {
        None => Err(FilterError::refused(format!(
            "it needs a `salt` of {count} characters, another for every user, e.g. the start of a hash of the name"
        ))),
        Some(Value::String(salt))
            if length.contains(&salt.len()) && salt.bytes().all(|byte| ALPHABET.contains(&byte)) =>
        {
            Ok(salt)
        }
        Some(_) => Err(FilterError::refused(format!("`salt` must be {count} characters of `./0-9A-Za-z`"))),
    }
}

/// A number within bounds; `default` where it is not given.
pub(crate) fn number(
    name: &str,
    value: Option<Value>,
    default: u32,
    bounds: RangeInclusive<u32>,
) -> Result<u32, FilterError> {
    let Some(value) = value else { return Ok(default) };
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.filter(|number| bounds.contains(number)).ok_or_else(|| {
        let (least, most) = (bounds.start(), bounds.end());
        FilterError::refused(format!("`{name}` must be a whole number from {least} to {most}"))
    })
}
