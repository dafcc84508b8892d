//! The formats. What one call may cost is bounded, so that it ends well within a call's time in the sandbox.

use std::ops::RangeInclusive;

use haptic_plugin_sdk::{Arguments, FilterError};
use serde_json::Value;

use crate::{Password, arguments, encoding, md5};

const SHA_ROUNDS: RangeInclusive<u32> = 1_000..=50_000;
/// What crypt(3) takes when the text states none.
const DEFAULT_SHA_ROUNDS: u32 = 5_000;

const BCRYPT_COST: RangeInclusive<u32> = 4..=10;
const DEFAULT_BCRYPT_COST: u32 = 8;
/// bcrypt ignores what comes after.
const BCRYPT_PASSWORD_BYTES: usize = 72;

const YESCRYPT_COST: RangeInclusive<u32> = 1..=5;
/// The default of crypt_gensalt(3).
const DEFAULT_YESCRYPT_COST: u32 = 5;

pub(crate) fn sha256_crypt(_: &Password, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let (password, salt, rounds, params) = sha_arguments(&value, arguments)?;
    let hash = sha_crypt::sha256_crypt(password, salt.as_bytes(), params);
    let mut out = sha_start('5', rounds, &salt);
    let (mut first, mut second, mut third) = (0, 10, 20);
    for _ in 0..10 {
        encoding::push_three(&mut out, [hash[first], hash[second], hash[third]]);
        (first, second, third) = (third + 1, first + 1, second + 1);
    }
    encoding::push(&mut out, u32::from(hash[31]) << 8 | u32::from(hash[30]), 3);
    Ok(out.into())
}

pub(crate) fn sha512_crypt(_: &Password, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let (password, salt, rounds, params) = sha_arguments(&value, arguments)?;
    let hash = sha_crypt::sha512_crypt(password, salt.as_bytes(), params);
    let mut out = sha_start('6', rounds, &salt);
    let (mut first, mut second, mut third) = (0, 21, 42);
    for _ in 0..21 {
        encoding::push_three(&mut out, [hash[first], hash[second], hash[third]]);
        (first, second, third) = (second + 1, third + 1, first + 1);
    }
    encoding::push(&mut out, u32::from(hash[63]), 2);
    Ok(out.into())
}

pub(crate) fn bcrypt(_: &Password, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [salt, cost, variant] = arguments.bind(["salt", "cost", "variant"])?;
    let password = arguments::password(&value)?;
    if password.len() > BCRYPT_PASSWORD_BYTES {
        let message = format!(
            "the password has {} bytes and bcrypt ignores all after {BCRYPT_PASSWORD_BYTES}; use `sha512_crypt`",
            password.len()
        );
        return Err(FilterError::refused(message));
    }
    let salt = arguments::salt(salt, 16..=16)?;
    let cost = arguments::number("cost", cost, DEFAULT_BCRYPT_COST, BCRYPT_COST)?;
    let variant = match variant.as_ref().map(Value::as_str) {
        None | Some(Some("2b")) => "2b",
        Some(Some("2y")) => "2y",
        Some(_) => return Err(FilterError::refused("`variant` must be `2b` or `2y`; both hash alike")),
    };
    let salt = salt.into_bytes().try_into().expect("the salt has 16 bytes");
    let hash =
        ::bcrypt::bcrypt(cost, salt, &[password, b"\0"].concat()[..BCRYPT_PASSWORD_BYTES.min(password.len() + 1)]);
    let mut out = format!("${variant}${cost:02}$");
    encoding::push_bcrypt(&mut out, &salt);
    // The format leaves the last byte out.
    encoding::push_bcrypt(&mut out, &hash[..23]);
    Ok(out.into())
}

pub(crate) fn yescrypt(_: &Password, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [salt, cost] = arguments.bind(["salt", "cost"])?;
    let password = arguments::password(&value)?;
    let salt = arguments::salt(salt, 1..=16)?;
    // As crypt_gensalt(3) reads its count.
    let (n, r) = match arguments::number("cost", cost, DEFAULT_YESCRYPT_COST, YESCRYPT_COST)? {
        cost @ ..=2 => (1 << (cost + 9), 8),
        cost => (1 << (cost + 7), 32),
    };
    let failed = |error: yescrypt::Error| FilterError::failed(error.to_string());
    let params = yescrypt::Params::new(yescrypt::Mode::default(), n, r, 1).map_err(failed)?;
    let mut hash = [0; 32];
    yescrypt::yescrypt(password, salt.as_bytes(), &params, &mut hash).map_err(failed)?;
    let mut out = format!("$y${params}$");
    encoding::push_bytes(&mut out, salt.as_bytes());
    out.push('$');
    encoding::push_bytes(&mut out, &hash);
    Ok(out.into())
}

pub(crate) fn md5_crypt(filters: &Password, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    if !filters.config.allow_weak {
        let message = "md5-crypt is guessed too fast; use `sha512_crypt`, or set `allowWeak` in the plugin's config";
        return Err(FilterError::refused(message));
    }
    let [salt] = arguments.bind(["salt"])?;
    let password = arguments::password(&value)?;
    let salt = arguments::salt(salt, 1..=8)?;
    Ok(md5::crypt(password, &salt).into())
}

fn sha_arguments(value: &Value, arguments: Arguments) -> Result<(&[u8], String, u32, sha_crypt::Params), FilterError> {
    let [salt, rounds] = arguments.bind(["salt", "rounds"])?;
    let password = arguments::password(value)?;
    let salt = arguments::salt(salt, 1..=16)?;
    let rounds = arguments::number("rounds", rounds, DEFAULT_SHA_ROUNDS, SHA_ROUNDS)?;
    let params = sha_crypt::Params::new(rounds).map_err(|error| FilterError::failed(error.to_string()))?;
    Ok((password, salt, rounds, params))
}

fn sha_start(scheme: char, rounds: u32, salt: &str) -> String {
    let stated = if rounds == DEFAULT_SHA_ROUNDS { String::new() } else { format!("rounds={rounds}$") };
    format!("${scheme}${stated}{salt}$")
}
