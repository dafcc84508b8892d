//! How many of a plugin's notes reach the log, whatever it does in however many calls.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// The quiet after which dropped notes are told again.
const TELL_EVERY: Duration = Duration::from_mins(1);

/// A bucket of tokens that fills with time.
pub(crate) struct Bucket {
    tokens: u32,
    size: u32,
    /// One more token each.
    every: Duration,
    filled: Instant,
}

/// What was dropped, told when it begins and then once a minute as long as it goes on.
#[derive(Default)]
pub(crate) struct Dropped {
    count: AtomicU64,
    told: Mutex<Option<Instant>>,
}

// === impl Bucket ===

impl Bucket {
    /// A plugin's own notes: 100 at once, five more a second.
    pub(crate) fn of_notes() -> Self {
        Self::new(100, Duration::from_millis(200), Instant::now())
    }

    /// The host's notes about a plugin's failures: 20 at once, one more a second.
    pub(crate) fn of_failures() -> Self {
        Self::new(20, Duration::from_secs(1), Instant::now())
    }

    fn new(size: u32, every: Duration, now: Instant) -> Self {
        Self { tokens: size, size, every, filled: now }
    }

    /// Takes a token if there is one.
    pub(crate) fn take(&mut self) -> bool {
        self.take_at(Instant::now())
    }

    fn take_at(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled).as_nanos() / self.every.as_nanos();
        if passed >= u128::from(self.size - self.tokens) {
            self.tokens = self.size;
            self.filled = now;
        } else {
            let more = u32::try_from(passed).expect("it is less than the size");
            self.tokens += more;
            self.filled += self.every * more;
        }
        match self.tokens.checked_sub(1) {
            Some(rest) => {
                self.tokens = rest;
                true
            }
            None => false,
        }
    }
}

// === impl Dropped ===

impl Dropped {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    pub(crate) fn add(&self, plugin: &str, notes: u64) {
        let total = self.count.fetch_add(notes, Relaxed) + notes;
        if self.is_due(Instant::now()) {
            tracing::warn!(plugin, dropped_so_far = total, "dropping notes of a plugin that writes too many");
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let mut told = self.told.lock();
        let due = told.is_none_or(|told| now.saturating_duration_since(told) >= TELL_EVERY);
        if due {
            *told = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_size_at_once_and_then_what_time_fills() {
        let start = Instant::now();
        let mut bucket = Bucket::new(3, Duration::from_secs(1), start);
        let mut taken = |now: Duration, times: u32| (0..times).filter(|_| bucket.take_at(start + now)).count();
        assert_eq!(taken(Duration::ZERO, 10), 3);
        assert_eq!(taken(Duration::from_millis(999), 10), 0);
        assert_eq!(taken(Duration::from_millis(2_500), 10), 2);
        // The half second was not lost.
        assert_eq!(taken(Duration::from_secs(3), 10), 1);
        assert_eq!(taken(Duration::from_hours(1), 10), 3);
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing_and_breaks_nothing() {
        let start = Instant::now();
        let later = start + Duration::from_secs(100);
        let mut bucket = Bucket::new(1, Duration::from_secs(1), later);
        assert!(bucket.take_at(later));
        assert!(!bucket.take_at(start));
    }

    #[test]
    fn dropped_notes_are_told_once_a_minute() {
        let dropped = Dropped::default();
        let start = Instant::now();
        let due = |after: u64| dropped.is_due(start + Duration::from_secs(after));
        assert_eq!([due(0), due(1), due(59), due(60), due(61)], [true, false, false, true, false]);
    }
}
