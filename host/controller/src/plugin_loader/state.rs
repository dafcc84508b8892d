//! How far a plugin has come: its conditions, with reason, sentence and next step.

use std::sync::Arc;

use haptic_api::{ConditionStatus, PluginConditionType, PluginReason};
use haptic_model::ports::PluginFailureKind;
use haptic_modules::{FetchError, Reason, Wanted};
use haptic_plugins::{InvalidPluginSet, LoadErrorReason};
use serde_json::Value;

use crate::config::NamedPlugin;

/// What is known about one plugin of the newest configuration.
#[derive(Clone, Debug)]
pub struct PluginState {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// Of the object that this speaks of; manifests have none.
    pub generation: Option<i64>,
    /// What vouches for its bytes once they are here.
    pub proof: Proof,
    /// Why it is not ready.
    pub progress: Result<(), PluginFault>,
    /// The module, if it is what is missing.
    pub missing: Option<Wanted>,
}

/// What vouches for the bytes of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    BuiltIn,
    Pin,
    PinAndSignature,
}

/// Why a plugin is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFault {
    pub reason: PluginReason,
    pub message: String,
    pub next_step: String,
}

/// One condition of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginCondition {
    pub(crate) kind: PluginConditionType,
    pub(crate) status: ConditionStatus,
    pub(crate) reason: PluginReason,
    pub(crate) message: String,
}

// === impl PluginState ===

impl PluginState {
    /// Of a plugin that nothing stands against.
    pub(super) fn of(named: &NamedPlugin) -> Self {
        let spec = &named.plugin.spec;
        let proof = match (&spec.module.builtin, &spec.module.oci, &spec.cosign_key) {
            (Some(_), ..) => Proof::BuiltIn,
            (None, Some(_), Some(_)) => Proof::PinAndSignature,
            (None, ..) => Proof::Pin,
        };
        Self {
            namespace: named.raw.namespace.clone(),
            name: named.raw.name.clone(),
            generation: named.raw.value().pointer("/metadata/generation").and_then(Value::as_i64),
            proof,
            progress: Ok(()),
            missing: None,
        }
    }

    /// One of each type, in order.
    pub(crate) fn conditions(&self) -> Vec<PluginCondition> {
        PluginConditionType::ALL.into_iter().map(|kind| self.condition(kind)).collect()
    }

    fn condition(&self, kind: PluginConditionType) -> PluginCondition {
        let of = |status, reason, message: String| PluginCondition { kind, status, reason, message };
        let holds = || of(ConditionStatus::True, self.success(kind), self.success_message(kind).to_owned());
        let Err(fault) = &self.progress else { return holds() };
        let at = fault.condition();
        let message = format!("{}; next step: {}", fault.message, fault.next_step);
        let fetching = fault.reason == PluginReason::Fetching;
        match kind {
            _ if kind == at && fetching => of(ConditionStatus::Unknown, fault.reason, message),
            PluginConditionType::Ready => of(ConditionStatus::False, fault.reason, message),
            _ if kind == at => of(ConditionStatus::False, fault.reason, message),
            // Nothing is kept that is not verified.
            PluginConditionType::Fetched if at == PluginConditionType::Verified => {
                of(ConditionStatus::Unknown, PluginReason::Pending, "only a verified module is taken".to_owned())
            }
            _ if kind < at => holds(),
            _ => of(ConditionStatus::Unknown, PluginReason::Pending, format!("it waits for {at}")),
        }
    }

    fn success(&self, kind: PluginConditionType) -> PluginReason {
        match (kind, self.proof) {
            (PluginConditionType::Fetched | PluginConditionType::Verified, Proof::BuiltIn) => PluginReason::BuiltIn,
            (PluginConditionType::Verified, Proof::PinAndSignature) => PluginReason::SignatureVerified,
            _ => PluginReason::Succeeded,
        }
    }

    fn success_message(&self, kind: PluginConditionType) -> &'static str {
        match (kind, self.proof) {
            (PluginConditionType::Fetched, Proof::BuiltIn) => "the module comes with haptic",
            (PluginConditionType::Fetched, _) => "the module is here",
            (PluginConditionType::Verified, Proof::BuiltIn) => "the module is part of the binary",
            (PluginConditionType::Verified, Proof::Pin) => "the bytes are the pinned ones",
            (PluginConditionType::Verified, Proof::PinAndSignature) => {
                "the bytes are the pinned ones, and cosignKey verifies a signature of the image"
            }
            (PluginConditionType::Compiled, _) => "it is a component that this host runs",
            (PluginConditionType::Ready, _) => "it took its config",
        }
    }
}

// === impl PluginFault ===

impl PluginFault {
    pub(super) fn new(reason: PluginReason, message: String, next_step: impl Into<String>) -> Self {
        Self { reason, message, next_step: next_step.into() }
    }

    pub(crate) fn fetching(wanted: &Wanted) -> Self {
        let message = format!("{} is being fetched", wanted.source.shown());
        Self::new(PluginReason::Fetching, message, "wait: what follows comes by itself")
    }

    pub(super) fn misused(error: &InvalidPluginSet) -> Self {
        Self::new(PluginReason::UseRefused, error.to_string(), "correct plugins and validators of the configuration")
    }

    pub(super) fn of(error: &LoadErrorReason) -> Self {
        let (reason, next_step) = match error {
            LoadErrorReason::Digest { .. } => {
                (PluginReason::DigestMismatch, "pin the new digest if the change is meant")
            }
            LoadErrorReason::TooLarge { .. } => (PluginReason::TooLarge, "build the plugin for size"),
            LoadErrorReason::CoreModule | LoadErrorReason::NotAComponent(_) => {
                (PluginReason::NotAComponent, "build a component with `haptic plugin build`")
            }
            LoadErrorReason::TooCostly(_) => (PluginReason::TooCostly, "build the plugin smaller"),
            LoadErrorReason::Compile(failure) if failure.is_cost() => {
                (PluginReason::TooCostly, "build the plugin smaller, or give haptic more memory or processor")
            }
            LoadErrorReason::Compile(_) => (
                PluginReason::CompilerFailed,
                "look at haptic's log and at the machine's, and report this with the module",
            ),
            LoadErrorReason::ForeignImports(_) | LoadErrorReason::NotPure(_) => {
                (PluginReason::ImportsRefused, "see `haptic plugin inspect` for what the module imports")
            }
            LoadErrorReason::Generation { .. } => (PluginReason::WrongGeneration, "use a plugin or a haptic that fits"),
            LoadErrorReason::NoContract(_) | LoadErrorReason::Type(_) => {
                (PluginReason::NoContract, "see `haptic plugin inspect` for what the module exports")
            }
            LoadErrorReason::Config { .. } => (PluginReason::ConfigRefused, "correct spec.config of the plugin"),
            LoadErrorReason::Declaration { .. } => {
                (PluginReason::DeclarationRefused, "report this to the author of the plugin")
            }
            LoadErrorReason::Start(PluginFailureKind::Timeout { .. } | PluginFailureKind::MemoryLimit { .. }) => {
                (PluginReason::StartFailed, "raise spec.limits of the plugin")
            }
            LoadErrorReason::Start(_) | LoadErrorReason::Runtime(_) => {
                (PluginReason::StartFailed, "report this to the author of the plugin")
            }
        };
        Self::new(reason, error.to_string(), next_step)
    }

    /// The condition that the reason stands against.
    pub fn condition(&self) -> PluginConditionType {
        use PluginReason as R;
        match self.reason {
            R::NotPinned | R::DigestMismatch | R::InvalidKey | R::SignatureMissing | R::SignatureInvalid => {
                PluginConditionType::Verified
            }
            R::NotAComponent
            | R::TooCostly
            | R::CompilerFailed
            | R::ImportsRefused
            | R::WrongGeneration
            | R::NoContract => PluginConditionType::Compiled,
            R::ConfigRefused | R::DeclarationRefused | R::StartFailed | R::UseRefused => PluginConditionType::Ready,
            _ => PluginConditionType::Fetched,
        }
    }
}

impl From<FetchError> for PluginFault {
    fn from(error: FetchError) -> Self {
        let reason = match error.reason {
            Reason::NotPinned => PluginReason::NotPinned,
            Reason::InvalidSource => PluginReason::InvalidSource,
            Reason::InvalidPullSecret => PluginReason::InvalidPullSecret,
            Reason::Unreachable => PluginReason::Unreachable,
            Reason::TimedOut => PluginReason::TimedOut,
            Reason::NotFound => PluginReason::NotFound,
            Reason::Unauthorized => PluginReason::Unauthorized,
            Reason::ServerError => PluginReason::ServerError,
            Reason::RedirectRefused => PluginReason::RedirectRefused,
            Reason::TooLarge => PluginReason::TooLarge,
            Reason::WrongMediaType => PluginReason::WrongMediaType,
            Reason::DigestMismatch => PluginReason::DigestMismatch,
            Reason::InvalidKey => PluginReason::InvalidKey,
            Reason::SignatureMissing => PluginReason::SignatureMissing,
            Reason::SignatureInvalid => PluginReason::SignatureInvalid,
            Reason::CacheFailed => PluginReason::CacheFailed,
        };
        Self::new(reason, error.message, error.next_step)
    }
}
