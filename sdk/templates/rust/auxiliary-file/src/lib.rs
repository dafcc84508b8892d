//! Checks the lines of a text file: how long they are, and that they end in no white space.
//!
//! A plugin needs no unsafe code, and this one refuses it.
#![forbid(unsafe_code)]

use haptic_plugin_sdk::{AuxiliaryFile, AuxiliaryFileValidator, Lines, PluginError, Report};
use serde::Deserialize;

/// A person reads no more than this at once.
const MAX_FINDINGS: usize = 20;

/// The validator.
pub struct Validator {
    config: Config,
}

/// What can be set in the plugin's `config`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Config {
    /// The longest line, in bytes. Default 120.
    max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { max: 120 }
    }
}

impl AuxiliaryFileValidator for Validator {
    type Config = Config;

    fn new(config: Config) -> Result<Self, String> {
        if config.max == 0 {
            return Err("`max` must be at least 1".to_owned());
        }
        Ok(Self { config })
    }

    fn validate(&self, request: &AuxiliaryFile) -> Result<Report, PluginError> {
        let file = &request.file;
        let max = self.config.max;
        let mut report = Report::default();
        let mut lines = Lines::of(file);
        while report.errors().len() + report.warnings().len() < MAX_FINDINGS
            && let Some(line) = lines.next_line()
        {
            let text = line.text.strip_suffix(b"\r").unwrap_or(line.text);
            if text.len() > max {
                let message = format!("the line has {} bytes; break it after {max}", text.len());
                report.error(line.at(max).of(file), message);
            }
            if text.ends_with(b" ") || text.ends_with(b"\t") {
                report.warn(line.at(text.len() - 1).of(file), "remove the white space at the end of the line");
            }
        }
        Ok(report)
    }
}

haptic_plugin_sdk::export! { auxiliary_file: Validator }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases() {
        haptic_plugin_sdk::testing::check_auxiliary_file_cases::<Validator>(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/cases"
        ));
    }
}
