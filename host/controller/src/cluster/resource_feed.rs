//! The feed of an iteration: one task that owns the watches of its resources. Every change goes to the store at once and
//! through the ResourceWatcher's debounce window; the echo of our own status writes goes to the store only.

use std::{collections::BTreeSet, sync::Arc};

use haptic_kubernetes::{Api, Effect, Source, SourceEnded, SourceSettings, States, Update};
use haptic_model::ObjectRef;
use haptic_store::{Changed, RawChange, Store, WatchedResource};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    bus::EventBus,
    clock::until,
    cluster::{own_writes::OwnWrites, schema::Resolution},
    core::ActiveCore,
    events::{Change, ChangedObject, Event, ResourceChange},
    watcher::ResourceWatcher,
};

pub(crate) struct ResourceFeed {
    source: Source,
    watcher: ResourceWatcher,
    /// Resources whose complete first list has yet to come.
    unread: BTreeSet<Arc<str>>,
}

// === impl ResourceFeed ===

impl ResourceFeed {
    /// Starts to watch. Must be called in a Tokio runtime.
    pub(crate) fn start(
        api: Api,
        resources: &[WatchedResource],
        resolution: &Resolution,
        settings: SourceSettings,
    ) -> Self {
        let mut watcher = ResourceWatcher::default();
        watcher.configure(resources.iter().map(|resource| (resource.name.clone(), resource.debounce)));
        let unread = resources.iter().map(|resource| resource.name.clone()).collect();
        let source = Source::start(api, resources.iter().map(|resource| resolution.pinned(resource)), settings);
        Self { source, watcher, unread }
    }

    /// How each resource stands.
    pub(crate) fn states(&self) -> watch::Receiver<States> {
        self.source.states()
    }

    /// Changes when the server may serve other resources.
    pub(crate) fn definitions(&self) -> watch::Receiver<u64> {
        self.source.definitions()
    }

    /// Fills the store until every resource was read completely once. Safe to cancel.
    pub(crate) async fn wait_for_all_sync(&mut self, store: &mut Store) -> Result<(), SourceEnded> {
        while !self.unread.is_empty() {
            let update = self.source.next().await?;
            apply(store, &update);
            if update.synced {
                tracing::debug!(resource = %update.resource, "synced");
                self.unread.remove(&update.resource);
            }
        }
        Ok(())
    }

    /// Ends when it is told to stop.
    ///
    /// # Errors
    /// When a task of the source ended.
    pub(crate) async fn run(
        mut self,
        bus: Arc<EventBus>,
        core: ActiveCore,
        own_writes: OwnWrites,
        stop: CancellationToken,
    ) -> Result<(), SourceEnded> {
        loop {
            let due = self.watcher.due();
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                update = self.source.next() => {
                    let update = update?;
                    let changed = apply(&mut core.get().store.lock(), &update);
                    self.announce(&bus, &update, &changed, &own_writes);
                }
                () = until(due) => self.watcher.publish_due(&bus),
            }
        }
    }

    fn announce(&mut self, bus: &EventBus, update: &Update, changed: &Changed, own_writes: &OwnWrites) {
        if changed.is_empty() {
            return;
        }
        for (change, effect) in &update.changes {
            let object = match change {
                RawChange::Upsert(object) if own_writes.made(object) => continue,
                RawChange::Upsert(object) => object.reference(),
                RawChange::Delete(key) => {
                    ObjectRef { kind: key.kind.clone(), namespace: key.namespace.clone(), name: key.name.clone() }
                }
            };
            if changed.objects.contains(&object) {
                let change = match effect {
                    Effect::Added => Change::Added,
                    Effect::Changed => Change::Changed,
                    Effect::Removed => Change::Removed,
                };
                self.watcher.changed(bus, &update.resource, ChangedObject { object, change });
            }
        }
    }
}

/// Tells the bus, which is not started yet, what was read. It triggers nothing: IndexSynchronized does.
pub(crate) fn announce_initial_sync(bus: &EventBus, store: &Store) {
    let snapshot = store.snapshot();
    for resource in store.resources() {
        let total = snapshot.count(&resource.name);
        let change = ResourceChange {
            resource: resource.name.clone(),
            initial_sync: true,
            objects: Vec::new(),
            total,
            since: Instant::now(),
        };
        bus.publish(Event::ResourceIndexUpdated { correlation: bus.correlate(), change });
    }
}

fn apply(store: &mut Store, update: &Update) -> Changed {
    let changes: Vec<RawChange> = update.changes.iter().map(|(change, _)| change.clone()).collect();
    store.apply(&update.resource, &changes).expect("the source follows the store's resources")
}
