//! The kinds that tests handle, so that nobody has to ask the server what it serves.

use anyhow::{Context, Result};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

/// A kind of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
}

pub const CLUSTER_ROLE: Kind = everywhere("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
pub const CLUSTER_ROLE_BINDING: Kind =
    everywhere("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings");
pub const CONFIG_MAP: Kind = within("", "v1", "ConfigMap", "configmaps");
pub const CUSTOM_RESOURCE_DEFINITION: Kind =
    everywhere("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
pub const DEPLOYMENT: Kind = within("apps", "v1", "Deployment", "deployments");
pub const ENDPOINT_SLICE: Kind = within("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
pub const EVENT: Kind = within("", "v1", "Event", "events");
pub const HAPROXY_PLUGIN: Kind = within("haptic.rs", "v1alpha1", "HAProxyPlugin", "haproxyplugins");
pub const INGRESS: Kind = within("networking.k8s.io", "v1", "Ingress", "ingresses");
pub const LEASE: Kind = within("coordination.k8s.io", "v1", "Lease", "leases");
pub const NAMESPACE: Kind = everywhere("", "v1", "Namespace", "namespaces");
pub const NODE: Kind = everywhere("", "v1", "Node", "nodes");
pub const POD: Kind = within("", "v1", "Pod", "pods");
pub const ROLE: Kind = within("rbac.authorization.k8s.io", "v1", "Role", "roles");
pub const ROLE_BINDING: Kind = within("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings");
pub const SECRET: Kind = within("", "v1", "Secret", "secrets");
pub const SERVICE: Kind = within("", "v1", "Service", "services");
pub const SERVICE_ACCOUNT: Kind = within("", "v1", "ServiceAccount", "serviceaccounts");
pub const TEMPLATE_CONFIG: Kind = within("haptic.rs", "v1alpha1", "HAProxyTemplateConfig", "haproxytemplateconfigs");
pub const TEMPLATE_LIBRARY: Kind =
    within("haptic.rs", "v1alpha1", "HAProxyTemplateLibrary", "haproxytemplatelibraries");
pub const VALIDATING_WEBHOOK_CONFIGURATION: Kind = everywhere(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
);

const ALL: [Kind; 25] = [
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    within("apps", "v1", "DaemonSet", "daemonsets"),
    DEPLOYMENT,
    ENDPOINT_SLICE,
    EVENT,
    HAPROXY_PLUGIN,
    INGRESS,
    everywhere("networking.k8s.io", "v1", "IngressClass", "ingressclasses"),
    LEASE,
    NAMESPACE,
    within("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    NODE,
    POD,
    within("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    TEMPLATE_CONFIG,
    TEMPLATE_LIBRARY,
    VALIDATING_WEBHOOK_CONFIGURATION,
];

const fn within(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind { group, version, kind, plural, namespaced: true }
}

const fn everywhere(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind { group, version, kind, plural, namespaced: false }
}

/// The definition of a kind `Gadget` of this group, which is served in the versions `v1` and `v1beta1` and takes any
/// fields.
pub fn gadgets(group: &str) -> Value {
    let version = |name: &str| {
        json!({ "name": name, "served": true, "storage": name == "v1", "schema": { "openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        } } })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("gadgets.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": "gadgets", "kind": "Gadget" }, "versions": [version("v1"), version("v1beta1")],
        },
    })
}

// === impl Kind ===

impl Kind {
    /// The kind of an object.
    pub fn of(object: &Value) -> Result<Self> {
        let (api_version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
        let (group, version) = api_version.map_or(("", ""), |it| it.split_once('/').unwrap_or(("", it)));
        let known =
            ALL.into_iter().find(|known| (known.group, known.version, Some(known.kind)) == (group, version, kind));
        known.with_context(|| format!("{api_version:?} {kind:?} is not in the table of kinds: add it there"))
    }

    pub(super) fn resource(&self) -> ApiResource {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(self.group, self.version, self.kind), self.plural)
    }
}
