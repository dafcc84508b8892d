//! What `wit/` says, in Rust: generated. Only the [`crate::export!`] macro names it.
#![allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]

/// What a plugin may import, once for all contracts.
pub mod imports {
    wit_bindgen::generate!({
        path: "../wit/haptic-plugin-1.0.0",
        world: "haptic:plugin/imports",
        generate_all,
    });
}

/// Exports of an auxiliary-file validator.
pub mod auxiliary_file {
    wit_bindgen::generate!({
        path: "../wit/haptic-plugin-1.0.0",
        world: "haptic:plugin/auxiliary-file",
        with: {
            "haptic:plugin/types@1.0.0": crate::bindings::imports::haptic::plugin::types,
            "haptic:plugin/files@1.0.0": crate::bindings::imports::haptic::plugin::files,
            "haptic:plugin/logging@1.0.0": crate::bindings::imports::haptic::plugin::logging,
        },
        pub_export_macro: true,
        export_macro_name: "export_auxiliary_file",
    });
}

/// Exports of a rendered-output validator.
pub mod rendered_output {
    wit_bindgen::generate!({
        path: "../wit/haptic-plugin-1.0.0",
        world: "haptic:plugin/rendered-output",
        with: {
            "haptic:plugin/types@1.0.0": crate::bindings::imports::haptic::plugin::types,
            "haptic:plugin/files@1.0.0": crate::bindings::imports::haptic::plugin::files,
            "haptic:plugin/logging@1.0.0": crate::bindings::imports::haptic::plugin::logging,
        },
        pub_export_macro: true,
        export_macro_name: "export_rendered_output",
    });
}

/// Exports of template filters.
pub mod filters {
    wit_bindgen::generate!({
        path: "../wit/haptic-plugin-1.0.0",
        world: "haptic:plugin/filters",
        with: {
            "haptic:plugin/types@1.0.0": crate::bindings::imports::haptic::plugin::types,
            "haptic:plugin/files@1.0.0": crate::bindings::imports::haptic::plugin::files,
            "haptic:plugin/logging@1.0.0": crate::bindings::imports::haptic::plugin::logging,
        },
        pub_export_macro: true,
        export_macro_name: "export_filters",
    });
}
