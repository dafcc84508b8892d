//! What is wrong with which object, so much of it as a person can read.

use std::collections::BTreeMap;

use haptic_model::{Finding, FindingCode, Severity};
use serde::Serialize;

use crate::overview::document::Listed;

/// Objects with something wrong that are shown; all are counted.
const OBJECTS: usize = 100;
/// Findings of one object, or of a configuration, that are shown.
const FINDINGS: usize = 10;
/// Bytes of a text that are shown.
const TEXT: usize = 1_000;

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Objects {
    /// With an error: they are not served, or not as they want.
    pub errors: usize,
    /// With warnings only.
    pub warnings: usize,
    /// Those with errors first.
    pub shown: Vec<ObjectEntry>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectEntry {
    pub name: String,
    pub severity: Severity,
    pub total: usize,
    pub findings: Vec<FindingEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FindingEntry {
    pub severity: Severity,
    pub code: FindingCode,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
}

// === impl Objects ===

impl Objects {
    /// Of all of these, by object, each once.
    pub(super) fn of<'a>(findings: impl Iterator<Item = &'a Finding>) -> Self {
        let mut grouped: BTreeMap<String, Vec<&Finding>> = BTreeMap::new();
        for finding in findings {
            let name = match (&finding.object, &finding.location) {
                (Some(object), _) => object.to_string(),
                (None, Some(location)) => location.file.to_string(),
                (None, None) => "configuration".to_owned(),
            };
            let known = grouped.entry(name).or_default();
            if !known.contains(&finding) {
                known.push(finding);
            }
        }
        let is_error = |findings: &[&Finding]| findings.iter().any(|finding| finding.severity == Severity::Error);
        let errors = grouped.values().filter(|findings| is_error(findings)).count();
        let warnings = grouped.len() - errors;
        let mut shown: Vec<_> = grouped.into_iter().collect();
        shown.sort_by_key(|(_, findings)| !is_error(findings));
        let shown = shown.into_iter().take(OBJECTS).map(|(name, mut findings)| {
            findings.sort_by_key(|finding| finding.severity == Severity::Warning);
            ObjectEntry {
                name: cut(&name),
                severity: if is_error(&findings) { Severity::Error } else { Severity::Warning },
                total: findings.len(),
                findings: findings.iter().take(FINDINGS).map(|finding| FindingEntry::of(finding)).collect(),
            }
        });
        Self { errors, warnings, shown: shown.collect() }
    }
}

// === impl FindingEntry ===

impl FindingEntry {
    fn of(finding: &Finding) -> Self {
        Self {
            severity: finding.severity,
            code: finding.code,
            message: cut(&finding.message),
            object: finding.object.as_ref().map(|object| cut(&object.to_string())),
            at: finding.location.as_ref().map(|location| cut(&location.to_string())),
            next_step: finding.hint.as_deref().map(cut),
        }
    }
}

pub(super) fn entries(findings: &[Finding]) -> Vec<FindingEntry> {
    findings.iter().take(FINDINGS).map(FindingEntry::of).collect()
}

pub(super) fn listed(findings: &[Finding]) -> Listed<FindingEntry> {
    Listed { total: findings.len(), shown: entries(findings) }
}

pub(super) fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT);
    if end < text.len() { format!("{}…", &text[..end]) } else { text.to_owned() }
}
