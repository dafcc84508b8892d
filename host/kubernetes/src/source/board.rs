//! What is known about each followed resource, and the way of its updates.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::sync::{mpsc, watch};

use crate::{Served, Trouble, Update, known::Changes};

/// How each followed resource stands, by its name.
pub type States = Arc<BTreeMap<Arc<str>, ResourceState>>;

/// How one resource stands.
#[derive(Clone, Debug, Default)]
pub struct ResourceState {
    /// Of the task that follows it; only that one may say how it stands.
    task: u64,
    served: Option<Arc<Served>>,
    absent: bool,
    synced: bool,
    /// Namespaces whose list did not come yet; `None` = all.
    pending: BTreeSet<Scope>,
    troubles: BTreeMap<Scope, Arc<Trouble>>,
    /// Why it is not known whether and how the resource is served.
    unresolved: Option<Arc<Trouble>>,
}

#[derive(Default)]
pub(crate) struct Board(watch::Sender<States>);

/// Where one resource's updates go.
#[derive(Clone)]
pub(crate) struct Outlet {
    task: u64,
    resource: Arc<str>,
    sender: mpsc::Sender<Tagged>,
    board: Arc<Board>,
}

/// An update and the task that sent it.
pub(crate) struct Tagged {
    pub(crate) task: u64,
    pub(crate) update: Update,
}

/// A place for one update.
pub(crate) struct Delivery<'a> {
    outlet: &'a Outlet,
    permit: mpsc::Permit<'a, Tagged>,
}

/// The source was dropped.
#[derive(Debug)]
pub(crate) struct SourceClosed;

type Scope = Option<Arc<str>>;

// === impl ResourceState ===

impl ResourceState {
    /// In which version it is followed; `None` while that is not known, or if it is not served.
    pub fn served(&self) -> Option<&Arc<Served>> {
        self.served.as_ref()
    }

    /// The optional resource is not served.
    pub fn is_absent(&self) -> bool {
        self.absent
    }

    /// Everything of it was delivered once.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// Why it may not be up to date; what was delivered stays good meanwhile.
    pub fn trouble(&self) -> Option<&Arc<Trouble>> {
        self.unresolved.as_ref().or_else(|| self.troubles.values().next())
    }

    fn settle(&mut self) -> bool {
        let first = self.pending.is_empty() && !self.synced;
        self.synced |= first;
        first
    }
}

// === impl Board ===

impl Board {
    pub(crate) fn subscribe(&self) -> watch::Receiver<States> {
        self.0.subscribe()
    }

    /// The resource is followed by this task from now on.
    pub(crate) fn add(&self, name: &Arc<str>, task: u64) {
        self.0.send_modify(|states| {
            Arc::make_mut(states).insert(Arc::clone(name), ResourceState { task, ..ResourceState::default() });
        });
    }

    pub(crate) fn remove(&self, name: &str) {
        self.0.send_modify(|states| {
            Arc::make_mut(states).remove(name);
        });
    }
}

// === impl Outlet ===

impl Outlet {
    pub(crate) fn new(task: u64, resource: Arc<str>, sender: mpsc::Sender<Tagged>, board: Arc<Board>) -> Self {
        Self { task, resource, sender, board }
    }

    pub(crate) fn resource(&self) -> &str {
        &self.resource
    }

    /// A resource that was forgotten meanwhile stays forgotten, and the state of another task is not ours: an aborted
    /// task runs on to its next wait.
    fn change<T: Default>(&self, change: impl FnOnce(&mut ResourceState) -> T) -> T {
        let mut result = T::default();
        self.board.0.send_if_modified(|states| {
            if states.get(&self.resource).is_none_or(|state| state.task != self.task) {
                return false;
            }
            let state = Arc::make_mut(states).get_mut(&self.resource).expect("it was looked up");
            result = change(state);
            true
        });
        result
    }

    /// Waits for a place. Only then may what is known be changed: who is cancelled while waiting has changed nothing.
    pub(crate) async fn reserve(&self) -> Result<Delivery<'_>, SourceClosed> {
        let permit = self.sender.reserve().await.map_err(|_| SourceClosed)?;
        Ok(Delivery { outlet: self, permit })
    }

    /// The resource is followed in this version from now on.
    pub(crate) fn resolved(&self, served: &Arc<Served>, namespaces: impl Iterator<Item = Scope>) {
        tracing::info!(resource = %self.resource, api_version = %served.api_version, kind = %served.kind, "following");
        self.change(|state| {
            state.served = Some(Arc::clone(served));
            state.absent = false;
            state.pending = namespaces.collect();
            state.troubles.clear();
            state.unresolved = None;
        });
    }

    /// Why it is not known now how the resource is served; `None` = it is.
    pub(crate) fn unresolved(&self, trouble: Option<Trouble>) {
        let trouble = trouble.map(Arc::new);
        let before = self
            .change(|state| std::mem::replace(&mut state.unresolved, trouble.clone()).map(|before| before.to_string()));
        if let Some(trouble) = &trouble
            && before != Some(trouble.to_string())
        {
            let error: &(dyn std::error::Error + 'static) = trouble;
            tracing::warn!(resource = %self.resource, error, "the resource cannot be followed");
        }
    }

    pub(crate) fn trouble(&self, namespace: Option<&Arc<str>>, trouble: Trouble, pause: Duration) {
        let trouble = Arc::new(trouble);
        let error: &(dyn std::error::Error + 'static) = &trouble;
        let namespace_name = namespace.map_or("", |namespace| namespace);
        let first = self.change(|state| state.troubles.insert(namespace.cloned(), Arc::clone(&trouble)).is_none());
        let resource = &self.resource;
        if first {
            let namespace = namespace_name;
            tracing::warn!(%resource, namespace, error, ?pause, "following has trouble; the last good objects stay");
        } else {
            tracing::debug!(%resource, namespace = namespace_name, error, ?pause, "following still has trouble");
        }
    }

    pub(crate) fn recovered(&self, namespace: Option<&Arc<str>>) {
        let had = self.board.0.borrow().get(&self.resource).is_some_and(|state| !state.troubles.is_empty());
        // Most watches that are opened were not preceded by trouble.
        if had && self.change(|state| state.troubles.remove(&namespace.cloned()).is_some()) {
            let namespace = namespace.map_or("", |namespace| namespace);
            tracing::info!(resource = %self.resource, namespace, "following goes on");
        }
    }
}

// === impl Delivery ===

impl Delivery<'_> {
    pub(crate) fn resource(&self) -> &str {
        &self.outlet.resource
    }

    /// The difference that a complete list of one scope makes.
    pub(crate) fn list(self, namespace: Option<&Arc<str>>, changes: Changes) {
        self.outlet.recovered(namespace);
        let synced = self.outlet.change(|state| {
            state.pending.remove(&namespace.cloned());
            state.settle()
        });
        self.send(changes, synced);
    }

    pub(crate) fn increment(self, changes: Changes) {
        self.send(changes, false);
    }

    /// The resource is not served: its objects are gone with it.
    pub(crate) fn absent(self, changes: Changes) {
        let resource = &self.outlet.resource;
        tracing::info!(%resource, objects = changes.len(), "the resource is not served");
        let synced = self.outlet.change(|state| {
            *state = ResourceState { task: state.task, absent: true, synced: state.synced, ..ResourceState::default() };
            state.settle()
        });
        self.send(changes, synced);
    }

    fn send(self, changes: Changes, synced: bool) {
        if !changes.is_empty() || synced {
            let update = Update { resource: Arc::clone(&self.outlet.resource), changes, synced };
            self.permit.send(Tagged { task: self.outlet.task, update });
        }
    }
}

#[cfg(test)]
mod tests;
