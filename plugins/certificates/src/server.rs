//! Certificates that HAProxy serves, with their key and chain.

use std::collections::HashMap;

use haptic_plugin_sdk::{AuxiliaryFile, File, Position};
use parts::Findings;

use crate::{
    Config,
    certificate::{Certificate, Expired},
    chain,
    key::{self, NoKey, PublicKey},
    pem::{self, Block, Pem},
};

/// Whether the first certificate is the one that was meant to be first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    AsItIs,
    /// Reported; everything else that could be said of the order is beside the point.
    Wrong,
}

/// Whether HAProxy reads a certificate from a block of this label.
pub(crate) fn is_certificate(label: &str) -> bool {
    matches!(label, "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE")
}

/// Reports what is wrong with the certificate, the key or the chain.
pub(crate) fn check(config: &Config, request: &AuxiliaryFile, pem: &Pem, findings: &mut Findings) {
    let file = &request.file;
    check_labels(file, pem, findings);
    let mut unreadable = false;
    let mut certificates = Vec::new();
    for block in pem.blocks.iter().filter(|block| is_certificate(&block.label)) {
        match Certificate::read(file, block, findings) {
            Some(certificate) => certificates.push(certificate),
            None => unreadable = true,
        }
    }
    without_duplicates(&mut certificates, findings);
    if certificates.is_empty() && !unreadable && !pem.damaged {
        findings.error(file.whole(), "the file has no certificate; write it in front of its chain");
    }
    let now = i64::try_from(request.now).unwrap_or(i64::MAX);
    for certificate in &certificates {
        certificate.check_dates(now, config.warn_days, Expired::Error, findings);
        certificate.check_strength(findings);
    }
    // With a part missing, no one knows which one HAProxy would take, and what would follow it.
    let known = if unreadable || pem.damaged { &[] } else { certificates.as_slice() };
    let Order::AsItIs = check_key(request, pem, known, findings) else { return };
    if let Some(leaf) = known.first() {
        check_leaf(config, leaf, findings);
    }
    chain::check(config, known, findings);
}

fn check_labels(file: &File, pem: &Pem, findings: &mut Findings) {
    for block in &pem.blocks {
        let known = is_certificate(&block.label)
            || block.label.ends_with("PRIVATE KEY")
            || matches!(block.label.as_str(), "DH PARAMETERS" | "X9.42 DH PARAMETERS" | "EC PARAMETERS");
        if !known {
            let message = format!("HAProxy skips the block `{}`; remove it", block.label);
            findings.warn(Position::at(file.path(), block.line, 1), message);
        }
    }
    if let Some(line) = pem.first_text
        && !(pem.blocks.is_empty() || pem.damaged)
    {
        let message = "HAProxy skips text outside of blocks; remove it, or begin the line with `#`";
        findings.warn(Position::at(file.path(), line, 1), message);
    }
}

fn without_duplicates(certificates: &mut Vec<Certificate<'_>>, findings: &mut Findings) {
    let mut seen: HashMap<[u8; 32], u32> = HashMap::new();
    certificates.retain(|certificate| {
        let Some(first) = seen.get(&certificate.digest) else {
            seen.insert(certificate.digest, certificate.line);
            return true;
        };
        let message = format!("`{}` is in the file already, in line {first}; remove one", certificate.name());
        findings.warn(certificate.position(), message);
        false
    });
}

fn check_leaf(config: &Config, leaf: &Certificate<'_>, findings: &mut Findings) {
    let name = leaf.name();
    if leaf.is_self_issued() && !config.allow_self_signed {
        let message =
            format!("`{name}` is self-signed, so no client trusts it; have it issued, or set `allowSelfSigned`");
        findings.warn(leaf.position(), message);
    }
    if !leaf.has_alternative_names() {
        let message = format!(
            "`{name}` has no subject alternative names, and clients look at nothing else; issue it again with its host \
             names there"
        );
        findings.warn(leaf.position(), message);
    }
}

/// HAProxy takes the first key of the file, or else the one of the file beside it.
fn check_key(request: &AuxiliaryFile, pem: &Pem, certificates: &[Certificate<'_>], findings: &mut Findings) -> Order {
    let keys = |pem: &Pem| pem.blocks.iter().filter(|block| block.label.ends_with("PRIVATE KEY")).count();
    if keys(pem) > 0 {
        return check_keys_of(&request.file, pem, certificates, findings);
    }
    if pem.damaged {
        return Order::AsItIs;
    }
    let beside = format!("{}.key", request.file.path());
    let Some(file) = request.data_files.iter().find(|file| file.path() == beside) else {
        if !pem.blocks.is_empty() {
            let message = format!(
                "the file has no private key; append the key, or render it as `{beside}` and name it in `dataFiles`"
            );
            findings.error(request.file.whole(), message);
        }
        return Order::AsItIs;
    };
    let pem = pem::read(file, &file.read_all(), findings);
    if keys(&pem) == 0 && !pem.damaged {
        findings.error(file.whole(), "the file has no private key, and there is none beside the certificate");
    }
    check_keys_of(file, &pem, certificates, findings)
}

fn check_keys_of(file: &File, pem: &Pem, certificates: &[Certificate<'_>], findings: &mut Findings) -> Order {
    let mut keys = pem.blocks.iter().filter(|block| block.label.ends_with("PRIVATE KEY"));
    let Some(first) = keys.next() else { return Order::AsItIs };
    let position = |block: &Block| Position::at(file.path(), block.line, 1);
    for further in keys {
        let message = format!("the file has a key already, in line {}, and HAProxy takes that; remove one", first.line);
        findings.error(position(further), message);
    }
    match key::of_private(first) {
        Ok(key) => return check_pair(&key, position(first), certificates, findings),
        Err(NoKey::Damaged) => {}
        Err(NoKey::Encrypted) => {
            let message = "the key is encrypted, and HAProxy has no one to ask for the passphrase; decrypt it";
            findings.error(position(first), message);
        }
        Err(NoKey::Malformed) => {
            let message = format!("the block `{}` holds no key of that kind; copy it again", first.label);
            findings.error(position(first), message);
        }
    }
    Order::AsItIs
}

fn check_pair(key: &PublicKey, position: Position, certificates: &[Certificate<'_>], findings: &mut Findings) -> Order {
    let Some(leaf) = certificates.first() else { return Order::AsItIs };
    if !key.differs(&leaf.key) {
        return Order::AsItIs;
    }
    let name = leaf.name();
    if let Some(other) = certificates.iter().skip(1).find(|other| *key == other.key) {
        let message = format!(
            "the key belongs to `{}` in line {}, but HAProxy serves the first certificate, `{name}`; move the one with \
             the key to the front",
            other.name(),
            other.line
        );
        findings.error(position, message);
        return Order::Wrong;
    }
    let message = format!(
        "the key ({}) does not belong to the certificate `{name}` ({}); put the two that belong together",
        key.kind(),
        leaf.key.kind()
    );
    findings.error(position, message);
    Order::AsItIs
}
