//! Checks that an error file is one complete HTTP response, before HAProxy sends it to anyone.
#![forbid(unsafe_code)]

mod response;

use haptic_plugin_sdk::{AuxiliaryFile, AuxiliaryFileValidator, PluginError, Report};
use parts::Findings;
use serde::Deserialize;

/// The validator.
pub struct ErrorFile {
    config: Config,
}

/// What can be set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Config {
    /// HAProxy's `tune.bufsize`: an error file must fit into one buffer. Default 16384.
    buffer_bytes: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { buffer_bytes: 16_384 }
    }
}

impl AuxiliaryFileValidator for ErrorFile {
    type Config = Config;

    fn new(config: Config) -> Result<Self, String> {
        if config.buffer_bytes < 1024 {
            return Err("`bufferBytes` must be HAProxy's `tune.bufsize`, at least 1024".to_owned());
        }
        Ok(Self { config })
    }

    fn validate(&self, request: &AuxiliaryFile) -> Result<Report, PluginError> {
        let file = &request.file;
        let mut findings = Findings::default();
        if file.size() > self.config.buffer_bytes {
            let (size, limit) = (file.size(), self.config.buffer_bytes);
            findings.error(
                file.whole(),
                format!("the file has {size} bytes and does not fit HAProxy's buffer of {limit}; make it shorter"),
            );
            return Ok(findings.finish(|| file.whole()));
        }
        let buffer_bytes = usize::try_from(self.config.buffer_bytes).unwrap_or(usize::MAX);
        response::check(file, &file.read_all(), buffer_bytes, &mut findings);
        Ok(findings.finish(|| file.whole()))
    }
}

haptic_plugin_sdk::export! { auxiliary_file: ErrorFile }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases() {
        haptic_plugin_sdk::testing::check_auxiliary_file_cases::<ErrorFile>(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/cases"
        ));
    }
}
