//! Notifications of changed paths.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode, CreateKind},
};
use thiserror::Error;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
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
    events: mpsc::Receiver<Heard>,
    /// Folders that are new, and when to look at them again.
    later: BTreeMap<Instant, Notified>,
    /// The channel was full: what did not fit is not known any more.
    overflown: Arc<AtomicBool>,
    _inner: RecommendedWatcher,
}

/// A notification as it comes.
struct Heard {
    notified: Notified,
    new_folder: bool,
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

/// A new folder is told before it is watched: what is written into it in between is told by nobody. So it is looked at
/// again, a second time for a machine that is busy.
const LOOKS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

// === impl Watcher ===

impl Watcher {
    pub(super) fn start(roots: &[PathBuf], targets: &BTreeSet<PathBuf>) -> Result<Self, WatchDirectoryError> {
        let (sender, events) = mpsc::channel(CAPACITY);
        let overflown = Arc::new(AtomicBool::new(false));
        let lost = Arc::clone(&overflown);
        let deliver = move |event: notify::Result<Event>| {
            let new_folder = event.as_ref().is_ok_and(|event| event.kind == EventKind::Create(CreateKind::Folder));
            let Some(notified) = translate(event) else { return };
            if let Err(mpsc::error::TrySendError::Full(_)) = sender.try_send(Heard { notified, new_folder }) {
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
        Ok(Self { events, later: BTreeMap::new(), overflown, _inner: inner })
    }

    /// Waits for changes and takes all that are known by then. `None` when watching has ended. Safe to cancel.
    pub async fn next(&mut self) -> Option<Notified> {
        let due = self.later.keys().next().copied();
        let heard = tokio::select! {
            heard = self.events.recv() => Some(heard?),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => None,
        };
        let mut all = match heard {
            Some(heard) => self.hear(heard),
            None => self.later.pop_first()?.1,
        };
        while let Ok(more) = self.events.try_recv() {
            all = all.and(self.hear(more));
        }
        if self.overflown.swap(false, Ordering::Acquire) {
            // New folders may be among what was lost.
            all = self.hear(Heard { notified: Notified::Everything, new_folder: true });
        }
        Some(all)
    }

    fn hear(&mut self, heard: Heard) -> Notified {
        if heard.new_folder {
            for look in LOOKS {
                let at = Instant::now() + look;
                let known = self.later.remove(&at);
                let all = known.map_or_else(|| heard.notified.clone(), |known| known.and(heard.notified.clone()));
                self.later.insert(at, all);
            }
        }
        heard.notified
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
