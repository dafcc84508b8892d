//! What a controller must be allowed to do in a cluster, told from its configuration: no rule has a wildcard, and none
//! names what the configuration does not.
//!
//! Watching by `fieldSelector: metadata.name` is allowed by `resourceNames`, so single Secrets, ConfigMaps and the Lease
//! are granted by name. Only `create` cannot be: an object that is not there has no name to compare.
//!
//! ```text
//! ConfigObjects ─▶ Grants (by scope) ─▶ ServiceAccount, Roles, ClusterRole and their bindings
//! ```

mod grants;
mod objects;

use haptic_api as api;
use haptic_model::{Finding, FindingCode};
use haptic_store::{FieldSelector, RawObject, WatchedResource};
use serde_json::Value;

use crate::{
    cluster::{certificates::CertificateNames, objects::EVENTS_ABOUT_CLUSTER},
    config::ConfigObjects,
};

use grants::{Grants, Scope, Verbs};

/// Who is allowed, and what the objects are called that say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessNames {
    /// Where the controller runs; `None` = in the namespace of its configuration.
    pub namespace: Option<String>,
    /// Its ServiceAccount. Default of the command line: `haptic`.
    pub service_account: String,
    /// Of the Role and its binding. Those in other namespaces and of the cluster have the namespace behind it, so that
    /// two controllers never share one. Default of the command line: `haptic`.
    pub name: String,
    /// `None` = the controller issues no certificates.
    pub certificates: Option<CertificateNames>,
}

/// Everything that must be allowed, and for whom.
#[derive(Clone, Debug)]
pub struct Access {
    namespace: String,
    names: AccessNames,
    grants: Grants,
}

const PUBLISHED: [&str; 4] = ["haproxycfgs", "haproxycrtlistfiles", "haproxygeneralfiles", "haproxymapfiles"];

/// Kinds without a namespace that a configuration may watch: a list of namespaces does not limit them, and a Role cannot
/// allow them. By group and plural name.
const WITHOUT_NAMESPACE: [(&str, &str); 13] = [
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumes"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("certificates.k8s.io", "clustertrustbundles"),
    ("gateway.networking.k8s.io", "gatewayclasses"),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "ipaddresses"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "storageclasses"),
];

// === impl Access ===

impl Access {
    /// Tells it from a configuration with its libraries and plugins.
    ///
    /// # Errors
    /// Everything that keeps the objects from being a configuration, each with file and line.
    pub fn of(objects: &ConfigObjects, names: AccessNames) -> Result<Self, Vec<Finding>> {
        let candidate = objects.candidate()?;
        let watched = candidate.resources().map_err(|findings| candidate.sources.all_in_manifests(findings))?;
        // A candidate is made of exactly one.
        let Some(config) = objects.configs.first() else {
            return Err(vec![Finding::error(FindingCode::ConfigInvalid, "there is no HAProxyTemplateConfig")]);
        };
        let namespace = names.namespace.clone().unwrap_or_else(|| config.namespace.to_string());
        let spec = config.decode::<api::HAProxyTemplateConfig>()?.spec;
        let mut grants = Grants::default();
        let own = Scope::Namespace(namespace.clone());
        own_kinds(&mut grants, &own, &config.name);
        attached(&mut grants, &own, &objects.plugins);
        if let Some(secret) = &spec.credentials_secret_ref {
            let scope = secret.namespace.clone().map_or_else(|| own.clone(), Scope::Namespace);
            grants.named(&scope, "", "secrets", Verbs::FOLLOW, &secret.name);
        }
        if let Some(certificates) = &names.certificates {
            keep(&mut grants, &own, certificates);
        }
        grants.all(&own, "", "pods", Verbs::FOLLOW);
        lease(&mut grants, &own, &spec.controller.leader_election);
        grants.all(&own, "events.k8s.io", "events", Verbs::REPORT);
        // To hear at once of kinds that come, change and go.
        grants.all(&Scope::Cluster, "apiextensions.k8s.io", "customresourcedefinitions", Verbs::FOLLOW);
        let status = ingress_status(&config.value());
        let uses = Uses {
            admission: watched.iter().any(|resource| resource.admission),
            ingress_status: status.is_some(),
            events_everywhere: watched.iter().any(is_everywhere),
        };
        for resource in &watched {
            watch(&mut grants, resource, uses);
        }
        if let Some(service) = status.and_then(|status| status.service) {
            let scope = service.namespace.map_or(own, Scope::Namespace);
            grants.named(&scope, "", "services", Verbs::GET, &service.name);
        }
        Ok(Self { namespace, names, grants })
    }

    /// The objects to apply, in an order in which they can be applied; the same configuration gives the same bytes.
    pub fn manifests(&self) -> Vec<Value> {
        objects::manifests(&self.namespace, &self.names, &self.grants)
    }

    /// [`Self::manifests`] as YAML documents.
    pub fn yaml(&self) -> String {
        let documents = self.manifests().into_iter().map(|object| {
            let yaml = serde_norway::to_string(&object).expect("manifests are plain data");
            format!("---\n{yaml}")
        });
        documents.collect()
    }
}

/// For what watched objects are asked for besides being followed.
#[derive(Clone, Copy, Debug)]
struct Uses {
    /// Some writes are judged. What a judged object names and the store does not have yet is read at once.
    admission: bool,
    /// Ingresses get a status.
    ingress_status: bool,
    /// Some objects with a namespace are watched in all of them, so Events are made in all of them.
    events_everywhere: bool,
}

/// Ingresses get a status.
struct IngressStatus {
    service: Option<PublishService>,
}

/// A Service whose addresses become the status of Ingresses.
struct PublishService {
    name: String,
    namespace: Option<String>,
}

/// haptic's own kinds: what people write is read and gets a status, what is published is the controller's.
fn own_kinds(grants: &mut Grants, own: &Scope, config: &str) {
    let group = api::GROUP;
    grants.named(own, group, "haproxytemplateconfigs", Verbs::GET, config);
    grants.named(own, group, "haproxytemplateconfigs", Verbs::FOLLOW, config);
    grants.named(own, group, "haproxytemplateconfigs/status", Verbs::PATCH, config);
    // What is published is owned by the configuration and blocks its deletion in the foreground.
    grants.named(own, group, "haproxytemplateconfigs/finalizers", Verbs::UPDATE, config);
    grants.all(own, group, "haproxytemplatelibraries", Verbs::FOLLOW);
    grants.all(own, group, "haproxyplugins", Verbs::GET);
    grants.all(own, group, "haproxyplugins", Verbs::FOLLOW);
    grants.all(own, group, "haproxyplugins/status", Verbs::PATCH);
    for resource in PUBLISHED {
        grants.all(own, group, resource, Verbs::PUBLISH);
    }
    // How pods stand is told there and not on the files, of which several configurations may be made.
    grants.all(own, group, "haproxycfgs/status", Verbs::PATCH);
}

/// Secrets and ConfigMaps that plugins name, whether the configuration uses the plugin or not: all are followed.
fn attached<'a>(grants: &mut Grants, own: &Scope, plugins: impl IntoIterator<Item = &'a std::sync::Arc<RawObject>>) {
    for plugin in plugins {
        let value = plugin.value();
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
        if let Some(name) = text("/spec/module/oci/pullSecret") {
            grants.named(own, "", "secrets", Verbs::FOLLOW, name);
        }
        if let Some(name) = text("/spec/module/configMap/name") {
            grants.named(own, "", "configmaps", Verbs::FOLLOW, name);
        }
    }
}

/// Secrets that are filled and renewed, and who is told to trust what is in them. None of them is made.
fn keep(grants: &mut Grants, own: &Scope, names: &CertificateNames) {
    for secret in names.secrets() {
        for verbs in [Verbs::GET, Verbs::FOLLOW, Verbs::UPDATE] {
            grants.named(own, "", "secrets", verbs, secret);
        }
    }
    if let Some(configuration) = names.configuration() {
        let (group, resource) = ("admissionregistration.k8s.io", "validatingwebhookconfigurations");
        grants.named(&Scope::Cluster, group, resource, Verbs::CORRECT, configuration);
    }
}

fn lease(grants: &mut Grants, own: &Scope, election: &api::LeaderElection) {
    let group = "coordination.k8s.io";
    grants.all(own, group, "leases", Verbs::CREATE);
    grants.named(own, group, "leases", Verbs::HOLD, &election.lease_name);
}

fn watch(grants: &mut Grants, resource: &WatchedResource, uses: Uses) {
    if resource.admission && resource.versions.len() > 1 {
        // A write may come in another version than templates read: its definition says whether fields differ.
        for group in resource.versions.iter().map(|version| group_of(version)).filter(|group| group.contains('.')) {
            let name = format!("{}.{group}", resource.resources);
            grants.named(&Scope::Cluster, "apiextensions.k8s.io", "customresourcedefinitions", Verbs::GET, &name);
        }
    }
    for group in resource.versions.iter().map(|version| group_of(version)) {
        let without_namespace = WITHOUT_NAMESPACE.contains(&(group, resource.resources.as_str()));
        let has_status =
            uses.ingress_status && (group, resource.resources.as_str()) == ("networking.k8s.io", "ingresses");
        // A judge asks for what templates read by namespace and name.
        let judged = uses.admission && resource.is_indexed_by_names() && !without_namespace;
        let single = judged || has_status || resource.store == api::StorePolicy::OnDemand;
        let scopes = if resource.namespaces.is_empty() || without_namespace {
            vec![Scope::Cluster]
        } else {
            resource.namespaces.iter().cloned().map(Scope::Namespace).collect()
        };
        for scope in scopes {
            for verbs in [Some(Verbs::FOLLOW), single.then_some(Verbs::GET)].into_iter().flatten() {
                match only_name(&resource.field_selector) {
                    Some(name) => grants.named(&scope, group, &resource.resources, verbs, &name),
                    None => grants.all(&scope, group, &resource.resources, verbs),
                }
            }
            // Events stand in the namespace of the object that they are about; those about an object without one here.
            let of_events = match (without_namespace, uses.events_everywhere) {
                (false, _) => scope.clone(),
                (true, true) => Scope::Cluster,
                (true, false) => Scope::Namespace(EVENTS_ABOUT_CLUSTER.to_owned()),
            };
            grants.all(&of_events, "events.k8s.io", "events", Verbs::REPORT);
            if has_status {
                grants.all(&scope, group, "ingresses/status", Verbs::PATCH);
            }
        }
    }
}

/// Of an `apiVersion`; empty = the core group.
fn group_of(version: &str) -> &str {
    version.split_once('/').map_or("", |(group, _)| group)
}

/// Whether objects with a namespace are watched in all of them.
fn is_everywhere(resource: &WatchedResource) -> bool {
    let with_namespace =
        |version: &String| !WITHOUT_NAMESPACE.contains(&(group_of(version), resource.resources.as_str()));
    resource.namespaces.is_empty() && resource.versions.iter().any(with_namespace)
}

/// The one name that a selector of fields allows.
fn only_name(selector: &FieldSelector) -> Option<String> {
    selector.server_requirements().find_map(|(path, requirement)| {
        let name = requirement.strip_prefix("metadata.name=")?;
        (path == "metadata.name" && !name.is_empty()).then(|| name.to_owned())
    })
}

/// `None` = they get none.
fn ingress_status(config: &Value) -> Option<IngressStatus> {
    let status = config.pointer("/spec/controller/ingressStatus").filter(|status| status.is_object())?;
    let text = |key: &str| status["publishService"][key].as_str().map(str::to_owned);
    Some(IngressStatus { service: text("name").map(|name| PublishService { name, namespace: text("namespace") }) })
}

#[cfg(test)]
mod tests;
