//! Grants as objects of Kubernetes.

use serde_json::{Value, json};

use crate::cluster::rbac::{
    AccessNames,
    grants::{Grants, Rule, Scope},
};

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";

/// One that may be bound.
struct Bindable<'a> {
    kind: &'static str,
    name: &'a str,
    namespace: Option<&'a str>,
}

pub(super) fn manifests(namespace: &str, names: &AccessNames, grants: &Grants) -> Vec<Value> {
    let mut manifests = vec![json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": names.service_account, "namespace": namespace },
    })];
    let elsewhere = format!("{}-{namespace}", names.name);
    for scope in grants.scopes() {
        let bindable = match scope {
            Scope::Cluster => Bindable { kind: "ClusterRole", name: &elsewhere, namespace: None },
            Scope::Namespace(own) if own == namespace => {
                Bindable { kind: "Role", name: &names.name, namespace: Some(namespace) }
            }
            Scope::Namespace(other) => Bindable { kind: "Role", name: &elsewhere, namespace: Some(other) },
        };
        let rules: Vec<_> = grants.rules(scope).iter().map(rule).collect();
        manifests.push(json!({
            "apiVersion": API_VERSION,
            "kind": bindable.kind,
            "metadata": bindable.metadata(),
            "rules": rules,
        }));
        manifests.push(json!({
            "apiVersion": API_VERSION,
            "kind": format!("{}Binding", bindable.kind),
            "metadata": bindable.metadata(),
            "roleRef": { "apiGroup": GROUP, "kind": bindable.kind, "name": bindable.name },
            "subjects": [{ "kind": "ServiceAccount", "name": names.service_account, "namespace": namespace }],
        }));
    }
    manifests
}

// === impl Bindable ===

impl Bindable<'_> {
    fn metadata(&self) -> Value {
        match self.namespace {
            Some(namespace) => json!({ "name": self.name, "namespace": namespace }),
            None => json!({ "name": self.name }),
        }
    }
}

fn rule(rule: &Rule) -> Value {
    let mut written = json!({ "apiGroups": [rule.group], "resources": rule.resources });
    if !rule.names.is_empty() {
        written["resourceNames"] = json!(rule.names);
    }
    written["verbs"] = json!(rule.verbs);
    written
}
