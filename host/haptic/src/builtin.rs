//! The first-party plugins that this binary carries.

use std::collections::BTreeMap;

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Modules by their name in `spec.module.builtin.name`.
pub(crate) fn modules() -> BTreeMap<String, &'static [u8]> {
    EMBEDDED.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect()
}
