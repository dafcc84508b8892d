//! One watched resource: which objects belong to it, what is removed from them, and the key they are found by.

use std::{fmt::Display, str::FromStr, sync::Arc};

use haptic_api as api;
use haptic_model::{Finding, FindingCode};
use serde_json::Value;

use crate::{FieldSelector, JsonPath, LabelSelector, RawKey, RawObject};

/// A checked [`api::WatchedResource`] with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchedResource {
    /// `resources.NAME` in templates.
    pub name: Arc<str>,
    /// Group and version, the preferred one first; never empty.
    pub versions: Vec<String>,
    /// The plural name, such as `ingresses`.
    pub resources: String,
    /// The kind if the configuration says it; otherwise it is told from the plural name.
    pub kind: Option<String>,
    /// Empty = namespace and name.
    pub index_by: Vec<JsonPath>,
    /// Those of this resource and those of all.
    pub ignore_fields: Vec<JsonPath>,
    pub label_selector: LabelSelector,
    pub field_selector: FieldSelector,
    /// Empty = all.
    pub namespaces: Vec<String>,
    pub debounce: std::time::Duration,
    pub optional: bool,
    /// Writes of its objects are judged before they are stored.
    pub admission: bool,
    pub store: api::StorePolicy,
}

// === impl WatchedResource ===

impl WatchedResource {
    /// Checks a resource of a configuration; `ignore_fields` are those of all resources. Every mistake is a finding
    /// that names the resource.
    pub fn new(name: &str, spec: &api::WatchedResource, ignore_fields: &[String]) -> Result<Self, Vec<Finding>> {
        let mut mistakes = Mistakes { resource: name, findings: Vec::new() };
        let index_by: Vec<JsonPath> = mistakes.parse_all("indexBy", &spec.index_by);
        for path in index_by.iter().filter(|path| !path.is_single()) {
            mistakes.report("indexBy", format_args!("`{path}` can lead to several values; an index needs one"));
        }
        let mut ignored = mistakes.parse_all("ignoreFields", &spec.ignore_fields);
        ignored.extend(mistakes.parse_all::<JsonPath>("watchedResourcesIgnoreFields", ignore_fields));
        let resource = Self {
            name: name.into(),
            versions: spec.versions().map(str::to_owned).collect(),
            resources: spec.resources.clone(),
            kind: spec.kind.clone(),
            index_by,
            ignore_fields: ignored,
            label_selector: mistakes.parse("labelSelector", spec.label_selector.as_deref()),
            field_selector: mistakes.parse("fieldSelector", spec.field_selector.as_deref()),
            namespaces: spec.namespaces.clone(),
            debounce: spec.debounce_interval.get(),
            optional: spec.optional,
            admission: spec.enable_validation_webhook,
            store: spec.store,
        };
        if resource.store == api::StorePolicy::OnDemand {
            for path in resource.index_by.iter().filter(|path| !path.is_of_metadata()) {
                mistakes.report(
                    "indexBy",
                    format_args!("`{path}` is no metadata, and `store: on-demand` keeps nothing else"),
                );
            }
            for path in resource.field_selector.paths().filter(|path| !path.is_of_metadata()) {
                mistakes.report(
                    "fieldSelector",
                    format_args!("`{path}` is no metadata, and `store: on-demand` keeps nothing else"),
                );
            }
        }
        if resource.versions.is_empty() {
            mistakes.report("apiVersion", "it is missing");
        }
        if mistakes.findings.is_empty() { Ok(resource) } else { Err(mistakes.findings) }
    }

    /// Whether a key of the index is a namespace and a name.
    pub fn is_indexed_by_names(&self) -> bool {
        let fields: Option<Vec<String>> = self.index_by.iter().map(JsonPath::dotted).collect();
        fields.is_some_and(|fields| fields.is_empty() || fields == ["metadata.namespace", "metadata.name"])
    }

    /// How many components a key has.
    pub fn arity(&self) -> usize {
        if self.index_by.is_empty() { 2 } else { self.index_by.len() }
    }

    /// Whether objects of this version and kind belong here.
    pub fn serves(&self, api_version: &str, kind: &str) -> bool {
        self.versions.iter().any(|version| version == api_version) && self.is_kind(kind)
    }

    /// Whether these are its objects, in whatever version.
    pub fn is_of(&self, group: &str, resources: &str) -> bool {
        self.resources == resources && self.versions.iter().any(|version| group_of(version) == group)
    }

    /// Whether objects with this key belong here in some version.
    pub(crate) fn serves_key(&self, key: &RawKey) -> bool {
        self.is_kind(&key.kind) && self.versions.iter().any(|version| *group_of(version) == *key.group)
    }

    /// Whether the selectors take this object.
    pub fn selects(&self, namespace: &str, object: &Value) -> bool {
        (self.namespaces.is_empty() || self.namespaces.iter().any(|allowed| allowed == namespace))
            && self.label_selector.matches(object)
            && self.field_selector.matches(object)
    }

    /// Whether this object belongs here: version, kind and selectors.
    pub fn owns(&self, object: &RawObject) -> bool {
        self.serves(&object.api_version, &object.kind) && self.selects(&object.namespace, &object.value())
    }

    /// Removes what is never stored.
    pub(crate) fn prune(&self, object: &mut Value) {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
            // It differs after every write, also after one of a field that is ignored.
            metadata.remove("resourceVersion");
            if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            }
        }
        for path in &self.ignore_fields {
            path.remove(object);
        }
    }

    /// The kind to assume for an object that does not say it.
    pub(crate) fn assumed_kind(&self) -> String {
        self.kind.clone().unwrap_or_else(|| kind_of(&self.resources))
    }

    fn is_kind(&self, kind: &str) -> bool {
        self.kind.as_ref().map_or_else(|| plural_of(kind) == self.resources, |expected| expected == kind)
    }
}

struct Mistakes<'a> {
    resource: &'a str,
    findings: Vec<Finding>,
}

// === impl Mistakes ===

impl Mistakes<'_> {
    fn parse_all<T: FromStr<Err: Display>>(&mut self, field: &str, texts: &[String]) -> Vec<T> {
        let mut parsed = Vec::new();
        for text in texts {
            match text.parse() {
                Ok(value) => parsed.push(value),
                Err(error) => self.report(field, error),
            }
        }
        parsed
    }

    fn parse<T: FromStr<Err: Display> + Default>(&mut self, field: &str, text: Option<&str>) -> T {
        match text.unwrap_or_default().parse() {
            Ok(value) => value,
            Err(error) => {
                self.report(field, error);
                T::default()
            }
        }
    }

    fn report(&mut self, field: &str, what: impl Display) {
        let message = format!("watched resource `{}`, {field}: {what}", self.resource);
        self.findings.push(Finding::error(FindingCode::ConfigInvalid, message));
    }
}

/// The group of a version; empty for the core group.
fn group_of(version: &str) -> &str {
    version.split_once('/').map_or("", |(group, _)| group)
}

/// The plural name of a kind, as Kubernetes forms it.
fn plural_of(kind: &str) -> String {
    let singular = kind.to_ascii_lowercase();
    let consonant = |c: char| !matches!(c, 'a' | 'e' | 'i' | 'o' | 'u');
    if singular == "endpoints" {
        return singular;
    }
    if let Some(stem) = singular.strip_suffix('y')
        && stem.ends_with(consonant)
    {
        return format!("{stem}ies");
    }
    let sibilant = ["s", "x", "z", "ch", "sh"].into_iter().any(|end| singular.ends_with(end));
    singular + if sibilant { "es" } else { "s" }
}

/// A kind with this plural name; of a kind whose words cannot be told apart only the first letter is a capital.
fn kind_of(plural: &str) -> String {
    const KNOWN: [&str; 19] = [
        "BackendTLSPolicy",
        "ConfigMap",
        "CronJob",
        "DaemonSet",
        "Endpoints",
        "EndpointSlice",
        "GatewayClass",
        "GRPCRoute",
        "HTTPRoute",
        "IngressClass",
        "NetworkPolicy",
        "PersistentVolume",
        "ReferenceGrant",
        "ReplicaSet",
        "ServiceAccount",
        "StatefulSet",
        "TCPRoute",
        "TLSRoute",
        "UDPRoute",
    ];
    if let Some(kind) = KNOWN.into_iter().find(|kind| plural_of(kind) == plural) {
        return kind.to_owned();
    }
    let singulars = [
        plural.strip_suffix("ies").map(|stem| format!("{stem}y")),
        plural.strip_suffix("es").map(str::to_owned),
        plural.strip_suffix('s').map(str::to_owned),
    ];
    let singular = singulars.into_iter().flatten().find(|singular| plural_of(singular) == plural);
    let singular = singular.unwrap_or_else(|| plural.to_owned());
    let mut letters = singular.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

#[cfg(test)]
mod tests;
