//! What `_global` adds to a test.

use haptic_api::ValidationTest;
use serde_json::Value;

use crate::config::merge_values;

/// The test's own objects win over global ones of the same identity; assertions add up.
pub(super) fn prepare(test: &ValidationTest, global: Option<&ValidationTest>) -> ValidationTest {
    let mut prepared = test.clone();
    let Some(global) = global else { return prepared };
    for (resource, objects) in &global.fixtures {
        let own = prepared.fixtures.entry(resource.clone()).or_default();
        let added: Vec<_> = objects
            .iter()
            .filter(|object| own.iter().all(|known| identity(known) != identity(object)))
            .cloned()
            .collect();
        own.extend(added);
    }
    let own = std::mem::replace(&mut prepared.extra_context, global.extra_context.clone());
    merge_values(&mut prepared.extra_context, own);
    for resource in &global.http_resources {
        if prepared.http_resources.iter().all(|own| own.url != resource.url) {
            prepared.http_resources.push(resource.clone());
        }
    }
    prepared.assertions.extend(global.assertions.iter().cloned());
    prepared
}

fn identity(object: &Value) -> [Option<&str>; 4] {
    ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"]
        .map(|pointer| object.pointer(pointer).and_then(Value::as_str))
}
