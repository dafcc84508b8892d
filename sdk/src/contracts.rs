use std::fmt;

use serde::{Deserialize, de::DeserializeOwned};

use crate::{File, Report};

/// Checks single rendered files besides the configuration: error pages, maps, certificates, files of other programs.
///
/// haptic makes a fresh instance for each file that the `files` globs of the configuration match.
pub trait AuxiliaryFileValidator: Sized {
    /// What the plugin's `config` must hold. Use `#[serde(deny_unknown_fields)]`, so that a misspelt field is told
    /// and not ignored; use [`NoConfig`] if there is nothing to set.
    type Config: DeserializeOwned;

    /// Makes the validator. The error says which field is wrong and what would be right; haptic then refuses to load
    /// the plugin.
    fn new(config: Self::Config) -> Result<Self, String>;

    /// Checks one file. The same request must give the same report.
    fn validate(&self, request: &AuxiliaryFile) -> Result<Report, PluginError>;
}

/// Checks the whole rendered output: the exact configuration together with every file it may refer to.
pub trait RenderedOutputValidator: Sized {
    /// As [`AuxiliaryFileValidator::Config`].
    type Config: DeserializeOwned;

    /// As [`AuxiliaryFileValidator::new`].
    fn new(config: Self::Config) -> Result<Self, String>;

    /// Checks one render. The same request must give the same report.
    fn validate(&self, request: &RenderedOutput) -> Result<Report, PluginError>;
}

/// What an [`AuxiliaryFileValidator`] is asked.
#[derive(Debug)]
pub struct AuxiliaryFile {
    /// The file to check.
    pub file: File,
    /// All files that the `dataFiles` globs match, sorted by path.
    pub data_files: Vec<File>,
    /// Seconds since the Unix epoch: the only clock there is.
    pub now: u64,
}

/// What a [`RenderedOutputValidator`] is asked.
#[derive(Debug)]
pub struct RenderedOutput {
    /// `haproxy.cfg`, byte for byte as HAProxy would load it.
    pub config: File,
    /// Every other rendered file, sorted by path.
    pub files: Vec<File>,
    /// Seconds since the Unix epoch: the only clock there is.
    pub now: u64,
}

/// The config of a plugin that has nothing to set: `{}` or nothing at all. A field in it is refused.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoConfig {}

/// The plugin cannot answer. It says nothing about the input; what is wrong with the input is a
/// [`crate::Finding`]. The configuration's `failurePolicy` decides what happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginError {
    message: String,
}

// === impl PluginError ===

impl PluginError {
    /// Says what the plugin could not do, and the next step for the person who runs it.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// The words given to [`PluginError::new`].
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PluginError {}
