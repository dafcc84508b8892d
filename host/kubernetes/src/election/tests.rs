#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

#[test]
fn times_that_would_let_two_lead_are_not_taken() {
    let times = |lease: u64, deadline: u64, retry: u64| {
        let safe = ElectionSettings {
            lease_duration: Duration::from_secs(lease),
            renew_deadline: Duration::from_secs(deadline),
            retry_period: Duration::from_secs(retry),
            ..ElectionSettings::new("haptic", "haptic", "a")
        }
        .safe();
        (safe.renew_deadline.as_millis(), safe.retry_period.as_millis())
    };
    assert_eq!(times(30, 20, 5), (20_000, 5_000), "the defaults are safe");
    assert_eq!(times(30, 30, 5), (20_000, 5_000));
    assert_eq!(times(15, 20, 5), (10_000, 2_500));
}
