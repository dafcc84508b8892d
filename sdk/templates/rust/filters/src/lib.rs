//! Filters for texts.
//!
//! A plugin needs no unsafe code, and this one refuses it.
#![forbid(unsafe_code)]

use haptic_plugin_sdk::{Arguments, Filter, FilterError, TemplateFilters};
use serde::Deserialize;
use serde_json::Value;

/// How long a text may be where the template does not say.
const DEFAULT_LENGTH: u64 = 20;

/// The filters.
pub struct Filters {
    config: Config,
}

/// What can be set in the plugin's `config`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Config {
    /// What stands where a text was cut. Default `...`.
    mark: String,
}

impl Default for Config {
    fn default() -> Self {
        Self { mark: "...".to_owned() }
    }
}

impl Filters {
    fn shorten(&self, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
        let [length] = arguments.bind(["length"])?;
        let length = length.map_or(Some(DEFAULT_LENGTH), |length| length.as_u64()).filter(|length| *length > 0);
        let (Some(text), Some(length)) = (value.as_str(), length) else {
            return Err(FilterError::refused("the value must be a string and `length` a whole number from 1"));
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(match text.char_indices().nth(length) {
            Some((end, _)) => format!("{}{}", &text[..end], self.config.mark).into(),
            None => value,
        })
    }
}

impl TemplateFilters for Filters {
    type Config = Config;
    const FILTERS: &'static [Filter<Self>] =
        &[Filter::new("shorten", "The text, cut to `length` characters (default 20).", Self::shorten)];

    fn new(config: Config) -> Result<Self, String> {
        Ok(Self { config })
    }
}

haptic_plugin_sdk::export! { template_filters: Filters }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases() {
        haptic_plugin_sdk::testing::check_filter_cases::<Filters>(concat!(env!("CARGO_MANIFEST_DIR"), "/cases"));
    }
}
