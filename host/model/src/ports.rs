//! What one room asks of another without naming it.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::FileSet;

/// The filters of all configured plugins. Calls block: use on a blocking thread.
pub trait TemplateFilters: Send + Sync {
    /// Every filter on offer, in a stable order; names are unique.
    fn declared(&self) -> Vec<FilterDeclaration>;

    /// Fresh filter instances for one render: at most one instance per plugin, made on its first call.
    fn session(&self) -> Box<dyn FilterSession>;
}

pub trait FilterSession: Send {
    fn call(&mut self, call: FilterCall<'_>) -> Result<String, FilterError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterDeclaration {
    pub name: String,
    pub plugin: Arc<str>,
    pub doc: String,
}

/// Every value is JSON text.
#[derive(Clone, Copy, Debug)]
pub struct FilterCall<'a> {
    pub filter: &'a str,
    pub value: &'a str,
    pub positional: &'a [String],
    pub named: &'a [(String, String)],
}

#[derive(Debug, Error)]
pub enum FilterError {
    /// The filter's own answer about this value: a fault of the data, which fails the unit.
    #[error("{filter}: {message}")]
    Refused { filter: String, message: String },
    /// The plugin trapped, ran out of time or memory, or broke its contract: a fault of the system, which fails the
    /// render.
    #[error(transparent)]
    Failed(#[from] PluginFailure),
}

/// The validators of all configured plugins. Calls block: use on a blocking thread. Every matching validator gets
/// every request, exact repeats included.
pub trait OutputValidators: Send + Sync {
    /// One report per (plugin, matching file), in a stable order.
    fn validate_auxiliary(&self, files: &FileSet, now: Now) -> Vec<PluginReport>;

    /// One report per plugin that checks rendered output.
    fn validate_output(&self, files: &FileSet, now: Now) -> Vec<PluginReport>;
}

/// Seconds since the Unix epoch, given to a validator as an explicit argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Now(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contract {
    AuxiliaryFile,
    RenderedOutput,
    TemplateFilter,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginReport {
    pub plugin: Arc<str>,
    pub contract: Contract,
    /// The file that was checked.
    pub path: String,
    pub warnings: Vec<Diagnostic>,
    pub errors: Vec<Diagnostic>,
    /// The plugin did not answer as its contract says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<PluginFailure>,
    pub failure_policy: FailurePolicy,
    #[serde(skip)]
    pub elapsed: Duration,
}

/// A position of 0 = unknown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Diagnostic {
    pub path: String,
    pub line: u32,
    pub column: u32,
    pub message: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailurePolicy {
    /// A failure of the plugin stops what it guards.
    #[default]
    Fail,
    /// A failure of the plugin is a warning.
    Ignore,
}

#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("plugin `{plugin}` {kind}")]
pub struct PluginFailure {
    pub plugin: Arc<str>,
    pub kind: PluginFailureKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum PluginFailureKind {
    Timeout {
        limit_ms: u64,
    },
    MemoryLimit {
        limit_bytes: u64,
    },
    OutputLimit {
        limit_bytes: u64,
    },
    InputLimit {
        limit_bytes: u64,
        bytes: u64,
    },
    StackLimit,
    /// Handles of files, streams, pollables and resources of its own that it held at one time.
    HandleLimit {
        limit: u64,
    },
    /// The component is made of more instances, memories or tables than one may have.
    PartsLimit {
        message: String,
    },
    Trap {
        message: String,
    },
    /// E.g. a verdict that contradicts its lists, a position outside the file.
    Contract {
        message: String,
    },
    /// The plugin's own words about why it cannot answer.
    Reported {
        message: String,
    },
    NotLoaded {
        message: String,
    },
}

impl fmt::Display for PluginFailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout { limit_ms } => write!(f, "ran longer than its limit of {limit_ms} ms and was stopped"),
            Self::MemoryLimit { limit_bytes } => {
                write!(f, "asked for more memory than its limit of {limit_bytes} bytes and was stopped")
            }
            Self::OutputLimit { limit_bytes } => write!(f, "answered more than its limit of {limit_bytes} bytes"),
            Self::InputLimit { limit_bytes, bytes } => {
                write!(f, "was to read {bytes} bytes, over its limit of {limit_bytes} bytes")
            }
            Self::StackLimit => f.write_str("nested its calls deeper than its limit and was stopped"),
            Self::HandleLimit { limit } => {
                write!(f, "held more handles than its limit of {limit} and was stopped; it must drop what it has used")
            }
            Self::PartsLimit { message } => write!(f, "is made of more parts than its limit: {message}"),
            Self::Trap { message } => write!(f, "trapped: {message}"),
            Self::Contract { message } => write!(f, "answered against its contract: {message}"),
            Self::Reported { message } => write!(f, "could not answer: {message}"),
            Self::NotLoaded { message } => write!(f, "is not loaded: {message}"),
        }
    }
}

impl PluginFailureKind {
    /// The kind as a label of metrics, as [`serde`] writes it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Timeout { .. } => "timeout",
            Self::MemoryLimit { .. } => "memory_limit",
            Self::OutputLimit { .. } => "output_limit",
            Self::InputLimit { .. } => "input_limit",
            Self::StackLimit => "stack_limit",
            Self::HandleLimit { .. } => "handle_limit",
            Self::PartsLimit { .. } => "parts_limit",
            Self::Trap { .. } => "trap",
            Self::Contract { .. } => "contract",
            Self::Reported { .. } => "reported",
            Self::NotLoaded { .. } => "not_loaded",
        }
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AuxiliaryFile => "auxiliary-file validator",
            Self::RenderedOutput => "rendered-output validator",
            Self::TemplateFilter => "template filter",
        })
    }
}

impl PluginReport {
    /// Whether this report stops publication: errors always, a failure as the plugin's policy says.
    pub fn stops(&self) -> bool {
        !self.errors.is_empty() || (self.failure.is_some() && self.failure_policy == FailurePolicy::Fail)
    }
}

/// No plugin is configured.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPlugins;

impl TemplateFilters for NoPlugins {
    fn declared(&self) -> Vec<FilterDeclaration> {
        Vec::new()
    }

    fn session(&self) -> Box<dyn FilterSession> {
        Box::new(Self)
    }
}

impl FilterSession for NoPlugins {
    fn call(&mut self, call: FilterCall<'_>) -> Result<String, FilterError> {
        let message = "no plugin offers this filter".to_owned();
        Err(FilterError::Refused { filter: call.filter.to_owned(), message })
    }
}

impl OutputValidators for NoPlugins {
    fn validate_auxiliary(&self, _: &FileSet, _: Now) -> Vec<PluginReport> {
        Vec::new()
    }

    fn validate_output(&self, _: &FileSet, _: Now) -> Vec<PluginReport> {
        Vec::new()
    }
}

/// Metrics and statuses label by plugin; this is the shape the plugin host reports them in.
pub type PluginCounters = BTreeMap<Arc<str>, PluginCounter>;

/// What the calls of one plugin have cost, all contracts together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PluginCounter {
    pub calls: u64,
    pub failures: u64,
    pub timeouts: u64,
    pub memory_denials: u64,
    /// Traps and exhausted stacks.
    pub traps: u64,
    pub nanos: u64,
    /// The most that one instance has held, in bytes of memories and tables.
    pub memory_peak_bytes: u64,
    /// Notes that were not written because there were too many.
    pub dropped_notes: u64,
}
