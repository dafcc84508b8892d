//! Notifications of changed paths.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};
use thiserror::Error;
use tokio::sync::mpsc;
use tracing::warn;

/// What may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notified {
    /// These paths and what is below them.
    Paths(BTreeSet<PathBuf>),
    /// Notifications were lost.
    Everything,
}

/// Reports changes as long as it lives.
pub struct Watcher {
    events: mpsc::Receiver<Notified>,
    /// The channel was full: what did not fit is not known any more.
    overflown: Arc<AtomicBool>,
    _inner: RecommendedWatcher,
}

#[derive(Debug, Error)]
#[error("watching `{path}` for changes failed; raise fs.inotify.max_user_watches if the limit is reached")]
pub struct WatchDirectoryError {
    path: PathBuf,
    #[source]
    source: notify::Error,
}

/// Notifications that wait to be taken; more of them become [`Notified::Everything`].
const CAPACITY: usize = 256;

// === impl Watcher ===

impl Watcher {
    pub(super) fn start(roots: &[PathBuf], targets: &BTreeSet<PathBuf>) -> Result<Self, WatchDirectoryError> {
        let (sender, events) = mpsc::channel(CAPACITY);
        let overflown = Arc::new(AtomicBool::new(false));
        let lost = Arc::clone(&overflown);
        let deliver = move |event: notify::Result<Event>| {
            let Some(notified) = translate(event) else { return };
            if let Err(mpsc::error::TrySendError::Full(_)) = sender.try_send(notified) {
                lost.store(true, Ordering::Release);
            }
        };
        let failed = |path: &PathBuf| {
            let path = path.clone();
            move |source| WatchDirectoryError { path, source }
        };
        let first = roots.first().cloned().unwrap_or_default();
        let mut inner = notify::recommended_watcher(deliver).map_err(failed(&first))?;
        for root in roots {
            inner.watch(root, RecursiveMode::Recursive).map_err(failed(root))?;
        }
        for target in targets {
            inner.watch(target, RecursiveMode::NonRecursive).map_err(failed(target))?;
        }
        Ok(Self { events, overflown, _inner: inner })
    }

    /// Waits for changes and takes all that are known by then. `None` when watching has ended. Safe to cancel.
    pub async fn next(&mut self) -> Option<Notified> {
        let mut all = self.events.recv().await?;
        while let Ok(more) = self.events.try_recv() {
            all = all.and(more);
        }
        if self.overflown.swap(false, Ordering::Acquire) {
            all = Notified::Everything;
        }
        Some(all)
    }
}

// === impl Notified ===

impl Notified {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Paths(mut paths), Self::Paths(more)) => {
                paths.extend(more);
                Self::Paths(paths)
            }
            _ => Self::Everything,
        }
    }
}

fn translate(event: notify::Result<Event>) -> Option<Notified> {
    let event = match event {
        Ok(event) => event,
        Err(error) => {
            warn!(%error, "watching a directory failed; everything is read again");
            return Some(Notified::Everything);
        }
    };
    if event.need_rescan() {
        return Some(Notified::Everything);
    }
    match event.kind {
        // Our own reading.
        EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write) => None,
        _ if event.paths.is_empty() => None,
        _ => Some(Notified::Paths(event.paths.into_iter().collect())),
    }
}
