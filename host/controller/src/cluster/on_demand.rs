//! Reads the rest of objects of which the store keeps mere metadata (`store: on-demand`), from the API server.

use std::fmt;

use haptic_kubernetes::{Api, Objects};
use haptic_model::ObjectRef;
use haptic_store::{BodyReader, UnreadableBody, WatchedResource};
use serde_json::Value;
use tokio::runtime::Handle;

use crate::cluster::schema::Resolution;

/// Asks for one object at a time, from the blocking threads on which renders run. The bounds of a request are those of
/// the API client.
pub(crate) struct OnDemandReader {
    api: Api,
    resolution: Resolution,
    runtime: Handle,
}

// === impl OnDemandReader ===

impl OnDemandReader {
    /// Must be called in a Tokio runtime.
    pub(crate) fn new(api: Api, resolution: Resolution) -> Self {
        Self { api, resolution, runtime: Handle::current() }
    }
}

impl fmt::Debug for OnDemandReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnDemandReader").finish_non_exhaustive()
    }
}

impl BodyReader for OnDemandReader {
    fn read(&self, resource: &WatchedResource, object: &ObjectRef) -> Result<Option<Value>, UnreadableBody> {
        let version = self.resolution.version(resource);
        let objects = if object.namespace.is_empty() {
            Objects::in_cluster(&self.api, version, &resource.resources)
        } else {
            Objects::in_namespace(&self.api, version, &resource.resources, &object.namespace)
        };
        self.runtime.block_on(objects.get(&object.name)).map_err(|trouble| {
            let next = if trouble.is_forbidden() {
                "; the service account may not get it: `haptic rbac` prints what it needs"
            } else {
                "; the last good configuration serves until the API server answers"
            };
            UnreadableBody(format!("{trouble}{next}"))
        })
    }
}
