//! The ValidatingWebhookConfiguration that a configuration needs, told from its watched resources.

use std::collections::{BTreeMap, BTreeSet};

use haptic_model::Finding;
use haptic_store::WatchedResource;
use serde_json::{Value, json};

use crate::config::ConfigObjects;

/// What the API server does with a write about which nobody can say anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It is denied.
    Fail,
    /// It is let through.
    Ignore,
}

/// Where the webhook is, and what the object is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookNames {
    /// Where the controller runs, and what is never judged; `None` = the namespace of its configuration.
    pub namespace: Option<String>,
    /// Of the ValidatingWebhookConfiguration. Default of the command line: `haptic`, with the namespace behind it.
    pub name: Option<String>,
    /// The Service in front of `--webhook-listen`, on its port 443. Default of the command line: `haptic-webhook`.
    pub service: String,
    pub failure_policy: FailurePolicy,
    /// PEM, Base64-encoded; `None` = somebody else writes it.
    pub ca_bundle: Option<String>,
}

/// The object to apply.
#[derive(Clone, Debug)]
pub struct WebhookConfiguration {
    names: WebhookNames,
    namespace: String,
    /// By the namespaces in which they are judged; empty = in all.
    rules: BTreeMap<BTreeSet<String>, BTreeSet<Rule>>,
}

/// Group, plural name, and versions.
type Rule = (String, String, Vec<String>);

/// What is not judged besides the controller's own namespace: a cluster must be able to mend itself.
const NEVER_JUDGED: &str = "kube-system";

// === impl WebhookConfiguration ===

impl WebhookConfiguration {
    /// Tells it from a configuration with its libraries.
    ///
    /// # Errors
    /// Everything that keeps the objects from being a configuration, each with file and line.
    pub fn of(objects: &ConfigObjects, names: WebhookNames) -> Result<Self, Vec<Finding>> {
        let candidate = objects.candidate()?;
        let watched = candidate.resources().map_err(|findings| candidate.sources.all_in_manifests(findings))?;
        let own = objects.configs.first().map(|config| config.namespace.to_string());
        let namespace = names.namespace.clone().or(own).unwrap_or_default();
        Ok(Self { names, namespace, rules: rules(&watched) })
    }

    /// The same configuration gives the same bytes. Without a kind that is judged there are no webhooks in it.
    pub fn manifest(&self) -> Value {
        let name = self.names.name.clone().unwrap_or_else(|| format!("haptic-{}", self.namespace));
        let several = self.rules.len() > 1;
        let webhooks: Vec<Value> = self
            .rules
            .iter()
            .enumerate()
            .map(|(index, (namespaces, rules))| {
                let label =
                    if several { format!("admission-{index}.haptic.rs") } else { "admission.haptic.rs".to_owned() };
                self.webhook(&label, namespaces, rules)
            })
            .collect();
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": name },
            "webhooks": webhooks,
        })
    }

    /// [`Self::manifest`] as a YAML document.
    pub fn yaml(&self) -> String {
        let yaml = serde_norway::to_string(&self.manifest()).expect("manifests are plain data");
        format!("---\n{yaml}")
    }

    fn webhook(&self, name: &str, namespaces: &BTreeSet<String>, rules: &BTreeSet<Rule>) -> Value {
        let key = "kubernetes.io/metadata.name";
        let mut never = vec![self.namespace.as_str(), NEVER_JUDGED];
        never.sort_unstable();
        never.dedup();
        let mut selected = vec![json!({ "key": key, "operator": "NotIn", "values": never })];
        if !namespaces.is_empty() {
            selected.push(json!({ "key": key, "operator": "In", "values": namespaces }));
        }
        let rules: Vec<Value> = rules
            .iter()
            .map(|(group, resources, versions)| {
                json!({
                    "apiGroups": [group],
                    "apiVersions": versions,
                    "resources": [resources],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "scope": "*",
                })
            })
            .collect();
        let mut client = json!({
            "service": {
                "name": self.names.service, "namespace": self.namespace, "path": "/validate", "port": 443,
            },
        });
        if let Some(bundle) = &self.names.ca_bundle {
            client["caBundle"] = bundle.as_str().into();
        }
        json!({
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": client,
            "failurePolicy": self.names.failure_policy.name(),
            "matchPolicy": "Equivalent",
            "namespaceSelector": { "matchExpressions": selected },
            "rules": rules,
            "sideEffects": "None",
            "timeoutSeconds": 10,
        })
    }
}

// === impl FailurePolicy ===

impl FailurePolicy {
    fn name(self) -> &'static str {
        match self {
            Self::Fail => "Fail",
            Self::Ignore => "Ignore",
        }
    }
}

/// Versions in the order in which they are preferred, and namespaces; `None` = all.
type Judged = (Vec<String>, Option<BTreeSet<String>>);

/// Each kind once: where several resources watch it, in all their namespaces and versions.
fn rules(watched: &[WatchedResource]) -> BTreeMap<BTreeSet<String>, BTreeSet<Rule>> {
    // By group and plural name.
    let mut kinds: BTreeMap<(String, String), Judged> = BTreeMap::new();
    for resource in watched.iter().filter(|resource| resource.admission) {
        for api_version in &resource.versions {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let kind = (group.to_owned(), resource.resources.clone());
            let (versions, namespaces) = kinds.entry(kind).or_insert_with(|| (Vec::new(), Some(BTreeSet::new())));
            if !versions.iter().any(|known| known == version) {
                versions.push(version.to_owned());
            }
            if resource.namespaces.is_empty() {
                *namespaces = None;
            }
            if let Some(namespaces) = namespaces {
                namespaces.extend(resource.namespaces.iter().cloned());
            }
        }
    }
    let mut rules: BTreeMap<BTreeSet<String>, BTreeSet<Rule>> = BTreeMap::new();
    for ((group, resources), (versions, namespaces)) in kinds {
        rules.entry(namespaces.unwrap_or_default()).or_default().insert((group, resources, versions));
    }
    rules
}

#[cfg(test)]
mod tests;
