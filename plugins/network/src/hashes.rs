//! Hashes. Each takes its salt as an argument, because a filter has no randomness.

use std::fmt::Write as _;

use haptic_plugin_sdk::{Arguments, FilterError};
use serde_json::Value;
use sha_crypt::Params;
use sha2::{Digest as _, Sha256};

use crate::Network;

const DEFAULT_ROUNDS: u32 = 5_000;

/// Beyond this one hash takes a good part of a call's time.
const MAX_ROUNDS: u32 = 100_000;

/// The alphabet of crypt(3).
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

pub(crate) fn sha256_hex(_: &Network, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [] = arguments.bind([])?;
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text(&value)?) {
        write!(hex, "{byte:02x}").expect("a string takes all text");
    }
    Ok(hex.into())
}

pub(crate) fn sha512_crypt(_: &Network, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [salt, rounds] = arguments.bind(["salt", "rounds"])?;
    let salt = salt.ok_or_else(|| FilterError::refused("it needs a `salt`"))?;
    let salt = text(&salt)?;
    if salt.is_empty() || salt.len() > 16 || !salt.bytes().all(|byte| ALPHABET.contains(&byte)) {
        return Err(FilterError::refused("`salt` must be 1 to 16 characters of `./0-9A-Za-z`"));
    }
    let rounds = match rounds {
        None => DEFAULT_ROUNDS,
        Some(rounds) => rounds
            .as_u64()
            .and_then(|rounds| u32::try_from(rounds).ok())
            .filter(|rounds| (Params::ROUNDS_MIN..=MAX_ROUNDS).contains(rounds))
            .ok_or_else(|| FilterError::refused(format!("`rounds` must be a number from 1000 to {MAX_ROUNDS}")))?,
    };
    let params = Params::new(rounds).map_err(|error| FilterError::refused(error.to_string()))?;
    let hash = sha_crypt::sha512_crypt(text(&value)?.as_bytes(), salt.as_bytes(), params);
    let stated = if rounds == DEFAULT_ROUNDS { String::new() } else { format!("rounds={rounds}$") };
    Ok(format!("$6${stated}{salt}${}", encode(&hash)).into())
}

/// The hash in the order and alphabet of crypt(3): groups of three bytes that lie 21 apart, each group starting where
/// the last one's second byte was.
fn encode(hash: &[u8; 64]) -> String {
    let mut out = String::with_capacity(86);
    let mut push = |mut bits: u32, characters: usize| {
        for _ in 0..characters {
            out.push(char::from(ALPHABET[(bits & 0x3f) as usize]));
            bits >>= 6;
        }
    };
    let (mut first, mut second, mut third) = (0, 21, 42);
    for _ in 0..21 {
        push(u32::from(hash[first]) << 16 | u32::from(hash[second]) << 8 | u32::from(hash[third]), 4);
        (first, second, third) = (second + 1, third + 1, first + 1);
    }
    push(u32::from(hash[63]), 2);
    out
}

fn text(value: &Value) -> Result<&str, FilterError> {
    value.as_str().ok_or_else(|| FilterError::refused("the value and `salt` must be strings"))
}
