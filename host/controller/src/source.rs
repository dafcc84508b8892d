//! Where objects come from, so that a cluster can take the place of a directory.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use haptic_model::Finding;
use haptic_store::{DirectorySource, Notified, RawChange, RawKey, RawObject, Scan, WatchDirectoryError, Watcher};
use thiserror::Error;
use tokio::task::{JoinError, JoinHandle};

use crate::{agent_port::BoxFuture, events::Change};

/// Delivers a complete first picture, and then what changes.
pub trait Source: Send {
    /// Everything that is there now; the changes that [`Self::next`] delivers start from it.
    fn first(&mut self) -> BoxFuture<'_, Result<SourceUpdate, SourceError>>;

    /// The next changes. Safe to cancel.
    fn next(&mut self) -> BoxFuture<'_, Result<SourceUpdate, SourceError>>;
}

#[derive(Clone, Debug, Default)]
pub struct SourceUpdate {
    pub changes: Vec<(RawChange, Change)>,
    /// All that is wrong with what was read, now.
    pub findings: Vec<Finding>,
}

#[derive(Debug, Error)]
pub enum SourceError {
    #[error("watching the directories failed")]
    Watch(#[from] WatchDirectoryError),
    #[error("the watch of the directories ended")]
    WatchEnded,
    #[error("reading the directories stopped unexpectedly")]
    Read(#[source] JoinError),
}

/// Manifests in directories.
pub struct Directories {
    /// `None` only while a scan runs on a blocking thread.
    source: Option<DirectorySource>,
    watcher: Option<Watcher>,
    /// The scan that runs.
    scan: Option<JoinHandle<(DirectorySource, Scan)>>,
    known: BTreeSet<RawKey>,
}

/// All objects by identity: what a new store is filled from.
#[derive(Clone, Debug, Default)]
pub struct Picture(BTreeMap<RawKey, Arc<RawObject>>);

// === impl Directories ===

impl Directories {
    pub fn open(dirs: &[PathBuf]) -> Result<Self, haptic_store::OpenDirectoryError> {
        let source = DirectorySource::open(dirs.iter().cloned())?;
        Ok(Self { source: Some(source), watcher: None, scan: None, known: BTreeSet::new() })
    }

    async fn look(&mut self, notified: Option<Notified>) -> Result<SourceUpdate, SourceError> {
        let mut source = self.source.take().ok_or(SourceError::WatchEnded)?;
        self.scan = Some(tokio::task::spawn_blocking(move || {
            let scan = match notified {
                None => source.scan(),
                Some(notified) => source.rescan(&notified),
            };
            (source, scan)
        }));
        self.looked().await
    }

    /// The result of the scan that runs. A caller that was cancelled while it ran finds it here.
    async fn looked(&mut self) -> Result<SourceUpdate, SourceError> {
        let running = self.scan.as_mut().ok_or(SourceError::WatchEnded)?;
        let scanned = running.await;
        self.scan = None;
        let (source, scan) = scanned.map_err(SourceError::Read)?;
        self.source = Some(source);
        let changes = scan.changes.into_iter().map(|change| {
            let kind = match &change {
                RawChange::Delete(key) => {
                    self.known.remove(key);
                    Change::Removed
                }
                RawChange::Upsert(object) if self.known.insert(object.key()) => Change::Added,
                RawChange::Upsert(_) => Change::Changed,
            };
            (change, kind)
        });
        Ok(SourceUpdate { changes: changes.collect(), findings: scan.findings })
    }
}

impl Source for Directories {
    fn first(&mut self) -> BoxFuture<'_, Result<SourceUpdate, SourceError>> {
        Box::pin(async move {
            let source = self.source.as_ref().ok_or(SourceError::WatchEnded)?;
            // Watching first: what changes between the two is seen twice rather than never.
            self.watcher = Some(source.watch()?);
            self.look(None).await
        })
    }

    fn next(&mut self) -> BoxFuture<'_, Result<SourceUpdate, SourceError>> {
        Box::pin(async move {
            if self.scan.is_some() {
                return self.looked().await;
            }
            let watcher = self.watcher.as_mut().ok_or(SourceError::WatchEnded)?;
            let notified = watcher.next().await.ok_or(SourceError::WatchEnded)?;
            self.look(Some(notified)).await
        })
    }
}

// === impl Picture ===

impl Picture {
    pub fn take(&mut self, changes: &[(RawChange, Change)]) {
        for (change, _) in changes {
            match change {
                RawChange::Upsert(object) => {
                    self.0.insert(object.key(), object.clone());
                }
                RawChange::Delete(key) => {
                    self.0.remove(key);
                }
            }
        }
    }

    pub fn objects(&self) -> impl Iterator<Item = &Arc<RawObject>> {
        self.0.values()
    }

    /// The whole picture as changes to nothing.
    pub fn as_changes(&self) -> Vec<RawChange> {
        self.0.values().cloned().map(RawChange::Upsert).collect()
    }
}
