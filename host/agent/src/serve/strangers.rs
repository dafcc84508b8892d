//! Who has not proved who he is.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// A bounded number of strangers: one more displaces the one who has stood there longest. So many silent connections
/// never keep out a client that speaks.
#[derive(Clone, Debug)]
pub(super) struct Strangers {
    limit: usize,
    waiting: Arc<Mutex<Waiting>>,
}

/// Until dropped.
#[derive(Debug)]
pub(super) struct Stranger {
    number: u64,
    displaced: CancellationToken,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// Oldest first.
    line: VecDeque<(u64, CancellationToken)>,
}

// === impl Strangers ===

impl Strangers {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, waiting: Arc::default() }
    }

    pub(super) fn admit(&self) -> Stranger {
        let displaced = CancellationToken::new();
        let mut waiting = self.waiting.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.line.push_back((number, displaced.clone()));
        if waiting.line.len() > self.limit
            && let Some((_, oldest)) = waiting.line.pop_front()
        {
            oldest.cancel();
        }
        Stranger { number, displaced, waiting: self.waiting.clone() }
    }
}

// === impl Stranger ===

impl Stranger {
    pub(super) async fn displaced(&self) {
        self.displaced.cancelled().await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.waiting.lock().line.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_too_many_displaces_the_oldest_who_still_waits() {
        let strangers = Strangers::new(2);
        let (first, second) = (strangers.admit(), strangers.admit());
        drop(first);
        let third = strangers.admit();
        assert!(!second.displaced.is_cancelled());
        let fourth = strangers.admit();
        assert!(second.displaced.is_cancelled());
        assert!(!third.displaced.is_cancelled() && !fourth.displaced.is_cancelled());
    }
}
