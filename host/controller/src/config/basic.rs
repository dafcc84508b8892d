//! The Basic validator of the load gate: what can be said without compiling or running anything.

use haptic_model::{FilePath, Finding, FindingCode};

use crate::config::Candidate;

pub(super) fn check(candidate: &Candidate) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |message: String, hint: &str| {
        findings.push(Finding::error(FindingCode::ConfigInvalid, format!("{}: {message}", candidate.name)).hint(hint));
    };
    let templates = &candidate.templates;
    let names = [
        ("maps", templates.maps.keys().collect::<Vec<_>>()),
        ("general", templates.files.keys().collect()),
        ("ssl", templates.certificates.keys().chain(templates.crt_lists.keys()).collect()),
    ];
    for (folder, names) in names {
        for name in names {
            if let Err(error) = FilePath::new(&format!("{folder}/{name}")) {
                report(error.to_string(), "rename the file");
            }
        }
    }
    for name in templates.certificates.keys().filter(|name| templates.crt_lists.contains_key(*name)) {
        report(format!("`ssl/{name}` is both a certificate and a crt-list"), "rename one of them");
    }
    if candidate.watched.is_empty() {
        report("watchedResources names no resource".to_owned(), "name what the templates read, e.g. ingresses");
    }
    let mut named = Vec::new();
    for plugin in &candidate.plugins {
        if named.contains(&&plugin.raw.name) {
            report(format!("plugins names `{}` twice", plugin.raw.name), "name it once");
        }
        named.push(&plugin.raw.name);
    }
    for validator in &candidate.validators {
        if named.iter().all(|name| ***name != *validator.plugin) {
            let message = format!("validators names the plugin `{}`, which plugins does not", validator.plugin);
            report(message, "add it to plugins, or correct the name");
        }
    }
    findings
}
