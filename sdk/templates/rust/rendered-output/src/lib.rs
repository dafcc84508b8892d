//! Refuses directives that must not be in `haproxy.cfg`.
//!
//! A plugin needs no unsafe code, and this one refuses it.
#![forbid(unsafe_code)]

use haptic_plugin_sdk::{Lines, PluginError, RenderedOutput, RenderedOutputValidator, Report};
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
    /// First words of lines that must not be. Default `debug`.
    forbidden: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self { forbidden: vec!["debug".to_owned()] }
    }
}

impl RenderedOutputValidator for Validator {
    type Config = Config;

    fn new(config: Config) -> Result<Self, String> {
        if config.forbidden.iter().any(String::is_empty) {
            return Err("`forbidden` must hold words".to_owned());
        }
        Ok(Self { config })
    }

    fn validate(&self, request: &RenderedOutput) -> Result<Report, PluginError> {
        let file = &request.config;
        let mut report = Report::default();
        let mut lines = Lines::of(file);
        while report.errors().len() < MAX_FINDINGS
            && let Some(line) = lines.next_line()
        {
            let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
            let start = line.text.iter().position(|byte| !is_space(byte)).unwrap_or(line.text.len());
            let word = line.text[start..].split(is_space).next().unwrap_or_default();
            if let Some(word) = self.config.forbidden.iter().find(|forbidden| forbidden.as_bytes() == word) {
                report.error(line.at(start).of(file), format!("`{word}` must not be used here; remove the line"));
            }
        }
        Ok(report)
    }
}

haptic_plugin_sdk::export! { rendered_output: Validator }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases() {
        haptic_plugin_sdk::testing::check_rendered_output_cases::<Validator>(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/cases"
        ));
    }
}
