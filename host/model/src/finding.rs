use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::ObjectRef;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Warning,
    Error,
}

/// Where something stands. `line` and `column` are 1-based, 0 = unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceLocation {
    pub file: Arc<str>,
    pub line: u32,
    pub column: u32,
}

/// What a user did wrong or should know: never a fault of haptic itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    pub severity: Severity,
    pub code: FindingCode,
    pub message: String,
    /// The next step, as an imperative sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// Where in a template, rendered file or manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<SourceLocation>,
}

/// The reason in CamelCase, as Kubernetes events and conditions spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FindingCode {
    /// A template failed for one object; that object is left out or keeps its last good output.
    TemplateFailed,
    /// A value may not stand where the template prints it (escaping by sink).
    UnsafeValue,
    /// Two objects claim the same key; the older one has it.
    RouteConflict,
    /// HAProxy refused a line that this object's unit wrote.
    RefusedByHAProxy,
    /// A validator plugin reported an error or a warning.
    RefusedByValidator,
    /// A plugin trapped, timed out, hit a limit or answered against its contract.
    PluginFailed,
    /// A manifest could not be read or decoded.
    InvalidManifest,
    /// Two manifests declare the same object.
    DuplicateObject,
    /// A configuration object is not valid.
    ConfigInvalid,
    /// A referenced Service, port, Secret or the like is missing.
    UnresolvedReference,
    /// A value of the object is not valid for what it configures.
    InvalidValue,
    /// A template asked for this message through `warn(…)`.
    TemplateWarning,
}

// === impl FindingCode ===

impl FindingCode {
    pub const ALL: [Self; 12] = [
        Self::TemplateFailed,
        Self::UnsafeValue,
        Self::RouteConflict,
        Self::RefusedByHAProxy,
        Self::RefusedByValidator,
        Self::PluginFailed,
        Self::InvalidManifest,
        Self::DuplicateObject,
        Self::ConfigInvalid,
        Self::UnresolvedReference,
        Self::InvalidValue,
        Self::TemplateWarning,
    ];

    /// The code as a label of metrics; as it is displayed.
    pub fn label(self) -> &'static str {
        match self {
            Self::TemplateFailed => "TemplateFailed",
            Self::UnsafeValue => "UnsafeValue",
            Self::RouteConflict => "RouteConflict",
            Self::RefusedByHAProxy => "RefusedByHAProxy",
            Self::RefusedByValidator => "RefusedByValidator",
            Self::PluginFailed => "PluginFailed",
            Self::InvalidManifest => "InvalidManifest",
            Self::DuplicateObject => "DuplicateObject",
            Self::ConfigInvalid => "ConfigInvalid",
            Self::UnresolvedReference => "UnresolvedReference",
            Self::InvalidValue => "InvalidValue",
            Self::TemplateWarning => "TemplateWarning",
        }
    }
}

// === impl Finding ===

impl Finding {
    pub fn error(code: FindingCode, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message)
    }

    pub fn warning(code: FindingCode, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message)
    }

    fn new(severity: Severity, code: FindingCode, message: impl Into<String>) -> Self {
        Self { severity, code, message: message.into(), hint: None, object: None, location: None }
    }

    #[must_use]
    pub fn at(mut self, file: impl Into<Arc<str>>, line: u32, column: u32) -> Self {
        let file = file.into();
        self.location = (!file.is_empty()).then_some(SourceLocation { file, line, column });
        self
    }

    #[must_use]
    pub fn about(mut self, object: Option<ObjectRef>) -> Self {
        self.object = object;
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(object) = &self.object {
            write!(f, "{object}: ")?;
        }
        if let Some(location) = &self.location {
            write!(f, "{location}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " (next step: {hint})")?;
        }
        Ok(())
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
            if self.column > 0 {
                write!(f, ":{}", self.column)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for FindingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}
