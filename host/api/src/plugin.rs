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
    /// The mean cost of one call, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_call_nanos: Option<i64>,
}

/// The conditions of a plugin, in the order in which they come true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PluginConditionType {
    /// The bytes are here.
    Fetched,
    /// They are the pinned ones, and signed if `cosignKey` asks for it.
    Verified,
    /// They are a component that this host runs.
    Compiled,
    /// It took its config, and guards what it is to guard.
    Ready,
}

/// Why a condition of a plugin is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PluginReason {
    /// The condition is true.
    Succeeded,
    /// The module comes with haptic, and needs neither fetching nor a pin.
    BuiltIn,
    /// The condition is true, and a key of cosign vouches for the image.
    SignatureVerified,
    /// An earlier condition is not true yet.
    Pending,
    /// The first attempt to fetch the module is not over.
    Fetching,
    /// There is no `sha256`; nothing was asked for.
    NotPinned,
    /// The image reference, the URL or the path is not one.
    InvalidSource,
    /// The pull secret is missing or is no `kubernetes.io/dockerconfigjson`.
    InvalidPullSecret,
    /// Nobody answers: name resolution, connection or TLS failed, or the connection broke.
    Unreachable,
    /// The time for the whole fetch was over.
    TimedOut,
    /// There is no such image, tag, URL, file, ConfigMap, key or built-in plugin.
    NotFound,
    /// The server wants credentials, or does not take these.
    Unauthorized,
    /// The server answered with an error of its own, or with what cannot be understood.
    ServerError,
    /// A redirect changes the scheme, or there are too many of them.
    RedirectRefused,
    /// The module is larger than what is loaded.
    TooLarge,
    /// What is there is no Wasm artifact.
    WrongMediaType,
    /// The bytes are others than the pinned ones.
    DigestMismatch,
    /// `cosignKey` is not a public key that can be used.
    InvalidKey,
    /// The image carries no signature.
    SignatureMissing,
    /// No signature of the image is one that the key made for it.
    SignatureInvalid,
    /// The module came, but could not be kept on disk.
    CacheFailed,
    /// The bytes are no component that this host can compile.
    NotAComponent,
    /// The host will not compile it, because that would cost too much.
    TooCostly,
    /// What compiles plugins did not start, or ended early.
    CompilerFailed,
    /// It imports what no plugin may import, or more than a pure one may.
    ImportsRefused,
    /// It is built for another generation of the contract.
    WrongGeneration,
    /// It exports none of the contracts, or one with another type.
    NoContract,
    /// It refuses its config.
    ConfigRefused,
    /// It declares a filter against the contract.
    DeclarationRefused,
    /// It trapped or hit a limit when it was tried out.
    StartFailed,
    /// The configuration uses it for what it cannot do, or twice.
    UseRefused,
}

// === impl PluginConditionType ===

impl PluginConditionType {
    /// All, in order.
    pub const ALL: [Self; 4] = [Self::Fetched, Self::Verified, Self::Compiled, Self::Ready];
}

impl std::fmt::Display for PluginConditionType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

// === impl PluginReason ===

impl PluginReason {
    /// All, in the order of the documentation.
    pub const ALL: [Self; 31] = [
        Self::Succeeded,
        Self::BuiltIn,
        Self::SignatureVerified,
        Self::Pending,
        Self::Fetching,
        Self::NotPinned,
        Self::InvalidSource,
        Self::InvalidPullSecret,
        Self::Unreachable,
        Self::TimedOut,
        Self::NotFound,
        Self::Unauthorized,
        Self::ServerError,
        Self::RedirectRefused,
        Self::TooLarge,
        Self::WrongMediaType,
        Self::DigestMismatch,
        Self::InvalidKey,
        Self::SignatureMissing,
        Self::SignatureInvalid,
        Self::CacheFailed,
        Self::NotAComponent,
        Self::TooCostly,
        Self::CompilerFailed,
        Self::ImportsRefused,
        Self::WrongGeneration,
        Self::NoContract,
        Self::ConfigRefused,
        Self::DeclarationRefused,
        Self::StartFailed,
        Self::UseRefused,
    ];
}

impl std::fmt::Display for PluginReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The table of reasons that users read is that of the code: a reason is added in both or in neither.
    #[test]
    fn the_documentation_names_every_reason_and_no_other() {
        let text = include_str!("../../plugins/docs/sources.md");
        let (_, table) = text.split_once("| reason | what it means | what to do |").unwrap_or_default();
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let named: BTreeSet<String> = rows.filter_map(|row| Some(row.split('`').nth(1)?.to_owned())).collect();
        let known: BTreeSet<String> = PluginReason::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(named, known);
    }
}
