//! Days, as people write them. The only clock is the request's `now`.

const SECONDS_A_DAY: i64 = 86_400;

/// Whole days from `now` until `then`.
pub(crate) fn days_until(then: i64, now: i64) -> i64 {
    (then - now).div_euclid(SECONDS_A_DAY)
}

/// The day of a Unix time as `2026-01-31`, in UTC.
pub(crate) fn day(seconds: i64) -> String {
    // Counted from 0000-03-01, so that the leap day is the last of its year, in eras of 400 years.
    let days = seconds.div_euclid(SECONDS_A_DAY) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_becomes_its_day() {
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (1_709_251_200, "2024-03-01"),
            (4_107_542_399, "2100-02-28"),
            (4_107_542_400, "2100-03-01"),
            (253_402_300_799, "9999-12-31"),
        ] {
            assert_eq!(day(seconds), expected);
        }
    }

    #[test]
    fn days_are_whole() {
        assert_eq!(days_until(86_399, 0), 0);
        assert_eq!(days_until(86_400, 0), 1);
        assert_eq!(days_until(-1, 0), -1);
    }
}
