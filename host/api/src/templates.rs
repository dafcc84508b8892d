//! What a configuration and a library have in common: templates and the resources they read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Duration, rules};

/// One template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateText {
    /// Jinja text.
    pub template: String,
}

/// The template of a map file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MapTemplate {
    /// Jinja text.
    pub template: String,
    /// The position of an entry matters, as for `map_reg`, `map_dom` and `map_sub`. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ordered: bool,
}

/// The template of a general file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileTemplate {
    /// Jinja text.
    pub template: String,
    /// HAProxy reads this file only when it loads, so a change of it needs a reload. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reload_on_change: bool,
}

/// One kind of Kubernetes resource that templates read as `resources.NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::schema(&[&rules::API_VERSION])))]
pub struct WatchedResource {
    /// Group and version, such as `v1` or `networking.k8s.io/v1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub api_version: Option<String>,
    /// Group and versions of the same kind in order of preference; the first one that is served is watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 253)))]
    pub api_versions: Vec<String>,
    /// The plural name of the resource, such as `ingresses`.
    #[schemars(length(min = 1, max = 63))]
    pub resources: String,
    /// The kind, such as `Ingress`. Default: found from the plural name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: Option<String>,
    /// JSONPath expressions, one per component of the key under which templates find an object. Default: namespace
    /// and name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 1024)))]
    pub index_by: Vec<String>,
    /// Only objects with these labels: `key=value`, `key==value`, `key!=value`, `key`, `!key`, `key in (a,b)`,
    /// `key notin (a,b)`, several with commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub label_selector: Option<String>,
    /// Only objects whose fields have these values: `path=value` or `path!=value`, several with commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub field_selector: Option<String>,
    /// Only objects of these namespaces. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(min = 1, max = 63)))]
    pub namespaces: Vec<String>,
    /// Whether whole objects are kept in memory. Default: full.
    #[serde(default)]
    pub store: StorePolicy,
    /// How long changes of this resource coalesce after a first one that passes at once. Default: 100ms; `0` = not
    /// at all.
    #[serde(default = "default_debounce")]
    pub debounce_interval: Duration,
    /// JSONPath expressions of fields that are removed before an object is stored, besides those of
    /// `watchedResourcesIgnoreFields`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 1024)))]
    pub ignore_fields: Vec<String>,
    /// The kind may be missing from the cluster and may appear later. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
    /// Changes of these objects are validated at admission. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub enable_validation_webhook: bool,
}

/// Whether whole objects are kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StorePolicy {
    /// Whole objects, pruned.
    #[default]
    Full,
    /// Only metadata; an object is read when a template asks for it.
    OnDemand,
}

/// Named templates.
pub(crate) type Named<T> = BTreeMap<String, T>;

// === impl WatchedResource ===

impl WatchedResource {
    /// Every group and version under which the kind may be served, the preferred one first.
    pub fn versions(&self) -> impl Iterator<Item = &str> {
        self.api_version.iter().chain(&self.api_versions).map(String::as_str)
    }
}

pub(crate) fn default_debounce() -> Duration {
    Duration::from_millis(100)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub(crate) fn is_false(value: &bool) -> bool {
    !value
}
