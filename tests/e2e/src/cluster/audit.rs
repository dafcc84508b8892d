//! What a service account asked of the API server, by its audit log, and what roles allow it.
//!
//! ```text
//! audit.log ─▶ Asked (a request, and whether it was allowed)
//! bindings ─▶ roles ─▶ Right (one verb on one resource, perhaps on one object) ── covers ──▶ Asked
//! ```

use std::{collections::BTreeSet, fmt, fs};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::cluster::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, Cluster, Kind, NAMESPACE, Objects, ROLE, ROLE_BINDING};

/// One thing that was asked for; the same request again is no other one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    pub what: Right,
    /// What authorization said; anything but `true` is a refusal.
    pub allowed: bool,
}

/// One verb on one resource, as a rule of a role allows it or a request asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub verb: String,
    pub group: String,
    /// The plural name, a subresource behind a slash; of a request that is about no resource its path.
    pub resource: String,
    /// Empty = allowed in every one, or asked for outside of all.
    pub namespace: String,
    /// Empty = allowed for every object, or asked for by no name.
    pub name: String,
}

/// A line of the log, as far as it is of use.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: User,
    object_ref: Option<ObjectRef>,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

const DECISION: &str = "authorization.k8s.io/decision";

// === impl Cluster ===

impl Cluster {
    /// Everything that this account has asked for so far.
    pub fn asked_by(&self, namespace: &str, account: &str) -> Result<BTreeSet<Asked>> {
        let path = self.folder().join("logs/audit.log");
        let log = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let username = format!("system:serviceaccount:{namespace}:{account}");
        let mut asked = BTreeSet::new();
        // The last line may still be written.
        for line in log.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let line: Line = serde_json::from_str(line).with_context(|| format!("read `{line}` of the audit log"))?;
            if line.user.username == username {
                asked.insert(line.asked());
            }
        }
        Ok(asked)
    }
}

// === impl Right ===

impl Right {
    /// Whether a rule that allows this allows what is asked for.
    pub fn covers(&self, asked: &Self) -> bool {
        let any_or_same = |allowed: &str, asked: &str| allowed.is_empty() || allowed == asked;
        (&self.verb, &self.group, &self.resource) == (&asked.verb, &asked.group, &asked.resource)
            && any_or_same(&self.namespace, &asked.namespace)
            && any_or_same(&self.name, &asked.name)
    }

    /// Everything that roles allow this account, rule by rule and verb by verb.
    pub async fn all_of(objects: &Objects, namespace: &str, account: &str) -> Result<BTreeSet<Self>> {
        let mut rights = BTreeSet::new();
        for (bindings, kind) in [(CLUSTER_ROLE_BINDING, CLUSTER_ROLE), (ROLE_BINDING, ROLE)] {
            for binding in everywhere(objects, bindings).await? {
                let is_subject = |subject: &Value| {
                    subject["kind"] == "ServiceAccount"
                        && subject["namespace"] == namespace
                        && subject["name"] == account
                };
                if !items(&binding["subjects"]).any(is_subject) {
                    continue;
                }
                let within = binding["metadata"]["namespace"].as_str().unwrap_or_default();
                // A RoleBinding may refer to a ClusterRole; nothing of haptic's does.
                anyhow::ensure!(binding["roleRef"]["kind"] == kind.kind, "{binding}");
                let name = binding["roleRef"]["name"].as_str().context("a binding names a role")?;
                let role = objects.get(kind, within, name).await?;
                items(&role["rules"]).for_each(|rule| rights.extend(Self::of_rule(rule, within)));
            }
        }
        Ok(rights)
    }

    fn of_rule(rule: &Value, namespace: &str) -> Vec<Self> {
        let texts =
            |field: &str| -> Vec<String> { items(&rule[field]).filter_map(Value::as_str).map(str::to_owned).collect() };
        let mut names = texts("resourceNames");
        if names.is_empty() {
            names.push(String::new());
        }
        let mut rights = Vec::new();
        for group in texts("apiGroups") {
            for resource in texts("resources") {
                for name in &names {
                    rights.extend(texts("verbs").into_iter().map(|verb| Self {
                        verb,
                        group: group.clone(),
                        resource: resource.clone(),
                        namespace: namespace.to_owned(),
                        name: name.clone(),
                    }));
                }
            }
        }
        rights
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, namespace, name } = self;
        write!(f, "{verb} {resource}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        write!(f, " {namespace}/{name}")
    }
}

// === impl Line ===

impl Line {
    fn asked(self) -> Asked {
        let allowed = self.annotations.get(DECISION).is_some_and(|decision| decision == "allow");
        let about = self.object_ref.unwrap_or_default();
        let resource = match (about.resource.as_str(), about.subresource.as_str()) {
            ("", _) => self.request_uri.split('?').next().unwrap_or_default().to_owned(),
            (_, "") => about.resource,
            (resource, subresource) => format!("{resource}/{subresource}"),
        };
        let what =
            Right { verb: self.verb, group: about.api_group, resource, namespace: about.namespace, name: about.name };
        Asked { what, allowed }
    }
}

/// Objects of a list are told apart by their names, so every namespace is listed alone.
async fn everywhere(objects: &Objects, kind: Kind) -> Result<Vec<Value>> {
    if !kind.namespaced {
        return objects.list(kind, "", "").await;
    }
    let mut all = Vec::new();
    for namespace in objects.list(NAMESPACE, "", "").await? {
        let namespace = namespace["metadata"]["name"].as_str().unwrap_or_default();
        all.extend(objects.list(kind, namespace, "").await?);
    }
    Ok(all)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_covers_what_it_names_and_nothing_else() {
        let rule =
            json!({ "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get", "watch"] });
        let rights = Right::of_rule(&rule, "edge");
        let asked = |verb: &str, namespace: &str, name: &str| {
            let line = json!({
                "verb": verb, "requestURI": "/", "user": { "username": "somebody" },
                "objectRef": { "resource": "secrets", "namespace": namespace, "name": name },
                "annotations": { (DECISION): "allow" },
            });
            serde_json::from_value::<Line>(line).unwrap().asked().what
        };
        let covered = |asked: &Right| rights.iter().any(|right| right.covers(asked));
        assert!(covered(&asked("get", "edge", "a")) && covered(&asked("watch", "edge", "a")));
        for other in [
            asked("list", "edge", "a"),
            asked("get", "other", "a"),
            asked("get", "edge", "b"),
            asked("get", "edge", ""),
        ] {
            assert!(!covered(&other), "{other}");
        }
    }

    #[test]
    fn what_is_no_resource_is_asked_for_by_its_path_and_silence_is_no_leave() {
        let line = json!({ "verb": "get", "requestURI": "/apis?timeout=1s", "user": { "username": "somebody" } });
        let asked = serde_json::from_value::<Line>(line).unwrap().asked();
        assert_eq!((asked.what.resource.as_str(), asked.allowed), ("/apis", false));
    }
}
