//! Holds a rendered configuration against rules that HAProxy does not know: directives that nobody may use, directives
//! that must be there, and the oldest TLS version that a listener may speak.
#![forbid(unsafe_code)]

mod certificates;
mod rules;
mod section;
mod tls;

use haptic_plugin_sdk::{Lines, PluginError, RenderedOutput, RenderedOutputValidator, Report};
use parts::{Findings, First, Words, first};

use crate::{
    rules::{Config, Rules},
    section::Section,
    tls::TlsRule,
};

/// The validator.
pub struct Policy {
    rules: Rules,
    tls: Option<TlsRule>,
}

impl RenderedOutputValidator for Policy {
    type Config = Config;

    fn new(config: Config) -> Result<Self, String> {
        let tls = config.min_tls_version.map(TlsRule::new);
        Ok(Self { rules: Rules::new(config)?, tls })
    }

    fn validate(&self, request: &RenderedOutput) -> Result<Report, PluginError> {
        let file = &request.config;
        let mut findings = Findings::default();
        let mut required = self.rules.required();
        let mut tls = self.tls.map(|rule| rule.check(file));
        let mut section = Section::None;
        let mut words = Words::default();
        let mut lines = Lines::of(file);
        while let Some(line) = lines.next_line() {
            // Most lines are about nothing here, which their first word tells.
            match first(line.text) {
                First::Nothing => continue,
                First::Plain(word) => {
                    if let Some(next) = Section::starting_with(word) {
                        section = next;
                        continue;
                    }
                    let of_interest = self.rules.are_about(word) || (tls.is_some() && tls::is_about(word));
                    if !of_interest {
                        continue;
                    }
                    words.split(line.number, line.text);
                }
                First::Quoted => {
                    words.split(line.number, line.text);
                    if let Some(next) = words.get(0).and_then(Section::starting_with) {
                        section = next;
                        continue;
                    }
                }
            }
            self.rules.forbid(file, section, &words, &mut findings);
            required.see(section, &words);
            if let Some(tls) = &mut tls {
                tls.see(section, &words, &mut findings);
            }
        }
        required.finish(file, &mut findings);
        if let Some(tls) = tls {
            tls.finish(&request.files, &mut findings);
        }
        Ok(findings.finish(|| file.whole()))
    }
}

haptic_plugin_sdk::export! { rendered_output: Policy }

#[cfg(test)]
mod tests {
    use haptic_plugin_sdk::testing;

    use super::*;

    #[test]
    fn cases() {
        testing::check_rendered_output_cases::<Policy>(concat!(env!("CARGO_MANIFEST_DIR"), "/cases"));
    }

    #[test]
    fn refuses_an_empty_directive() {
        let config = serde_json::json!({ "forbidden": [{ "directive": " ", "reason": "no" }] });
        let refused = testing::validate_rendered_output::<Policy>(config, &testing::rendered_output(""));
        assert!(matches!(refused, Err(testing::TestError::Config(message)) if message.contains("forbidden")));
    }
}
