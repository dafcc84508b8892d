//! Schema fragments that a derive cannot say.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An object whose fields are the user's own.
pub(crate) fn free_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Any JSON value of the user's own.
pub(crate) fn free_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Lists of whole Kubernetes objects by the name of a watched resource.
pub(crate) fn fixtures(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "type": "array",
            "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        },
    })
}
