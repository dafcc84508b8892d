//! What a render did not find, asked of the API server itself: the store is a moment behind it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use haptic_kubernetes::{Api, Objects};
use haptic_model::SourceLocation;
use haptic_store::{RawChange, RawObject, Read, WatchedResource};
use tokio::{runtime::Handle, task::JoinSet, time::timeout};

/// More is not asked for one verdict.
const MOST_READS: usize = 16;
/// What is not answered by then is taken as not there.
const PATIENCE: Duration = Duration::from_secs(2);

/// Objects as they are now.
pub(crate) trait FreshObjects: Send + Sync {
    /// Those that are there of what was not found, with the names of their resources. Blocks.
    fn read(&self, missing: &[Read]) -> Vec<(Arc<str>, RawChange)>;
}

/// A watched resource as it is read.
#[derive(Clone, Debug)]
pub(crate) struct Pinned {
    pub(crate) resource: WatchedResource,
    /// Group and version.
    pub(crate) api_version: Arc<str>,
}

/// Asks the API server, whatever the store has.
pub(crate) struct ReadFromApi {
    api: Api,
    resources: BTreeMap<Arc<str>, Pinned>,
    runtime: Handle,
}

/// One object that is asked for.
struct Address {
    /// Of the watched resource.
    resource: Arc<str>,
    objects: Objects,
    namespace: Arc<str>,
    name: Arc<str>,
}

// === impl ReadFromApi ===

impl ReadFromApi {
    /// Must be called in a Tokio runtime.
    pub(crate) fn new(api: Api, resources: impl IntoIterator<Item = Pinned>) -> Self {
        let resources = resources.into_iter().map(|pinned| (pinned.resource.name.clone(), pinned)).collect();
        Self { api, resources, runtime: Handle::current() }
    }

    /// The object that such a read can only have meant; `None` if its key is made of something else than its names.
    fn address(&self, read: &Read) -> Option<Address> {
        let Read::Fetch { resource, keys } = read else { return None };
        let Pinned { resource: spec, api_version } = self.resources.get(resource)?;
        let [namespace, name] = &**keys else { return None };
        if !spec.is_indexed_by_names() || namespace.is_empty() || name.is_empty() {
            return None;
        }
        let objects = Objects::in_namespace(&self.api, api_version, &spec.resources, namespace);
        Some(Address { resource: resource.clone(), objects, namespace: namespace.clone(), name: name.clone() })
    }
}

impl FreshObjects for ReadFromApi {
    fn read(&self, missing: &[Read]) -> Vec<(Arc<str>, RawChange)> {
        let asked = missing.iter().filter_map(|read| self.address(read)).take(MOST_READS);
        let mut reads = JoinSet::new();
        for Address { resource, objects, namespace, name } in asked {
            reads.spawn_on(
                async move {
                    let found = timeout(PATIENCE, objects.get(&name)).await.ok()?;
                    let found = found.inspect_err(|error| tracing::debug!(%resource, %error, "reading it anew failed"));
                    let nowhere = SourceLocation { file: "".into(), line: 0, column: 0 };
                    let object = RawObject::new(&found.ok()??, &namespace, nowhere)?;
                    Some((resource, RawChange::Upsert(Arc::new(object))))
                },
                &self.runtime,
            );
        }
        let mut found: Vec<_> = self.runtime.block_on(reads.join_all()).into_iter().flatten().collect();
        found.sort_by_key(|(resource, change)| match change {
            RawChange::Upsert(object) => (resource.clone(), object.key()),
            RawChange::Delete(key) => (resource.clone(), key.clone()),
        });
        found
    }
}
