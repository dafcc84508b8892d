//! Filters that write passwords as crypt(3) does, for the `userlist` sections of HAProxy.
//!
//! Each takes its salt as an argument, because a filter has no randomness.
#![forbid(unsafe_code)]

mod arguments;
mod encoding;
mod formats;
mod md5;

use haptic_plugin_sdk::{Filter, TemplateFilters};
use serde::Deserialize;

/// The filters.
pub struct Password {
    config: Config,
}

/// What can be set.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Config {
    /// Whether `md5_crypt` answers. Default false.
    allow_weak: bool,
}

impl TemplateFilters for Password {
    type Config = Config;

    const FILTERS: &'static [Filter<Self>] = &[
        Filter::new(
            "sha256_crypt",
            "The password as `$5$…`. `salt`: 1 to 16 of `./0-9A-Za-z`, another for every user. `rounds`: 1000 to \
             50000, by default 5000.",
            formats::sha256_crypt,
        ),
        Filter::new(
            "sha512_crypt",
            "The password as `$6$…`. `salt`: 1 to 16 of `./0-9A-Za-z`, another for every user. `rounds`: 1000 to \
             50000, by default 5000.",
            formats::sha512_crypt,
        ),
        Filter::new(
            "bcrypt",
            "The password, at most 72 bytes, as `$2b$…`, or with `variant=\"2y\"` as `$2y$…`. `salt`: exactly 16 of \
             `./0-9A-Za-z`, another for every user. `cost`: 4 to 10, by default 8.",
            formats::bcrypt,
        ),
        Filter::new(
            "yescrypt",
            "The password as `$y$…`. `salt`: 1 to 16 of `./0-9A-Za-z`, another for every user. `cost`: 1 to 5, by \
             default 5, which takes 16 MiB.",
            formats::yescrypt,
        ),
        Filter::new(
            "md5_crypt",
            "The password as `$1$…`: weak, and refused unless the plugin's config says `allowWeak`. `salt`: 1 to 8 of \
             `./0-9A-Za-z`.",
            formats::md5_crypt,
        ),
    ];

    fn new(config: Config) -> Result<Self, String> {
        Ok(Self { config })
    }
}

haptic_plugin_sdk::export! { template_filters: Password }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases() {
        haptic_plugin_sdk::testing::check_filter_cases::<Password>(concat!(env!("CARGO_MANIFEST_DIR"), "/cases"));
    }
}
