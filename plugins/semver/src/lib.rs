//! Filters for semantic versions (semver.org 2.0.0) and ranges of them.
#![forbid(unsafe_code)]

mod filters;
mod read;

use haptic_plugin_sdk::{Filter, NoConfig, TemplateFilters};

/// The filters; they have nothing to set.
pub struct Semver;

impl TemplateFilters for Semver {
    type Config = NoConfig;

    const FILTERS: &'static [Filter<Self>] = &[
        Filter::new(
            "semver_compare",
            "-1, 0 or 1: whether the version comes before, is equal to or comes after `other`. Build metadata does \
             not count.",
            filters::compare,
        ),
        Filter::new(
            "semver_satisfies",
            "Whether the version is in `range`: `^1.2`, `~1.2.3`, `1.*`, `>=1.2, <2`, alternatives with `||`.",
            filters::satisfies,
        ),
        Filter::new(
            "semver_sort",
            "The versions of a list, oldest first, or newest first with `reverse=true`. Equal ones keep their order.",
            filters::sort,
        ),
        Filter::new(
            "semver_max",
            "The newest version of a list, or of those in `range`; none where there is none.",
            filters::max,
        ),
        Filter::new(
            "semver_min",
            "The oldest version of a list, or of those in `range`; none where there is none.",
            filters::min,
        ),
        Filter::new(
            "semver_part",
            "A part of the version: `major`, `minor` or `patch` as a number, `pre` or `build` as text, `minor_series` \
             as `major.minor`.",
            filters::part,
        ),
        Filter::new("semver_valid", "Whether the text is a semantic version.", filters::valid),
    ];

    fn new(_: NoConfig) -> Result<Self, String> {
        Ok(Self)
    }
}

haptic_plugin_sdk::export! { template_filters: Semver }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases() {
        haptic_plugin_sdk::testing::check_filter_cases::<Semver>(concat!(env!("CARGO_MANIFEST_DIR"), "/cases"));
    }
}
