//! A set of wanted resources, followed at the same time; one stream of what changed.

mod board;
mod resource;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use haptic_store::RawChange;
use thiserror::Error;
use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, Id, JoinError, JoinSet},
};

use crate::{
    Api, Backoff, Jitter, Wanted,
    backoff::Failures,
    kinds::{Revision, watch_definitions},
};

pub use board::{ResourceState, States};

pub(crate) use board::{Outlet, SourceClosed};

use board::{Board, Tagged};
use resource::Resource;

/// Follows resources until it is dropped. Its tasks are its own.
pub struct Source {
    api: Api,
    settings: SourceSettings,
    tasks: JoinSet<()>,
    names: HashMap<Id, Arc<str>>,
    followed: BTreeMap<Arc<str>, Followed>,
    sender: mpsc::Sender<Tagged>,
    updates: mpsc::Receiver<Tagged>,
    board: Arc<Board>,
    revision: Arc<Revision>,
    next_task: u64,
}

/// How a source behaves in time.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    pub backoff: Backoff,
    pub jitter: Jitter,
    /// How often to ask again for a resource that is not served, or not in its preferred version. Changes of custom
    /// resource definitions are heard of at once where they may be watched. Default: 30 s.
    pub look_again: Duration,
    /// A resource that is not served any more is taken for gone when it still is not after this time. Default: 2 s.
    pub confirm_absence: Duration,
}

/// What changed in one resource.
#[derive(Clone, Debug)]
pub struct Update {
    /// The name of the watched resource.
    pub resource: Arc<str>,
    /// How its objects differ from what was delivered before; each object at most once, unless it is an increment.
    pub changes: Vec<(RawChange, Effect)>,
    /// From this update on everything of the resource was delivered once; true in one update. It may have no changes.
    pub synced: bool,
}

/// What a change is to the one who gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    Added,
    Changed,
    Removed,
}

#[derive(Debug, Error)]
#[error("following `{resource}` stopped unexpectedly")]
pub struct SourceEnded {
    pub resource: Arc<str>,
    #[source]
    source: JoinError,
}

struct Followed {
    task: u64,
    handle: AbortHandle,
}

// === impl SourceSettings ===

impl SourceSettings {
    /// The defaults of every bound.
    pub fn new(jitter: Jitter) -> Self {
        Self {
            backoff: Backoff::default(),
            jitter,
            look_again: Duration::from_secs(30),
            confirm_absence: Duration::from_secs(2),
        }
    }

    pub(crate) fn failures(&self) -> Failures {
        Failures::new(self.backoff, self.jitter.clone())
    }
}

// === impl Source ===

impl Source {
    /// Starts to follow these resources. Their names must be unique. Must be called in a Tokio runtime.
    pub fn start(api: Api, wanted: impl IntoIterator<Item = Wanted>, settings: SourceSettings) -> Self {
        let (sender, updates) = mpsc::channel(UPDATES);
        let mut source = Self {
            revision: Arc::new(watch::Sender::new(0)),
            board: Arc::new(Board::default()),
            tasks: JoinSet::new(),
            names: HashMap::new(),
            followed: BTreeMap::new(),
            next_task: 0,
            api,
            settings,
            sender,
            updates,
        };
        let definitions =
            watch_definitions(source.api.clone(), source.settings.failures(), Arc::clone(&source.revision));
        let task = source.tasks.spawn(definitions);
        source.names.insert(task.id(), "customresourcedefinitions".into());
        for wanted in wanted {
            source.follow(wanted);
        }
        source
    }

    /// Follows one more resource, or one in another way than before: then its objects are delivered anew.
    pub fn follow(&mut self, wanted: Wanted) {
        let name = Arc::clone(&wanted.spec.name);
        self.forget(&name);
        self.next_task += 1;
        let outlet = Outlet::new(self.next_task, Arc::clone(&name), self.sender.clone(), Arc::clone(&self.board));
        let changed = self.revision.subscribe();
        let resource = Resource::new(self.api.clone(), wanted, self.settings.clone(), outlet, changed);
        self.board.add(&name, self.next_task);
        let handle = self.tasks.spawn(resource.run());
        self.names.insert(handle.id(), Arc::clone(&name));
        self.followed.insert(name, Followed { task: self.next_task, handle });
    }

    /// Stops following a resource. Nothing of it is delivered any more, not even what is on its way.
    pub fn forget(&mut self, name: &str) {
        if let Some(followed) = self.followed.remove(name) {
            followed.handle.abort();
            self.board.remove(name);
        }
    }

    /// The next update. Safe to cancel. While the server has trouble there is none: see [`Self::states`].
    pub async fn next(&mut self) -> Result<Update, SourceEnded> {
        loop {
            tokio::select! {
                Some(tagged) = self.updates.recv() => {
                    let current = self.followed.get(&tagged.update.resource).map(|followed| followed.task);
                    if current == Some(tagged.task) {
                        return Ok(tagged.update);
                    }
                }
                Some(ended) = self.tasks.join_next_with_id() => {
                    let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
                    let resource = self.names.remove(&id);
                    if let (Err(source), Some(resource)) = (ended, resource)
                        && !source.is_cancelled()
                    {
                        return Err(SourceEnded { resource, source });
                    }
                }
            }
        }
    }

    /// Counts up whenever the server may serve other resources than before: custom resource definitions changed. Not told
    /// to who may not watch them.
    pub fn definitions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// How each resource stands. A state may be ahead of the updates that were taken with [`Self::next`].
    pub fn states(&self) -> watch::Receiver<States> {
        self.board.subscribe()
    }
}

/// Updates that wait to be taken; a resource whose update has no place waits with its watch.
const UPDATES: usize = 64;
