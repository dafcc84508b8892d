use std::time::Duration;

use tokio::{
    sync::{Mutex, MutexGuard},
    time::{Instant, MissedTickBehavior, interval, timeout},
};

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(5);
/// Longer than anything that works takes on a busy machine with two cores.
const BOUND: Duration = Duration::from_secs(30);

static TURN: Mutex<()> = Mutex::const_new(());

/// The machine for oneself, as far as other tests of the same file go: for tests that measure time under load.
pub async fn exclusive() -> MutexGuard<'static, ()> {
    TURN.lock().await
}

/// Waits until `condition` answers, and panics after 30 seconds, saying what never came.
pub async fn eventually<T>(what: &str, condition: impl AsyncFnMut() -> Option<T>) -> T {
    within(BOUND, what, condition).await.0
}

/// Waits until `condition` answers, and says after how long; panics when the bound is over.
pub async fn within<T>(bound: Duration, what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> (T, Duration) {
    let start = Instant::now();
    let waiting = async {
        let mut ticks = interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Some(value) = condition().await {
                return value;
            }
        }
    };
    match timeout(bound, waiting).await {
        Ok(value) => (value, start.elapsed()),
        Err(elapsed) => panic!("waited {bound:?} in vain ({elapsed}) for: {what}"),
    }
}
