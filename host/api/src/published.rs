//! The published output: `HAProxyCfg`, `HAProxyMapFile`, `HAProxyGeneralFile`, `HAProxyCRTListFile`.
//!
//! The controller writes these objects, people read them. Private keys are never published.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, status::conditions, templates::is_false};

/// What is deployed to one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodDeploymentStatus {
    /// The name of the pod.
    pub pod_name: String,
    /// When the applied plan was acknowledged, as an RFC 3339 time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed_at: Option<String>,
    /// The plan whose files the pod has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_plan: Option<String>,
    /// The plan that its HAProxy worker runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_plan: Option<String>,
    /// How the last change arrived: `runtime`, `file_only` or `reload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Why the last reload was needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reload_reasons: Vec<String>,
    /// When HAProxy was last reloaded, as an RFC 3339 time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reload_at: Option<String>,
    /// The last error, if the last deployment failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When that error was first seen, as an RFC 3339 time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_first_seen_at: Option<String>,
    /// How many deployments failed one after the other.
    #[serde(default)]
    pub consecutive_errors: u32,
}

/// Names an object that was published together with the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishedObject {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

/// All objects that were published together with a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AuxiliaryFiles {
    /// `HAProxyMapFile` objects.
    pub map_files: Vec<PublishedObject>,
    /// Secrets with certificates.
    pub ssl_certificates: Vec<PublishedObject>,
    /// `HAProxyGeneralFile` objects.
    pub general_files: Vec<PublishedObject>,
    /// `HAProxyCRTListFile` objects.
    pub crt_list_files: Vec<PublishedObject>,
}

/// A rendered file that is deployed and not published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WithheldFile {
    /// The path below the base directory of the file set.
    pub path: String,
    /// Why it is not published.
    pub reason: WithheldReason,
}

/// Why a rendered file is not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum WithheldReason {
    /// It is a certificate, which HAProxy wants together with its private key.
    Certificate,
    /// A private key stands in it.
    PrivateKey,
    /// It is not text.
    Binary,
    /// It is too large, compressed and in parts.
    TooLarge,
}

/// The rendered main configuration.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "haptic.rs",
    version = "v1alpha1",
    kind = "HAProxyCfg",
    namespaced,
    status = "HAProxyCfgStatus",
    derive = "PartialEq",
    doc = "The rendered main configuration.",
    shortname = "hpcfg",
    category = "haptic",
    printcolumn(name = "Checksum", type_ = "string", json_path = ".spec.checksum"),
    printcolumn(name = "Synced", type_ = "string", json_path = ".status.conditions[?(@.type=='Synced')].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct HAProxyCfgSpec {
    /// The path below the base directory of the file set.
    pub path: String,
    /// The identity of the whole render: this text and every file that belongs to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The text. Passwords in it are replaced by `***`.
    pub content: String,
    /// The SHA-256 digest of the content before compression.
    pub checksum: String,
    /// The content is compressed with zstd and written in base64. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub compressed: bool,
    /// Which part of the content this object holds, from 1; the parts' texts joined in order are the whole. Left out
    /// where one object holds it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub part: Option<i32>,
    /// How many parts there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub parts: Option<i32>,
}

/// Where the configuration is deployed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HAProxyCfgStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is true of it now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// One entry per HAProxy pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["podName"]))]
    pub deployed_to_pods: Vec<PodDeploymentStatus>,
    /// The objects that were published together with it.
    #[serde(default)]
    pub auxiliary_files: AuxiliaryFiles,
    /// Files that are deployed and not published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld_files: Vec<WithheldFile>,
    /// Why the render was refused; only on the object that keeps the last refused one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_error: Option<String>,
}

/// A rendered map file.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "haptic.rs",
    version = "v1alpha1",
    kind = "HAProxyMapFile",
    namespaced,
    status = "HAProxyMapFileStatus",
    derive = "PartialEq",
    doc = "A rendered map file.",
    shortname = "hpmap",
    category = "haptic",
    printcolumn(name = "Checksum", type_ = "string", json_path = ".spec.checksum"),
    printcolumn(name = "Synced", type_ = "string", json_path = ".status.conditions[?(@.type=='Synced')].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct HAProxyMapFileSpec {
    /// The name of the map in the configuration.
    pub map_name: String,
    /// The path below the base directory of the file set.
    pub path: String,
    /// The text, one entry a line.
    pub entries: String,
    /// The SHA-256 digest of the content before compression.
    pub checksum: String,
    /// The content is compressed with zstd and written in base64. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub compressed: bool,
    /// Which part of the content this object holds, from 1; the parts' texts joined in order are the whole. Left out
    /// where one object holds it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub part: Option<i32>,
    /// How many parts there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub parts: Option<i32>,
}

/// Where the file is deployed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HAProxyMapFileStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is true of it now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// One entry per HAProxy pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["podName"]))]
    pub deployed_to_pods: Vec<PodDeploymentStatus>,
}

/// A rendered general file.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "haptic.rs",
    version = "v1alpha1",
    kind = "HAProxyGeneralFile",
    namespaced,
    status = "HAProxyGeneralFileStatus",
    derive = "PartialEq",
    doc = "A rendered general file.",
    shortname = "hpgf",
    category = "haptic",
    printcolumn(name = "Checksum", type_ = "string", json_path = ".spec.checksum"),
    printcolumn(name = "Synced", type_ = "string", json_path = ".status.conditions[?(@.type=='Synced')].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct HAProxyGeneralFileSpec {
    /// The name of the file in the configuration.
    pub file_name: String,
    /// The path below the base directory of the file set.
    pub path: String,
    /// The text.
    pub content: String,
    /// The SHA-256 digest of the content before compression.
    pub checksum: String,
    /// The content is compressed with zstd and written in base64. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub compressed: bool,
    /// Which part of the content this object holds, from 1; the parts' texts joined in order are the whole. Left out
    /// where one object holds it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub part: Option<i32>,
    /// How many parts there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub parts: Option<i32>,
}

/// Where the file is deployed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HAProxyGeneralFileStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is true of it now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// One entry per HAProxy pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["podName"]))]
    pub deployed_to_pods: Vec<PodDeploymentStatus>,
}

/// A rendered certificate list.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "haptic.rs",
    version = "v1alpha1",
    kind = "HAProxyCRTListFile",
    namespaced,
    status = "HAProxyCRTListFileStatus",
    derive = "PartialEq",
    doc = "A rendered certificate list.",
    shortname = "hpcl",
    category = "haptic",
    printcolumn(name = "Checksum", type_ = "string", json_path = ".spec.checksum"),
    printcolumn(name = "Synced", type_ = "string", json_path = ".status.conditions[?(@.type=='Synced')].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct HAProxyCRTListFileSpec {
    /// The name of the list in the configuration.
    pub list_name: String,
    /// The path below the base directory of the file set.
    pub path: String,
    /// The text, one entry a line.
    pub entries: String,
    /// The SHA-256 digest of the content before compression.
    pub checksum: String,
    /// The content is compressed with zstd and written in base64. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub compressed: bool,
    /// Which part of the content this object holds, from 1; the parts' texts joined in order are the whole. Left out
    /// where one object holds it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub part: Option<i32>,
    /// How many parts there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub parts: Option<i32>,
}

/// Where the file is deployed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HAProxyCRTListFileStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is true of it now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// One entry per HAProxy pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["podName"]))]
    pub deployed_to_pods: Vec<PodDeploymentStatus>,
}
