//! Checks the configuration file of a stream processing offload engine: what `filter spoe … config FILE` loads.
//!
//! HAProxy reads such a file only while it parses the filter that names it, skips every scope but that filter's, says
//! nothing about a misspelt keyword in a message, and never says that a message is not sent.
#![forbid(unsafe_code)]

mod agent;
mod expression;
mod message;
mod model;
mod parse;
mod references;
mod usage;

use haptic_plugin_sdk::{AuxiliaryFile, AuxiliaryFileValidator, PluginError, Report};
use parts::Findings;
use serde::Deserialize;

/// The validator.
pub struct Spoe {
    config: Config,
}

/// What can be set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Config {
    /// HAProxy's `tune.bufsize`: a frame must fit into one buffer. Default 16384.
    buffer_bytes: u64,
    /// The oldest HAProxy that loads the file, e.g. `3.2`. From 3.1 on several keywords have no effect; without it
    /// they are not looked at.
    haproxy_version: Option<String>,
    /// The backends that `use-backend` may name. Empty = those of `haproxy.cfg`, if it is among the data files.
    backends: Vec<String>,
}

/// What the checks of one file share.
pub(crate) struct Rules {
    pub(crate) buffer_bytes: u64,
    /// Whether HAProxy is at least 3.1, if that is known.
    pub(crate) multiplexed: Option<bool>,
}

// === impl Config ===

impl Default for Config {
    fn default() -> Self {
        Self { buffer_bytes: 16_384, haproxy_version: None, backends: Vec::new() }
    }
}

impl Config {
    fn rules(&self) -> Result<Rules, String> {
        if self.buffer_bytes < 1024 {
            return Err("`bufferBytes` must be HAProxy's `tune.bufsize`, at least 1024".to_owned());
        }
        let multiplexed = match &self.haproxy_version {
            None => None,
            Some(version) => {
                let numbers =
                    version.split_once('.').map(|(major, minor)| (major.parse::<u32>(), minor.parse::<u32>()));
                let Some((Ok(major), Ok(minor))) = numbers else {
                    return Err(format!("`haproxyVersion` must be two numbers such as `3.2`, not `{version}`"));
                };
                Some((major, minor) >= (3, 1))
            }
        };
        Ok(Rules { buffer_bytes: self.buffer_bytes, multiplexed })
    }
}

// === impl Spoe ===

impl AuxiliaryFileValidator for Spoe {
    type Config = Config;

    fn new(config: Config) -> Result<Self, String> {
        config.rules()?;
        Ok(Self { config })
    }

    fn validate(&self, request: &AuxiliaryFile) -> Result<Report, PluginError> {
        let rules = self.config.rules().map_err(PluginError::new)?;
        let mut report = Findings::default();
        let scopes = parse::scopes(&request.file, &rules, &mut report);
        references::check(&request.file, &scopes, &rules, &mut report);
        usage::check(&request.file, &request.data_files, &scopes, &self.config.backends, &mut report);
        Ok(report.finish(|| request.file.whole()))
    }
}

haptic_plugin_sdk::export! { auxiliary_file: Spoe }

#[cfg(test)]
mod tests {
    use haptic_plugin_sdk::testing;

    use super::*;

    #[test]
    fn cases() {
        testing::check_auxiliary_file_cases::<Spoe>(concat!(env!("CARGO_MANIFEST_DIR"), "/cases"));
    }

    #[test]
    fn refuses_a_version_that_is_none() {
        let config = serde_json::json!({ "haproxyVersion": "new" });
        let request = testing::auxiliary_file(testing::file("general/spoe.conf", ""));
        let refused = testing::validate_auxiliary_file::<Spoe>(config, &request);
        assert!(matches!(refused, Err(testing::TestError::Config(message)) if message.contains("such as `3.2`")));
    }
}
