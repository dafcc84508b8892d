//! How many pods are written to at a time.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// As many turns as the newest configuration allows; `None` = everybody's turn is always.
#[derive(Clone, Debug)]
pub(super) struct Turns(Option<Arc<Semaphore>>);

/// The turns of one number, shared by all assignments that were made with it. When the number changes, pods that have
/// their turn by the number before finish beside the first ones of the new.
#[derive(Debug)]
pub(super) struct TurnsOf {
    most: u32,
    turns: Turns,
}

/// It is a pod's turn as long as this lives.
#[derive(Debug)]
pub(super) struct Turn(
    #[expect(dead_code, reason = "it is given back when it is dropped")] Option<OwnedSemaphorePermit>,
);

// === impl TurnsOf ===

impl TurnsOf {
    /// 0 = all at once.
    pub(super) fn of(&mut self, most: u32) -> Turns {
        if most != self.most {
            let most_at_once = usize::try_from(most).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS);
            let turns = Turns((most > 0).then(|| Arc::new(Semaphore::new(most_at_once))));
            *self = Self { most, turns };
        }
        self.turns.clone()
    }
}

impl Default for TurnsOf {
    fn default() -> Self {
        Self { most: 0, turns: Turns(None) }
    }
}

// === impl Turns ===

impl Turns {
    /// Waits for a turn. Safe to cancel, at the price of the place in the line.
    pub(super) async fn next(&self) -> Turn {
        match &self.0 {
            None => Turn(None),
            Some(turns) => Turn(Some(Arc::clone(turns).acquire_owned().await.expect("it is never closed"))),
        }
    }

    /// A turn, if there is one now.
    pub(super) fn now(&self) -> Option<Turn> {
        match &self.0 {
            None => Some(Turn(None)),
            Some(turns) => Arc::clone(turns).try_acquire_owned().ok().map(|turn| Turn(Some(turn))),
        }
    }
}
