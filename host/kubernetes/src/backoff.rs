//! How long to wait after a failed request.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::Trouble;

/// A source of numbers from 0 to just below 1, so that clients that failed together do not come back together.
#[derive(Clone)]
pub struct Jitter(Arc<dyn Fn() -> f64 + Send + Sync>);

/// Pauses double from `first` to `longest`; a random half of each is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Default: 500 ms.
    pub first: Duration,
    /// Default: 30 s.
    pub longest: Duration,
    /// The longest pause while the server does not answer at all, which no pause relieves. Default: 4 s.
    pub longest_unreachable: Duration,
}

/// The failures in a row, and the pause that they ask for.
#[derive(Debug)]
pub struct Failures {
    backoff: Backoff,
    jitter: Jitter,
    count: u32,
    /// The server did not answer the last time.
    unreachable: bool,
}

// === impl Jitter ===

impl Jitter {
    pub fn new(random: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(random))
    }

    /// Different in every process.
    pub fn random() -> Self {
        let (state, count) = (RandomState::new(), AtomicU64::new(0));
        Self::new(move || {
            let bits = state.hash_one(count.fetch_add(1, Ordering::Relaxed)) >> 32;
            f64::from(u32::try_from(bits).expect("32 bits were shifted out")) / (f64::from(u32::MAX) + 1.0)
        })
    }

    /// The next number.
    pub fn draw(&self) -> f64 {
        (self.0)().clamp(0.0, 1.0)
    }

    /// This part of a duration and a random share of the rest.
    pub(crate) fn at_least(&self, part: f64, whole: Duration) -> Duration {
        whole.mul_f64(part + (1.0 - part) * self.draw())
    }
}

impl fmt::Debug for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jitter")
    }
}

// === impl Backoff ===

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(500),
            longest: Duration::from_secs(30),
            longest_unreachable: Duration::from_secs(4),
        }
    }
}

// === impl Failures ===

impl Failures {
    pub fn new(backoff: Backoff, jitter: Jitter) -> Self {
        Self { backoff, jitter, count: 0, unreachable: false }
    }

    pub(crate) fn jitter(&self) -> &Jitter {
        &self.jitter
    }

    /// The last request succeeded.
    pub fn reset(&mut self) {
        self.count = 0;
        self.unreachable = false;
    }

    /// Counts one more failure. What the server asks for is never undercut.
    pub fn pause(&mut self, trouble: Option<&Trouble>) -> Duration {
        let unreachable = trouble.is_some_and(Trouble::is_unreachable);
        if self.unreachable && !unreachable {
            // A server that is back may refuse a first request, as it forgot old versions or does not know its roles
            // yet. That is the first refusal, however long it was away.
            self.count = 0;
        }
        self.unreachable = unreachable;
        let longest = if unreachable { self.backoff.longest_unreachable } else { self.backoff.longest };
        let pause = self.backoff.first.saturating_mul(1 << self.count.min(16)).min(longest);
        self.count = self.count.saturating_add(1);
        let pause = self.jitter.at_least(0.5, pause);
        match trouble.and_then(Trouble::retry_after) {
            // All clients that were sent away together were told the same time.
            Some(asked) => pause.max(asked + self.jitter.at_least(0.0, self.backoff.first)),
            None => pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Refusal;

    fn refusal(code: u16, retry_after: Option<u64>) -> Trouble {
        let retry_after = retry_after.map(Duration::from_secs);
        Trouble::Refused(Refusal { code, retry_after, ..Refusal::default() })
    }

    fn failures(random: f64) -> Failures {
        Failures::new(Backoff::default(), Jitter::new(move || random))
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_start_again_after_a_success() {
        let mut failures = failures(1.0);
        let trouble = refusal(500, None);
        let pauses: Vec<_> = (0..9).map(|_| failures.pause(Some(&trouble)).as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
        failures.reset();
        assert_eq!(failures.pause(None), Duration::from_millis(500));
    }

    #[test]
    fn an_outage_makes_the_first_refusal_after_it_no_later() {
        let mut failures = failures(1.0);
        let away = Trouble::TimedOut(Duration::from_secs(1));
        let pauses: Vec<_> = (0..6).map(|_| failures.pause(Some(&away)).as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 4000, 4000]);
        let gone = refusal(410, None);
        let pauses: Vec<_> = (0..3).map(|_| failures.pause(Some(&gone)).as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000]);
    }

    #[test]
    fn half_of_a_pause_is_random() {
        assert_eq!(failures(0.0).pause(None), Duration::from_millis(250));
        assert_eq!(failures(0.5).pause(None), Duration::from_millis(375));
    }

    #[test]
    fn the_time_that_the_server_asks_for_is_never_undercut_and_spread() {
        let trouble = refusal(429, Some(60));
        assert_eq!(failures(0.0).pause(Some(&trouble)), Duration::from_mins(1));
        assert_eq!(failures(1.0).pause(Some(&trouble)), Duration::from_millis(60_500));
    }

    #[test]
    fn random_numbers_lie_between_zero_and_one_and_differ() {
        let jitter = Jitter::random();
        let drawn: Vec<f64> = (0..64).map(|_| (jitter.0)()).collect();
        assert!(drawn.iter().all(|number| (0.0..1.0).contains(number)));
        let sum: f64 = drawn.iter().sum();
        assert!((8.0..56.0).contains(&sum), "64 numbers are not all near one end: {sum}");
    }
}
