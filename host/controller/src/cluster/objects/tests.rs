#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_model::SourceLocation;
use haptic_store::RawObject;
use serde_json::json;

use super::*;

#[test]
fn the_answer_to_a_write_is_known_when_the_watch_brings_it() {
    let answer = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "namespace": "shop", "name": "web", "resourceVersion": "7" },
    });
    let own_writes = OwnWrites::default();
    record(&own_writes, &answer);
    let source = SourceLocation { file: "watch".into(), line: 0, column: 0 };
    let raw = |version: &str| {
        let mut object = answer.clone();
        object["metadata"]["resourceVersion"] = json!(version);
        RawObject::new(&object, "shop", source.clone()).unwrap()
    };
    assert!(own_writes.made(&raw("7")));
    assert!(!own_writes.made(&raw("8")));
}
