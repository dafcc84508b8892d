//! Bundles of authorities: `ca-file`, `ca-verify-file`.

use std::collections::HashMap;

use haptic_plugin_sdk::{AuxiliaryFile, Position};
use parts::Findings;

use crate::{
    Config,
    certificate::{Certificate, Expired},
    pem::Pem,
    server,
};

/// Reports what is wrong with a bundle.
pub(crate) fn check(config: &Config, request: &AuxiliaryFile, pem: &Pem, findings: &mut Findings) {
    let file = &request.file;
    let now = i64::try_from(request.now).unwrap_or(i64::MAX);
    let mut seen: HashMap<[u8; 32], u32> = HashMap::new();
    let mut any = false;
    for block in &pem.blocks {
        if block.label.ends_with("PRIVATE KEY") {
            let message = "a private key stands in a bundle of authorities, where no one needs it; remove it";
            findings.error(Position::at(file.path(), block.line, 1), message);
            continue;
        }
        if !server::is_certificate(&block.label) {
            if block.label != "X509 CRL" {
                let message = format!("HAProxy skips the block `{}`; remove it", block.label);
                findings.warn(Position::at(file.path(), block.line, 1), message);
            }
            any |= block.label == "X509 CRL";
            continue;
        }
        any = true;
        let Some(certificate) = Certificate::read(file, block, findings) else { continue };
        if let Some(first) = seen.insert(certificate.digest, block.line) {
            let message = format!("`{}` is in the file already, in line {first}; remove one", certificate.name());
            findings.warn(certificate.position(), message);
            continue;
        }
        certificate.check_dates(now, config.warn_days, Expired::Warning, findings);
        certificate.check_strength(findings);
        if !certificate.may_issue() {
            let message = format!(
                "`{}` may not issue certificates (CA:FALSE), so it is no authority; is it a server's certificate?",
                certificate.name()
            );
            findings.warn(certificate.position(), message);
        }
    }
    if !any && !pem.damaged {
        findings.error(file.whole(), "the file has no certificate; write at least one authority");
    }
}
