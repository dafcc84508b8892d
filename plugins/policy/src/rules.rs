//! Directives that must not, or must, be there.

use haptic_plugin_sdk::File;
use parts::{Findings, Words};
use serde::Deserialize;

use crate::{section::Section, tls::TlsVersion};

/// What can be set. Everything is off unless it is named.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Config {
    /// Directives that must not stand in the configuration.
    forbidden: Vec<DirectiveRule>,
    /// Directives that must stand in it at least once.
    required: Vec<DirectiveRule>,
    /// The oldest TLS version that a `bind … ssl` may speak, e.g. `TLSv1.2`.
    pub(crate) min_tls_version: Option<TlsVersion>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct DirectiveRule {
    /// The words that the line begins with, e.g. `stats socket` or `option httplog`.
    directive: String,
    /// Why, for the person who reads the finding.
    reason: String,
    /// The kinds of sections that the rule is about. Default: all.
    #[serde(default)]
    sections: Vec<SectionName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SectionName {
    Global,
    Defaults,
    Frontend,
    Backend,
    Listen,
}

pub(crate) struct Rules {
    forbidden: Vec<Rule>,
    required: Vec<Rule>,
}

struct Rule {
    words: Vec<String>,
    reason: String,
    sections: Vec<Section>,
}

/// Which required directives were seen so far.
pub(crate) struct Required<'a> {
    missing: Vec<&'a Rule>,
}

// === impl Rules ===

impl Rules {
    pub(crate) fn new(config: Config) -> Result<Self, String> {
        let rules = |field: &str, rules: Vec<DirectiveRule>| {
            rules.into_iter().map(|rule| Rule::new(field, rule)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self { forbidden: rules("forbidden", config.forbidden)?, required: rules("required", config.required)? })
    }

    /// Whether a line that begins with `word` may be of interest. This is asked for every line.
    pub(crate) fn are_about(&self, word: &[u8]) -> bool {
        self.forbidden.iter().chain(&self.required).any(|rule| rule.words[0].as_bytes() == word)
    }

    pub(crate) fn forbid(&self, file: &File, section: Section, words: &Words, report: &mut Findings) {
        for rule in self.forbidden.iter().filter(|rule| rule.matches(section, words)) {
            let message = format!("`{}` is forbidden: {}", rule.words.join(" "), rule.reason);
            report.error(words.position(0, file), message);
        }
    }

    pub(crate) fn required(&self) -> Required<'_> {
        Required { missing: self.required.iter().collect() }
    }
}

// === impl Rule ===

impl Rule {
    fn new(field: &str, rule: DirectiveRule) -> Result<Self, String> {
        let words: Vec<String> = rule.directive.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            return Err(format!("`{field}[].directive` must be the first words of a line, e.g. `option httplog`"));
        }
        let sections = rule.sections.into_iter().map(Section::from).collect();
        Ok(Self { words, reason: rule.reason, sections })
    }

    fn matches(&self, section: Section, words: &Words) -> bool {
        (self.sections.is_empty() || self.sections.contains(&section)) && words.begin_with(&self.words)
    }
}

// === impl Required ===

impl Required<'_> {
    pub(crate) fn see(&mut self, section: Section, words: &Words) {
        self.missing.retain(|rule| !rule.matches(section, words));
    }

    pub(crate) fn finish(self, file: &File, report: &mut Findings) {
        for rule in self.missing {
            let message = format!("`{}` is required and stands nowhere: {}", rule.words.join(" "), rule.reason);
            report.error(file.whole(), message);
        }
    }
}

// === impl Section ===

impl From<SectionName> for Section {
    fn from(name: SectionName) -> Self {
        match name {
            SectionName::Global => Self::Global,
            SectionName::Defaults => Self::Defaults,
            SectionName::Frontend => Self::Frontend,
            SectionName::Backend => Self::Backend,
            SectionName::Listen => Self::Listen,
        }
    }
}
