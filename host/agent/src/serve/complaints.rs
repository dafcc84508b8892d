//! Complaints about strangers, in a number that strangers do not decide.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// One complaint in this time; the others are counted.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Complaints(Mutex<Option<Said>>);

#[derive(Debug)]
struct Said {
    at: Instant,
    withheld: u64,
}

// === impl Complaints ===

impl Complaints {
    /// How many were withheld since the last one; `None` = withhold this one too.
    pub(super) fn next(&self) -> Option<u64> {
        let mut last = self.0.lock();
        let now = Instant::now();
        if let Some(said) = last.as_mut().filter(|said| now < said.at + EVERY) {
            said.withheld += 1;
            return None;
        }
        let withheld = last.replace(Said { at: now, withheld: 0 }).map_or(0, |said| said.withheld);
        Some(withheld)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn says_one_a_second_and_counts_the_others() {
        let complaints = Complaints::default();
        assert_eq!((complaints.next(), complaints.next(), complaints.next()), (Some(0), None, None));
        tokio::time::advance(EVERY).await;
        assert_eq!(complaints.next(), Some(2));
    }
}
