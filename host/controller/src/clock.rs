//! The time of day, as an argument: what is written down and what validators see. Durations use tokio's clock.

use std::{
    fmt,
    str::FromStr,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use haptic_model::ports::Now;
use thiserror::Error;

#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

/// UTC, to the second, as RFC 3339 writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

/// The text is no moment.
#[derive(Debug, Error)]
#[error("`{0}` is no moment: write it in UTC, such as `2026-12-31T23:59:59Z`")]
pub struct InvalidTimestamp(String);

/// When something is due; `None` = never.
pub(crate) async fn until(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

// === impl WallClock ===

impl WallClock {
    pub fn system() -> Self {
        Self::new(SystemTime::now)
    }

    pub fn new(read: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub fn fixed(seconds: u64) -> Self {
        Self::new(move || UNIX_EPOCH + std::time::Duration::from_secs(seconds))
    }

    pub fn now(&self) -> Now {
        Now((self.0)().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }

    /// For who wants the time of day itself.
    pub fn reader(&self) -> impl Fn() -> SystemTime + Send + Sync + 'static {
        let clock = self.0.clone();
        move || clock()
    }

    pub fn timestamp(&self) -> Timestamp {
        Timestamp(self.now().0)
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WallClock({})", self.timestamp())
    }
}

// === impl Timestamp ===

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0 / 86_400, self.0 % 86_400);
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    /// Exactly what is written, and no other form of RFC 3339.
    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        let number = |range: std::ops::Range<usize>| -> Option<u64> {
            let digits = text.get(range).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
            digits.parse().ok()
        };
        let read = || {
            let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
            let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
            // Days since 1 March of the year in which the leap day of the era's cycle is the last.
            let (shifted_year, from_march) =
                if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
            let of_era = shifted_year % 400;
            let day_of_year = (153 * from_march + 2) / 5 + day.checked_sub(1)?;
            let days = shifted_year / 400 * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year;
            let time = Self((days.checked_sub(719_468)? * 24 + hour) * 3600 + minute * 60 + second);
            // What does not read back the same is no such moment, a 30 February or a fraction.
            (time.to_string() == text).then_some(time)
        };
        read().ok_or_else(|| InvalidTimestamp(text.to_owned()))
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Days since 1970-01-01 to a date of the Gregorian calendar, by eras of 400 years counted from 1 March.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::clock::Timestamp;

    #[test]
    fn writes_dates_as_rfc_3339_does() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(Timestamp(seconds).to_string(), expected);
            assert_eq!(expected.parse::<Timestamp>().unwrap(), Timestamp(seconds));
        }
    }

    #[test]
    fn reads_nothing_but_what_it_writes() {
        for text in ["", "2026-02-30T00:00:00Z", "2026-12-31T23:59:59+00:00", "2026-13-01T00:00:00Z", "2026-1-1T0:0:0Z"]
        {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }
}
