//! `HAProxyTemplateConfig`: what the controller reads, renders, validates and deploys.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Bytes, Condition, Duration, FileTemplate, MapTemplate, TemplateText, ValidationTest, WatchedResource, schema,
    status::conditions,
    templates::{Named, is_false},
};

/// The whole configuration of one controller.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "haptic.rs",
    version = "v1alpha1",
    kind = "HAProxyTemplateConfig",
    namespaced,
    status = "HAProxyTemplateConfigStatus",
    derive = "PartialEq",
    doc = "What a controller reads, renders, validates and deploys.",
    shortname = "htplcfg",
    shortname = "haptpl",
    category = "haptic",
    printcolumn(name = "Accepted", type_ = "string", json_path = ".status.conditions[?(@.type=='Accepted')].status"),
    printcolumn(name = "Deployed", type_ = "string", json_path = ".status.conditions[?(@.type=='Deployed')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Accepted')].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct HAProxyTemplateConfigSpec {
    /// The HAProxy pods, in the namespace of this object. Not used without a cluster.
    #[serde(default)]
    pub pod_selector: PodSelector,
    /// The Secret with the controller's client certificate, its key and the CA of the agents. Not used without a
    /// cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretRef>,
    /// The resources that templates read, by the name under which they read them.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub watched_resources: Named<WatchedResource>,
    /// JSONPath expressions of fields that are removed from every object before it is stored.
    /// `metadata.managedFields` and the last-applied annotation are always removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 1024)))]
    pub watched_resources_ignore_fields: Vec<String>,
    /// Libraries, the least important first; this object wins over all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub library_refs: Vec<LibraryRef>,
    /// Templates that others include, by name.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub template_snippets: Named<TemplateText>,
    /// The main configuration. It may come from a library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub haproxy_config: Option<TemplateText>,
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
    /// Values that templates read as `extra_context`, merged over those of the libraries.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "schema::free_object")]
    pub extra_context: Map<String, Value>,
    /// The plugins that this configuration uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub plugins: Vec<PluginRef>,
    /// Which plugin checks which files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub validators: Vec<Validator>,
    /// Tests of the templates by name; all must pass before a new configuration is accepted.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub validation_tests: Named<ValidationTest>,
    /// When and how output is brought to HAProxy.
    #[serde(default)]
    pub deployment: Deployment,
    /// How rendered output is checked with `haproxy -c`.
    #[serde(default)]
    pub render_gate: RenderGate,
    /// The controller itself.
    #[serde(default)]
    pub controller: ControllerSettings,
    /// How templates are rendered.
    #[serde(default)]
    pub templating: Templating,
}

/// Selects pods by their labels; all must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSelector {
    /// Labels and their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
}

/// Names a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// The name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace. Default: the namespace of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Names a library of the same namespace and pins its revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LibraryRef {
    /// The name of the `HAProxyTemplateLibrary`.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The revision it must have. Default: whatever it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub revision: Option<String>,
}

/// Names a plugin of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginRef {
    /// The name of the `HAProxyPlugin`.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Lets a plugin check files. A plugin that checks whole rendered output needs no `files`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Validator {
    /// One of the names in `plugins`.
    #[schemars(length(min = 1, max = 253))]
    pub plugin: String,
    /// Globs of the files that are checked, such as `general/*.http`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Globs of the files that the plugin may read besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_files: Vec<String>,
}

/// When and how output is brought to HAProxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Deployment {
    /// The least time between two reloads of one pod; changes at run time are never held back. Default: 2s.
    pub min_deployment_interval: Duration,
    /// How often the state of the pods is compared with what they should have. Default: 60s; `0` = never.
    pub drift_prevention_interval: Duration,
    /// How long one pod may take before its deployment counts as failed and is tried again. Default: 90s; not 0.
    pub deployment_timeout: Duration,
    /// At most so many pods at a time; 0 = all at once. Default: 0.
    pub max_parallel: u32,
}

/// How rendered output is checked with `haproxy -c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RenderGate {
    /// Default: true.
    pub enabled: bool,
    /// How long one check may take, whoever asks for it. Default: 10s; not 0.
    pub timeout: Duration,
    /// The address space that one check may use. Default: 2Gi; at least 64Mi.
    pub memory: Bytes,
}

/// The controller itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ControllerSettings {
    /// Which of several controllers acts.
    pub leader_election: LeaderElection,
    /// Output larger than this is published compressed. Default: 1Mi; what does not fit into one object otherwise is
    /// compressed in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression_threshold: Option<Bytes>,
    /// What is written into the status of Ingresses that are served. Default: nothing. Not used without a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress_status: Option<IngressStatus>,
}

/// Under which addresses Ingresses are reached: those of both fields together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressStatus {
    /// IP addresses and host names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub addresses: Vec<String>,
    /// The Service in front of the HAProxy pods: its load balancer's addresses, else its `externalIPs`, else, unless it
    /// waits for a load balancer, its `clusterIP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish_service: Option<ServiceRef>,
}

/// Names a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRef {
    /// The name of the Service.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace. Default: the namespace of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Which of several controllers acts. Not used without a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaderElection {
    /// Default: true.
    pub enabled: bool,
    /// The name of the Lease. Default: `haptic-leader`.
    pub lease_name: String,
    /// Default: 30s.
    pub lease_duration: Duration,
    /// Default: 20s.
    pub renew_deadline: Duration,
    /// Default: 5s.
    pub retry_period: Duration,
}

/// How templates are rendered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Templating {
    /// Whether templates may print text of objects unescaped with `raw`. Default: Refused.
    pub raw_text: RawText,
    /// What becomes of an object whose template fails. Default: LeaveOut.
    pub unit_failure: UnitFailure,
    /// Only plugins that import nothing but haptic's own interfaces. Default: false.
    #[serde(skip_serializing_if = "is_false")]
    pub pure_plugins: bool,
}

/// Whether templates may print text of objects unescaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RawText {
    /// `raw` is an error.
    #[default]
    Refused,
    /// `raw` prints the text as it is.
    Allowed,
}

/// What becomes of an object whose template fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnitFailure {
    /// Nothing of it is in the output.
    #[default]
    LeaveOut,
    /// Its last good output stays.
    KeepLast,
}

/// What the controller found out about its configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HAProxyTemplateConfigStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is true of the configuration now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// Addresses that were written into the status of Ingresses and may still stand there: a later leader knows by them
    /// which entries are its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ingress_addresses: Vec<String>,
}

// === impl Deployment ===

impl Default for Deployment {
    fn default() -> Self {
        Self {
            min_deployment_interval: Duration::from_secs(2),
            drift_prevention_interval: Duration::from_secs(60),
            deployment_timeout: Duration::from_secs(90),
            max_parallel: 0,
        }
    }
}

// === impl RenderGate ===

impl Default for RenderGate {
    fn default() -> Self {
        Self { enabled: true, timeout: Duration::from_secs(10), memory: Bytes::from_mib(2048) }
    }
}

// === impl LeaderElection ===

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            enabled: true,
            lease_name: "haptic-leader".to_owned(),
            lease_duration: Duration::from_secs(30),
            renew_deadline: Duration::from_secs(20),
            retry_period: Duration::from_secs(5),
        }
    }
}
