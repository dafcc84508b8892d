#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use super::*;

fn object(metadata: &Value) -> RawObject {
    let value = json!({ "apiVersion": "v1", "kind": "Thing", "spec": { "uid": "not this one" }, "metadata": metadata });
    let source = SourceLocation { file: "a.yaml".into(), line: 1, column: 1 };
    RawObject::new(&value, "default", source).unwrap()
}

#[test]
fn what_the_api_server_writes_is_read_from_the_text() {
    let served = object(&json!({ "name": "a", "uid": "b1b2", "generation": 7, "labels": { "a": "b" } }));
    assert_eq!((served.uid().as_str(), served.generation()), ("b1b2", 7));
    let written = object(&json!({ "name": "a" }));
    assert_eq!((written.uid().as_str(), written.generation()), ("", 0), "a manifest has neither");
    let odd = object(&json!({ "name": "a", "uid": 5, "generation": "first" }));
    assert_eq!((odd.uid().as_str(), odd.generation()), ("", 0));
}
