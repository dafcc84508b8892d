//! Filters that take values out of nested data: JSON Pointer, JSONPath, and JSON Merge Patch.
#![forbid(unsafe_code)]

mod filters;
mod query;

use std::cell::RefCell;

use haptic_plugin_sdk::{Filter, NoConfig, TemplateFilters};

/// The filters; they have nothing to set.
pub struct Pick {
    queries: RefCell<query::Queries>,
}

impl TemplateFilters for Pick {
    type Config = NoConfig;

    const FILTERS: &'static [Filter<Self>] = &[
        Filter::new(
            "json_pointer",
            "What stands at the JSON Pointer `pointer` (RFC 6901), e.g. `/spec/rules/0/host`; `default`, or none, \
             where there is nothing.",
            filters::json_pointer,
        ),
        Filter::new(
            "pick",
            "All that the JSONPath `query` (RFC 9535) selects, as a list, e.g. `$.rules[?@.port > 1024].host`. \
             Without `match` and `search`.",
            filters::pick,
        ),
        Filter::new(
            "pick_one",
            "The one value that the JSONPath `query` selects; `default`, or none, where it selects nothing. Refused \
             where it selects several.",
            filters::pick_one,
        ),
        Filter::new(
            "json_merge_patch",
            "The value changed by `patch` (RFC 7396): maps are merged, none removes, all else replaces.",
            filters::json_merge_patch,
        ),
    ];

    fn new(_: NoConfig) -> Result<Self, String> {
        Ok(Self { queries: RefCell::default() })
    }
}

haptic_plugin_sdk::export! { template_filters: Pick }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases() {
        haptic_plugin_sdk::testing::check_filter_cases::<Pick>(concat!(env!("CARGO_MANIFEST_DIR"), "/cases"));
    }
}
