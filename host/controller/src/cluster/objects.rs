//! The kinds that are written, by the names that the API has for them.

use haptic_kubernetes::{Api, Objects};
use haptic_store::RawKey;
use serde_json::Value;

use crate::cluster::{OwnWrites, revise::text};

/// A kind and the resource that holds its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) api_version: &'static str,
    pub(super) name: &'static str,
    pub(super) resources: &'static str,
}

pub(super) const CONFIG: Kind = own("HAProxyTemplateConfig", "haproxytemplateconfigs");
pub(super) const PLUGIN: Kind = own("HAProxyPlugin", "haproxyplugins");
pub(super) const CFG: Kind = own("HAProxyCfg", "haproxycfgs");
pub(super) const MAP_FILE: Kind = own("HAProxyMapFile", "haproxymapfiles");
pub(super) const GENERAL_FILE: Kind = own("HAProxyGeneralFile", "haproxygeneralfiles");
pub(super) const CRT_LIST_FILE: Kind = own("HAProxyCRTListFile", "haproxycrtlistfiles");
pub(super) const INGRESS: Kind = Kind { api_version: "networking.k8s.io/v1", name: "Ingress", resources: "ingresses" };
pub(super) const SERVICE: Kind = Kind { api_version: "v1", name: "Service", resources: "services" };
pub(super) const EVENT: Kind = Kind { api_version: "events.k8s.io/v1", name: "Event", resources: "events" };

/// The namespace of Events about objects that have none.
pub(super) const EVENTS_ABOUT_CLUSTER: &str = "default";

const fn own(name: &'static str, resources: &'static str) -> Kind {
    Kind { api_version: "haptic.rs/v1alpha1", name, resources }
}

// === impl Kind ===

impl Kind {
    pub(super) fn objects(self, api: &Api, namespace: &str) -> Objects {
        Objects::in_namespace(api, self.api_version, self.resources, namespace)
    }
}

/// Remembers that this state of the object is our own work.
pub(super) fn record(own_writes: &OwnWrites, object: &Value) {
    let Some(version) = text(object, "/metadata/resourceVersion") else { return };
    let api_version = text(object, "/apiVersion").unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let of = |pointer| text(object, pointer).unwrap_or_default().into();
    let key = RawKey {
        group: group.into(),
        kind: of("/kind"),
        namespace: of("/metadata/namespace"),
        name: of("/metadata/name"),
    };
    own_writes.wrote(key, version);
}

#[cfg(test)]
mod tests;
