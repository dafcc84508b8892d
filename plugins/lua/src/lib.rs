//! Checks Lua files that HAProxy loads (`lua-load`): their syntax, and what only fails when a request runs them.
//!
//! HAProxy runs a file while it loads it, so it finds faults of syntax and of the top level. A misspelt name inside a
//! function is found by the first request that gets there.
#![forbid(unsafe_code)]

mod api;
mod expressions;
mod globals;
mod lexer;
mod parser;
mod scope;
mod token;

use std::{collections::BTreeSet, path::Path};

use haptic_plugin_sdk::{AuxiliaryFile, AuxiliaryFileValidator, File, PluginError, Report};
use parts::Findings;
use serde::Deserialize;

use crate::parser::Outcome;

/// Larger files are no programs.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The validator.
pub struct Lua {
    config: Config,
}

/// What can be set.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Config {
    /// What HAProxy is built with: `haproxy -vv` says it. Default `5.4`.
    lua_version: Version,
    /// Globals that other files define.
    globals: Vec<String>,
    /// Calls that are fine although they stop all traffic of a thread, e.g. `os.execute`.
    allow_blocking: Vec<String>,
}

/// The versions of Lua that HAProxy can be built with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) enum Version {
    /// `Lua 5.3.x`.
    #[serde(rename = "5.3")]
    Lua53,
    /// `Lua 5.4.x`.
    #[default]
    #[serde(rename = "5.4")]
    Lua54,
}

// === impl Lua ===

impl AuxiliaryFileValidator for Lua {
    type Config = Config;

    fn new(config: Config) -> Result<Self, String> {
        if let Some(name) = config.globals.iter().find(|name| !lexer::is_name(name.as_bytes())) {
            return Err(format!("`globals` has `{name}`, which is no name"));
        }
        if let Some(call) = config.allow_blocking.iter().find(|call| !api::is_blocking(call)) {
            let known = api::blocking_calls().collect::<Vec<_>>().join("`, `");
            return Err(format!("`allowBlocking` has `{call}`; known: `{known}`"));
        }
        Ok(Self { config })
    }

    fn validate(&self, request: &AuxiliaryFile) -> Result<Report, PluginError> {
        let file = &request.file;
        let mut findings = Findings::default();
        if file.size() > MAX_FILE_BYTES {
            let message = format!("the file has {} bytes; more than {MAX_FILE_BYTES} are not checked", file.size());
            findings.error(file.whole(), message);
            return Ok(findings.finish(|| file.whole()));
        }
        let source = file.read_all();
        match parser::parse(&source, self.config.lua_version) {
            Err(error) => findings.error(error.place.position(file), error.message),
            Ok(outcome) => self.judge(request, &outcome, &mut findings),
        }
        Ok(findings.finish(|| file.whole()))
    }
}

impl Lua {
    fn judge(&self, request: &AuxiliaryFile, outcome: &Outcome<'_>, findings: &mut Findings) {
        api::check(&self.config, &request.file, outcome, findings);
        globals::check(&self.config, &request.file, outcome, || self.defined_elsewhere(&request.data_files), findings);
    }

    /// The globals of the other files: HAProxy loads all into one state. A file that does not parse has its own report.
    fn defined_elsewhere(&self, files: &[File]) -> BTreeSet<Vec<u8>> {
        let mut names = BTreeSet::new();
        let mut left = MAX_FILE_BYTES;
        for file in files.iter().filter(|file| Path::new(file.path()).extension().is_some_and(|end| end == "lua")) {
            let Some(rest) = left.checked_sub(file.size()) else { break };
            left = rest;
            if let Ok(outcome) = parser::parse(&file.read_all(), self.config.lua_version) {
                names.extend(outcome.defined.into_keys().map(<[u8]>::to_vec));
            }
        }
        names
    }
}

haptic_plugin_sdk::export! { auxiliary_file: Lua }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases() {
        haptic_plugin_sdk::testing::check_auxiliary_file_cases::<Lua>(concat!(env!("CARGO_MANIFEST_DIR"), "/cases"));
    }
}
