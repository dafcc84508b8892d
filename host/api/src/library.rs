//! `HAProxyTemplateLibrary`: templates that configurations share.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Condition, FileTemplate, MapTemplate, TemplateText, ValidationTest, WatchedResource, schema, status::conditions,
    templates::Named,
};

/// A library of templates that a configuration refers to by name and revision. Later libraries win over earlier
/// ones, the configuration over all.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "haptic.rs",
    version = "v1alpha1",
    kind = "HAProxyTemplateLibrary",
    plural = "haproxytemplatelibraries",
    namespaced,
    status = "HAProxyTemplateLibraryStatus",
    derive = "PartialEq",
    doc = "Templates that configurations share.",
    shortname = "htpllib",
    category = "haptic",
    printcolumn(name = "Revision", type_ = "string", json_path = ".spec.revision"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct HAProxyTemplateLibrarySpec {
    /// The revision that configurations pin. A new text has a new revision.
    #[schemars(length(min = 1, max = 63))]
    pub revision: String,
    /// Templates that others include, by name.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub template_snippets: Named<TemplateText>,
    /// Map files by file name.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub maps: Named<MapTemplate>,
    /// General files by file name.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub files: Named<FileTemplate>,
    /// Certificates by file name; each renders to PEM text.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub ssl_certificates: Named<TemplateText>,
    /// Certificate lists by file name.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub crt_lists: Named<TemplateText>,
    /// The main configuration, for a library that brings it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub haproxy_config: Option<TemplateText>,
    /// The resources that the templates of this library read.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub watched_resources: Named<WatchedResource>,
    /// Defaults of the configuration's `extraContext`, which is merged over them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "schema::free_object")]
    pub extra_context: Map<String, Value>,
    /// Tests of these templates by name.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub validation_tests: Named<ValidationTest>,
}

/// What the controller found out about a library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HAProxyTemplateLibraryStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is true of the library now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}
