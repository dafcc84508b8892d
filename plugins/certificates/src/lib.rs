//! Checks PEM files as HAProxy loads them: certificates with their keys and chains, and bundles of authorities.
//!
//! HAProxy loads an expired certificate, a chain in the wrong order or one that lacks its issuer without a word; only
//! clients notice. What a message says never comes from a private key.
#![forbid(unsafe_code)]

mod bundle;
mod certificate;
mod chain;
mod date;
mod key;
mod pem;
mod server;
mod signature;

use haptic_plugin_sdk::{AuxiliaryFile, AuxiliaryFileValidator, PluginError, Report};
use parts::Findings;
use serde::Deserialize;

/// Larger files are no certificates; the largest bundles of authorities have a tenth of it.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The validator.
pub struct Certificates {
    config: Config,
}

/// What can be set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Config {
    /// Globs of files with a certificate, its key and its chain. Default: every file.
    server_certificates: Vec<String>,
    /// Globs of files with the certificates of authorities (`ca-file`). They go before `server_certificates`.
    ca_bundles: Vec<String>,
    /// Warn this many days before a certificate expires. Default 14.
    warn_days: u32,
    /// Whether faults of the chain (no issuer, wrong order, an issuer that may not issue) are errors. By default they
    /// are warnings.
    require_chain: bool,
    /// Whether a self-signed server certificate is fine. Default false: it is warned of.
    allow_self_signed: bool,
}

/// What a file is for.
enum Kind {
    Server,
    Bundle,
    Other,
}

// === impl Config ===

impl Default for Config {
    fn default() -> Self {
        Self {
            server_certificates: vec!["**".to_owned()],
            ca_bundles: Vec::new(),
            warn_days: 14,
            require_chain: false,
            allow_self_signed: false,
        }
    }
}

impl Config {
    fn kind_of(&self, path: &str) -> Kind {
        let any = |globs: &[String]| globs.iter().any(|glob| fast_glob::glob_match(glob, path));
        if any(&self.ca_bundles) {
            Kind::Bundle
        } else if any(&self.server_certificates) {
            Kind::Server
        } else {
            Kind::Other
        }
    }
}

// === impl Certificates ===

impl AuxiliaryFileValidator for Certificates {
    type Config = Config;

    fn new(config: Config) -> Result<Self, String> {
        if config.warn_days > 3650 {
            return Err("`warnDays` must be at most 3650".to_owned());
        }
        for (field, globs) in [("serverCertificates", &config.server_certificates), ("caBundles", &config.ca_bundles)] {
            for glob in globs {
                if let Err(error) = fast_glob::validate(glob) {
                    return Err(format!("`{field}` has `{glob}`, which is no glob: {error}"));
                }
            }
        }
        Ok(Self { config })
    }

    fn validate(&self, request: &AuxiliaryFile) -> Result<Report, PluginError> {
        let file = &request.file;
        let kind = self.config.kind_of(file.path());
        let mut findings = Findings::default();
        if matches!(kind, Kind::Other) {
            return Ok(findings.finish(|| file.whole()));
        }
        if file.size() > MAX_FILE_BYTES {
            let size = file.size();
            let message =
                format!("the file has {size} bytes; more than {MAX_FILE_BYTES} are not checked: is it a PEM file?");
            findings.error(file.whole(), message);
            return Ok(findings.finish(|| file.whole()));
        }
        let content = file.read_all();
        let pem = pem::read(file, &content, &mut findings);
        match kind {
            Kind::Bundle => bundle::check(&self.config, request, &pem, &mut findings),
            Kind::Server => server::check(&self.config, request, &pem, &mut findings),
            Kind::Other => {}
        }
        Ok(findings.finish(|| file.whole()))
    }
}

haptic_plugin_sdk::export! { auxiliary_file: Certificates }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases() {
        haptic_plugin_sdk::testing::check_auxiliary_file_cases::<Certificates>(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/cases"
        ));
    }
}
