//! `HAProxyPlugin`: a WebAssembly component, pinned by digest, with its limits.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Bytes, Condition, Duration, rules, schema, status::conditions, templates::is_false};

/// A WebAssembly component that validates output or offers template filters.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "haptic.rs",
    version = "v1alpha1",
    kind = "HAProxyPlugin",
    namespaced,
    status = "HAProxyPluginStatus",
    derive = "PartialEq",
    doc = "A WebAssembly component that validates output or offers template filters.",
    shortname = "hplug",
    category = "haptic",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Contracts", type_ = "string", json_path = ".status.contracts"),
    printcolumn(name = "Policy", type_ = "string", json_path = ".spec.failurePolicy"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::schema(&[&rules::DIGEST, &rules::COSIGN])))]
pub struct HAProxyPluginSpec {
    /// Where the component comes from.
    pub module: PluginModule,
    /// The SHA-256 digest of the component's bytes, 64 lower-case hex digits. Required unless the module is builtin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: Option<String>,
    /// A public key in PEM; the OCI image must carry a cosign signature that it verifies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cosign_key: Option<String>,
    /// The plugin's own configuration.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "schema::free_object")]
    pub config: Map<String, Value>,
    /// What one call may use.
    #[serde(default)]
    pub limits: PluginLimits,
    /// What a failure of the plugin does to what it guards. Default: Fail.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// The component may import nothing but haptic's own interfaces. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pure: bool,
}

/// Where the component comes from: exactly one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::schema(&[&rules::ONE_MODULE])))]
pub struct PluginModule {
    /// An artifact of an OCI registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oci: Option<OciModule>,
    /// A file of an HTTP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpModule>,
    /// A key of a ConfigMap's `binaryData`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapModule>,
    /// A file of the controller's own file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileModule>,
    /// A component that comes with haptic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builtin: Option<BuiltinModule>,
}

/// An artifact of an OCI registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OciModule {
    /// Registry, repository and tag or digest.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// A Secret of type `kubernetes.io/dockerconfigjson` in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub pull_secret: Option<String>,
}

/// A file of an HTTP server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpModule {
    /// An `https://` or `http://` URL.
    #[schemars(length(max = 2048), regex(pattern = r"^https?://"))]
    pub url: String,
}

/// A key of a ConfigMap's `binaryData`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapModule {
    /// The name of the ConfigMap, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key of its `binaryData`.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// A file of the controller's own file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileModule {
    /// An absolute path, or one relative to the manifest's directory.
    #[schemars(length(min = 1, max = 4096))]
    pub path: String,
}

/// A component that comes with haptic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuiltinModule {
    /// The name of a first-party plugin.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// What one call may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginLimits {
    /// How long one call may take. Default: 100ms.
    pub timeout: Duration,
    /// The memory of one instance. Default: 64Mi.
    pub memory: Bytes,
    /// The size of one answer. Default: 1Mi.
    pub output_bytes: Bytes,
}

/// What a failure of a plugin does to what it guards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// It stops it.
    #[default]
    Fail,
    /// It is a warning.
    Ignore,
}

/// What the controller found out about a plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HAProxyPluginStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Fetched, Verified, Compiled and Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// The contracts that the component exports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contracts: Vec<String>,
    /// The version of the WIT package it was built against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wit_generation: Option<String>,
    /// The digest of the bytes that are in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The median cost of one call, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_call_nanos: Option<i64>,
}

// === impl PluginLimits ===

impl Default for PluginLimits {
    fn default() -> Self {
        Self { timeout: Duration::from_millis(100), memory: Bytes::from_mib(64), output_bytes: Bytes::from_mib(1) }
    }
}

// === impl FailurePolicy ===

impl FailurePolicy {
    /// The name as manifests write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "Fail",
            Self::Ignore => "Ignore",
        }
    }
}
