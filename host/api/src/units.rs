//! Durations and sizes as Kubernetes writes them: `2s`, `100ms`, `1h30m`; `64Mi`, `500k`.

use std::{borrow::Cow, fmt, str::FromStr, time};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// A duration in Go's notation: numbers with a unit (`ns`, `us`, `ms`, `s`, `m`, `h`) one after the other, or `0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Duration(pub time::Duration);

/// A number of bytes in Kubernetes' quantity notation: `64Mi`, `1Gi`, `500k`, `1e6`, or a plain number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// The text is not a duration.
#[derive(Debug, Error)]
#[error("`{0}` is not a duration: write numbers with units, such as `100ms`, `2s` or `1h30m`")]
pub struct InvalidDuration(String);

/// The text is not a number of bytes.
#[derive(Debug, Error)]
#[error("`{0}` is not a number of bytes: write a whole number of bytes, with a unit if you like, such as `64Mi`")]
pub struct InvalidBytes(String);

const DURATION_PATTERN: &str = r"^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$";
const BYTES_PATTERN: &str = r"^[0-9]+(\.[0-9]+)?(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]+)?$";

// === impl Duration ===

impl Duration {
    /// A duration of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(time::Duration::from_millis(millis))
    }

    /// A duration of whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(time::Duration::from_secs(secs))
    }

    /// The same as the type of the standard library.
    pub const fn get(self) -> time::Duration {
        self.0
    }
}

impl FromStr for Duration {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidDuration(text.to_owned());
        if text == "0" {
            return Ok(Self::default());
        }
        let mut nanos: u128 = 0;
        let mut rest = text;
        while !rest.is_empty() {
            let (number, after) = split_at_first(rest, |c| !c.is_ascii_digit() && c != '.');
            let (unit, after) = split_at_first(after, |c| c.is_ascii_digit() || c == '.');
            let scale = match unit {
                "ns" => 1,
                "us" | "µs" | "μs" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "m" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                _ => return Err(invalid()),
            };
            let (scaled, _) = scale_decimal(number, scale).ok_or_else(invalid)?;
            nanos = nanos.checked_add(scaled).ok_or_else(invalid)?;
            rest = after;
        }
        if text.is_empty() {
            return Err(invalid());
        }
        // Go's own limit: what does not fit a signed 64-bit count of nanoseconds is no duration.
        let nanos = i64::try_from(nanos).map_err(|_| invalid())?;
        Ok(Self(time::Duration::from_nanos(nanos.unsigned_abs())))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u128, &str); 6] = [
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];
        let mut nanos = self.0.as_nanos();
        if nanos == 0 {
            return f.write_str("0");
        }
        for (scale, unit) in UNITS {
            let count = nanos / scale;
            if count > 0 {
                write!(f, "{count}{unit}")?;
                nanos %= scale;
            }
        }
        Ok(())
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": DURATION_PATTERN, "maxLength": 64 })
    }
}

// === impl Bytes ===

impl Bytes {
    /// So many mebibytes (2^20 bytes each).
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for Bytes {
    type Err = InvalidBytes;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidBytes(text.to_owned());
        let (number, unit) = split_at_first(text, |c| !c.is_ascii_digit() && c != '.');
        let scale: u64 = match unit {
            "" => 1,
            "k" => 1_000,
            "M" => 1_000_000,
            "G" => 1_000_000_000,
            "T" => 1_000_000_000_000,
            "P" => 1_000_000_000_000_000,
            "E" => 1_000_000_000_000_000_000,
            "Ki" => 1 << 10,
            "Mi" => 1 << 20,
            "Gi" => 1 << 30,
            "Ti" => 1 << 40,
            "Pi" => 1 << 50,
            "Ei" => 1 << 60,
            exponent => {
                let digits = exponent.strip_prefix(['e', 'E']).ok_or_else(invalid)?;
                10_u64.checked_pow(digits.parse().map_err(|_| invalid())?).ok_or_else(invalid)?
            }
        };
        match scale_decimal(number, scale.into()) {
            Some((bytes, Exact::Yes)) => u64::try_from(bytes).map(Self).map_err(|_| invalid()),
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")] {
            if self.0 > 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(bytes) => Ok(Self(bytes)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "pattern": BYTES_PATTERN,
            "maxLength": 32,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Exact {
    Yes,
    No,
}

fn split_at_first(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

/// `number` × `scale` without floating point; what is left below one is cut off and told by [`Exact::No`].
fn scale_decimal(number: &str, scale: u128) -> Option<(u128, Exact)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 18 {
        return None;
    }
    let unit = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = fraction.parse::<u128>().ok()?.checked_mul(scale)?;
    let total = whole.parse::<u128>().ok()?.checked_mul(scale)?.checked_add(part / unit)?;
    Some((total, if part % unit == 0 { Exact::Yes } else { Exact::No }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn reads_every_unit_of_a_duration() {
        let cases = [
            ("0", 0),
            ("1ns", 1),
            ("2us", 2_000),
            ("2µs", 2_000),
            ("100ms", 100_000_000),
            ("2s", 2_000_000_000),
            ("1m", 60_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            ("1h0m0.5s", 3_600_500_000_000),
        ];
        for (text, nanos) in cases {
            assert_eq!(text.parse::<Duration>().unwrap().get().as_nanos(), nanos, "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_duration() {
        for text in ["", "2", "s", "1.s", ".5s", "-1s", "1 s", "1d", "1s2", "1..2s", "9999999h", "1ss"] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }

    #[test]
    fn writes_a_duration_so_that_it_reads_back_the_same() {
        for text in ["0", "100ms", "2s", "1h30m", "1m1s1ms", "1us1ns"] {
            assert_eq!(text.parse::<Duration>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn reads_every_unit_of_bytes() {
        let cases = [
            ("64Mi", 64 << 20),
            ("1Gi", 1 << 30),
            ("1.5Ki", 1536),
            ("500k", 500_000),
            ("2M", 2_000_000),
            ("1e6", 1_000_000),
            ("1E", 1_000_000_000_000_000_000),
            ("123", 123),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse::<Bytes>().unwrap().get(), bytes, "{text}");
        }
        assert_eq!(serde_json::from_str::<Bytes>("4096").unwrap().get(), 4096);
        assert_eq!(Bytes::from_mib(64).to_string(), "64Mi");
    }

    #[test]
    fn refuses_what_is_no_number_of_bytes() {
        for text in ["", "Mi", "64mi", "64MB", "-1", "1m", "0.5", "1e99", "16Ei", "1 Mi"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
