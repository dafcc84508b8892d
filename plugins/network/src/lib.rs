//! Filters for addresses and networks.
#![forbid(unsafe_code)]

mod networks;

use haptic_plugin_sdk::{Filter, NoConfig, TemplateFilters};

/// The filters; they have nothing to set.
pub struct Network;

impl TemplateFilters for Network {
    type Config = NoConfig;

    const FILTERS: &'static [Filter<Self>] = &[
        Filter::new(
            "cidr_contains",
            "Whether a network, or any network of a list, contains all of `address`, which is an address or a network.",
            networks::cidr_contains,
        ),
        Filter::new(
            "cidr_collapse",
            "The fewest networks that together are exactly the addresses and networks of the list, sorted, IPv4 first.",
            networks::cidr_collapse,
        ),
        Filter::new(
            "cidr_normalize",
            "An address or network as a network with no bit set after its prefix: `10.1.2.3/8` gives `10.0.0.0/8`.",
            networks::cidr_normalize,
        ),
        Filter::new("ip_version", "4 or 6, for an address or a network.", networks::ip_version),
    ];

    fn new(_: NoConfig) -> Result<Self, String> {
        Ok(Self)
    }
}

haptic_plugin_sdk::export! { template_filters: Network }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases() {
        haptic_plugin_sdk::testing::check_filter_cases::<Network>(concat!(env!("CARGO_MANIFEST_DIR"), "/cases"));
    }
}
