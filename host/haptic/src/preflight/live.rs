//! Objects as a cluster has them now, read once.

use std::{collections::BTreeSet, fmt, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use haptic_kubernetes::{
    Access, Api, Jitter, Limits, ResourceState, Source, SourceSettings, States, Trouble, Update, Wanted, connect,
};
use haptic_model::{Finding, FindingCode};
use haptic_store::{RawChange, Store, WatchedResource};
use tokio::time::{Instant, timeout_at};

/// The cluster, and how long it may take.
pub(super) struct Live {
    pub(super) kubeconfig: PathBuf,
    pub(super) context: Option<String>,
    pub(super) patience: Duration,
}

/// One watched resource, as a line for a person.
pub(super) struct ResourceLine {
    name: Arc<str>,
    /// In which version it was read, or why it was not.
    how: String,
    objects: usize,
}

// === impl Live ===

impl Live {
    /// Fills the store. What keeps a resource from being read is a finding, as the controller would wait for it.
    pub(super) fn read(
        &self,
        resources: &[WatchedResource],
        store: &mut Store,
    ) -> anyhow::Result<(Vec<ResourceLine>, Vec<Finding>)> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(self.reading(resources, store))
    }

    async fn reading(
        &self,
        resources: &[WatchedResource],
        store: &mut Store,
    ) -> anyhow::Result<(Vec<ResourceLine>, Vec<Finding>)> {
        let access = Access::Kubeconfig { path: self.kubeconfig.clone(), context: self.context.clone() };
        let client = connect(&access, self.patience).await.context("connecting to the API server")?;
        // Whole objects, also of what the controller would read on demand.
        let wanted = resources.iter().cloned().map(Wanted::whole);
        let mut source =
            Source::start(Api::new(client, Limits::default()), wanted, SourceSettings::new(Jitter::random()));
        let mut states = source.states();
        let deadline = Instant::now() + self.patience;
        let mut open: BTreeSet<Arc<str>> = resources.iter().map(|resource| Arc::clone(&resource.name)).collect();
        while !open.is_empty() {
            let heard = timeout_at(deadline, async {
                tokio::select! {
                    update = source.next() => update.map(Some),
                    changed = states.changed() => { changed.ok(); Ok(None) }
                }
            });
            let Ok(heard) = heard.await else { break };
            if let Some(update) = heard.context("reading the objects")? {
                apply(store, &update);
                if update.synced {
                    open.remove(&update.resource);
                }
            }
            let states = states.borrow_and_update().clone();
            open.retain(|name| !states.get(name).is_some_and(given_up));
        }
        let states = states.borrow().clone();
        let findings = resources.iter().filter_map(|resource| why_not(resource, &states)).collect();
        Ok((resources.iter().map(|resource| ResourceLine::of_cluster(resource, &states, store)).collect(), findings))
    }
}

/// Waiting on would change nothing.
fn given_up(state: &ResourceState) -> bool {
    let for_good = |trouble: &Trouble| match trouble {
        Trouble::Missing { .. } | Trouble::OtherKind { .. } | Trouble::Unwatchable { .. } => true,
        other => other.is_refused_for_good(),
    };
    state.is_absent() || state.trouble().is_some_and(|trouble| for_good(trouble))
}

fn why_not(resource: &WatchedResource, states: &States) -> Option<Finding> {
    let state = states.get(&resource.name)?;
    if state.is_synced() || state.is_absent() {
        return None;
    }
    let why = state.trouble().map_or_else(|| "it was not read in time".to_owned(), ToString::to_string);
    let message = format!("watchedResources.{} cannot be read: {why}", resource.name);
    let hint = "let the user of the kubeconfig read it; a kind that may be absent is `optional: true`";
    Some(Finding::error(FindingCode::ConfigInvalid, message).hint(hint))
}

fn apply(store: &mut Store, update: &Update) {
    let changes: Vec<RawChange> = update.changes.iter().map(|(change, _)| change.clone()).collect();
    store.apply(&update.resource, &changes).expect("the source follows the store's resources");
}

// === impl ResourceLine ===

impl ResourceLine {
    pub(super) fn of_dump(resource: &WatchedResource, store: &Store) -> Self {
        Self { name: resource.name.clone(), how: resource.versions.join(" or "), objects: count(resource, store) }
    }

    fn of_cluster(resource: &WatchedResource, states: &States, store: &Store) -> Self {
        let state = states.get(&resource.name);
        let how = match state.and_then(ResourceState::served) {
            Some(served) => served.api_version.to_string(),
            None if state.is_some_and(ResourceState::is_absent) => "not served, and optional".to_owned(),
            None => "not read".to_owned(),
        };
        Self { name: resource.name.clone(), how, objects: count(resource, store) }
    }
}

impl fmt::Display for ResourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} objects ({})", self.name, self.objects, self.how)
    }
}

fn count(resource: &WatchedResource, store: &Store) -> usize {
    store.snapshot().count(&resource.name)
}
