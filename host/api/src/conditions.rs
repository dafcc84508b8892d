//! The conditions of `HAProxyTemplateConfig` and `HAProxyCfg`, and their reasons.

use std::fmt;

/// The conditions of a `HAProxyTemplateConfig`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigConditionType {
    /// The newest configuration passed the load gate and serves.
    Accepted,
    /// The newest input could be rendered, and HAProxy accepts the output.
    Validated,
    /// Every HAProxy pod serves the newest render.
    Deployed,
    /// Pods fail again and again, or never answered.
    Degraded,
}

/// Why a condition of a `HAProxyTemplateConfig` is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigReason {
    /// The configuration serves.
    Accepted,
    /// The configuration serves; the message says what to look at.
    AcceptedWithWarnings,
    /// The load gate has not judged it yet.
    Pending,
    /// The configuration or an object that it refers to is not valid or not there.
    ConfigInvalid,
    /// A template fails.
    TemplateInvalid,
    /// HAProxy refuses the output.
    HAProxyValidationFailed,
    /// A validator plugin refuses the output.
    ValidatorRefused,
    /// A plugin failed, or its module is not there.
    PluginFailed,
    /// HAProxy accepts the newest output.
    ValidationSucceeded,
    /// There is no HAProxy of the pods' version to ask.
    NoCheckerForVersion,
    /// The check of the output is switched off.
    CheckDisabled,
    /// The newest input cannot be rendered.
    RenderFailed,
    /// Every pod serves the newest render.
    AllPodsServe,
    /// No pod is found.
    NoPods,
    /// Pods have not answered yet.
    Deploying,
    /// Pods have the files and will load them with their next reload.
    ReloadScheduled,
    /// Pods did not take the newest render.
    DeploymentFailed,
    /// Pods never answered since they were found.
    PodNeverAnswered,
    /// Pods fail again and again.
    PodFailing,
    /// Every pod answers.
    AllPodsAnswer,
}

/// The conditions of a `HAProxyCfg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputConditionType {
    /// Every HAProxy pod serves it.
    Synced,
    /// All files that may be published are published.
    Published,
}

/// Why a condition of a `HAProxyCfg` is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputReason {
    /// Every pod serves it.
    AllPodsServe,
    /// Not every pod serves it.
    PodsDiffer,
    /// A newer output is published, and pods that did not take it serve this one.
    Superseded,
    /// Every file that may be published is.
    Complete,
    /// Something is too large to be published.
    TooLarge,
}

// === impl ConfigConditionType ===

impl ConfigConditionType {
    /// All, in the order in which they are written.
    pub const ALL: [Self; 4] = [Self::Accepted, Self::Validated, Self::Deployed, Self::Degraded];
}

impl fmt::Display for ConfigConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

// === impl ConfigReason ===

impl ConfigReason {
    /// All, in the order of the documentation.
    pub const ALL: [Self; 20] = [
        Self::Accepted,
        Self::AcceptedWithWarnings,
        Self::Pending,
        Self::ConfigInvalid,
        Self::TemplateInvalid,
        Self::HAProxyValidationFailed,
        Self::ValidatorRefused,
        Self::PluginFailed,
        Self::ValidationSucceeded,
        Self::NoCheckerForVersion,
        Self::CheckDisabled,
        Self::RenderFailed,
        Self::AllPodsServe,
        Self::NoPods,
        Self::Deploying,
        Self::ReloadScheduled,
        Self::DeploymentFailed,
        Self::PodNeverAnswered,
        Self::PodFailing,
        Self::AllPodsAnswer,
    ];
}

impl fmt::Display for ConfigReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

// === impl OutputConditionType ===

impl fmt::Display for OutputConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

// === impl OutputReason ===

impl OutputReason {
    /// All, in the order of the documentation.
    pub const ALL: [Self; 5] = [Self::AllPodsServe, Self::PodsDiffer, Self::Superseded, Self::Complete, Self::TooLarge];
}

impl fmt::Display for OutputReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
