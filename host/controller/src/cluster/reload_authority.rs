//! The ReloadAuthority: why the running iteration is to be replaced, and by what. Each iteration has one from its
//! beginning; a request during the start-up cancels its waits, one while it serves is recorded and it goes on serving.
//!
//! The snapshot of an accepted candidate is handed out once: a successor that fails takes live state for its next
//! attempt. A newer parsed configuration retires the older candidate with its reason; credentials and schema stay
//! pending.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::cluster::accepted::AcceptedSnapshot;

/// Why an iteration is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReloadReason {
    /// A candidate was accepted.
    Config,
    /// The reference to the credentials changed. New content of the same Secret is taken over live.
    Credentials,
    /// A watched resource is served in another version.
    Schema,
}

/// What to build a successor from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reload<Snapshot> {
    pub reasons: BTreeSet<ReloadReason>,
    /// `None` = from live state.
    pub snapshot: Option<Box<Snapshot>>,
}

#[derive(Debug)]
pub(crate) struct ReloadAuthority<Snapshot = AcceptedSnapshot> {
    state: Mutex<State<Snapshot>>,
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct State<Snapshot> {
    pending: BTreeSet<ReloadReason>,
    accepted: Option<Box<Snapshot>>,
}

// === impl ReloadAuthority ===

impl<Snapshot> ReloadAuthority<Snapshot> {
    /// A newer configuration was parsed: an older candidate that was accepted is none any more. Says whether there was
    /// one.
    pub(crate) fn parsed(&self) -> bool {
        let retired = {
            let mut state = self.state.lock();
            state.accepted = None;
            state.pending.remove(&ReloadReason::Config)
        };
        self.tell();
        retired
    }

    /// The newest candidate passed.
    pub(crate) fn accepted(&self, snapshot: Snapshot) {
        let mut state = self.state.lock();
        state.accepted = Some(Box::new(snapshot));
        state.pending.insert(ReloadReason::Config);
        drop(state);
        self.tell();
    }

    pub(crate) fn schema_changed(&self) {
        self.request(ReloadReason::Schema);
    }

    pub(crate) fn credentials_changed(&self) {
        self.request(ReloadReason::Credentials);
    }

    /// Another reference was taken back before anybody acted on it.
    pub(crate) fn credentials_restored(&self) {
        self.state.lock().pending.remove(&ReloadReason::Credentials);
        self.tell();
    }

    /// Waits for a reason and takes all of them, with the snapshot. Safe to cancel.
    pub(crate) async fn next(&self) -> Reload<Snapshot> {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if let Some(reload) = self.take() {
                return reload;
            }
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Changes when anything was said: a newer candidate was parsed or accepted, or another reason came.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// A snapshot was resolved with the schema of its time: when that changed, live state is resolved anew.
    fn take(&self) -> Option<Reload<Snapshot>> {
        let State { pending, accepted } = &mut *self.state.lock();
        if pending.is_empty() {
            return None;
        }
        let (reasons, accepted) = (std::mem::take(pending), accepted.take());
        let snapshot = accepted.filter(|_| !reasons.contains(&ReloadReason::Schema));
        Some(Reload { reasons, snapshot })
    }

    fn request(&self, reason: ReloadReason) {
        let new = self.state.lock().pending.insert(reason);
        if new {
            self.tell();
        }
    }

    fn tell(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

impl<Snapshot> Default for ReloadAuthority<Snapshot> {
    fn default() -> Self {
        let state = State { pending: BTreeSet::new(), accepted: None };
        Self { state: Mutex::new(state), changed: watch::Sender::new(0) }
    }
}

#[cfg(test)]
mod tests;
