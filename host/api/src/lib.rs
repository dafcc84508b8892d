//! The custom resources of haptic: group `haptic.rs`, version `v1alpha1`, once, in Rust.
//!
//! What: the types of [`HAProxyTemplateConfig`], [`HAProxyTemplateLibrary`], [`HAProxyPlugin`] and of the published
//! output; their definitions ([`crds()`], the folder `crds/` is generated from them); a strict decoder for manifests
//! that people write ([`decode()`]) and the YAML reader with positions it needs ([`yaml`]). What not: no Kubernetes
//! client, no merging of libraries, no template is compiled here. The store, the controller and the command line call
//! it; it calls none of them.

#![deny(missing_docs)]

pub mod yaml;

mod conditions;
mod config;
mod crds;
mod decode;
mod library;
mod plugin;
mod published;
mod rules;
mod schema;
mod status;
mod templates;
mod units;
mod validation_test;

pub use conditions::{ConfigConditionType, ConfigReason, OutputConditionType, OutputReason};
pub use config::{
    ControllerSettings, Deployment, HAProxyTemplateConfig, HAProxyTemplateConfigSpec, HAProxyTemplateConfigStatus,
    IngressStatus, LeaderElection, LibraryRef, PluginRef, PodSelector, RawText, RenderGate, SecretRef, ServiceRef,
    Templating, UnitFailure, Validator,
};
pub use crds::{crds, manifests};
pub use decode::{Kind, ManifestSource, decode};
pub use library::{HAProxyTemplateLibrary, HAProxyTemplateLibrarySpec, HAProxyTemplateLibraryStatus};
pub use plugin::{
    BuiltinModule, ConfigMapModule, FailurePolicy, FileModule, HAProxyPlugin, HAProxyPluginSpec, HAProxyPluginStatus,
    HttpModule, OciModule, PluginConditionType, PluginLimits, PluginModule, PluginReason,
};
pub use published::{
    AuxiliaryFiles, HAProxyCRTListFile, HAProxyCRTListFileSpec, HAProxyCRTListFileStatus, HAProxyCfg, HAProxyCfgSpec,
    HAProxyCfgStatus, HAProxyGeneralFile, HAProxyGeneralFileSpec, HAProxyGeneralFileStatus, HAProxyMapFile,
    HAProxyMapFileSpec, HAProxyMapFileStatus, PodDeploymentStatus, PublishedObject, WithheldFile, WithheldReason,
};
pub use status::{Condition, ConditionStatus, condition};
pub use templates::{FileTemplate, MapTemplate, StorePolicy, TemplateText, WatchedResource};
pub use units::{Bytes, Duration, InvalidBytes, InvalidDuration};
pub use validation_test::{Assertion, AssertionType, HttpResource, ValidationTest};

/// The API group of every kind of this crate.
pub const GROUP: &str = "haptic.rs";

/// The version of every kind of this crate.
pub const VERSION: &str = "v1alpha1";
