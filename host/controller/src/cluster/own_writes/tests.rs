#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_model::SourceLocation;
use serde_json::json;

use super::*;

fn ingress(name: &str, version: &str) -> RawObject {
    let object = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": name, "namespace": "shop", "resourceVersion": version },
    });
    RawObject::new(&object, "shop", SourceLocation { file: "".into(), line: 0, column: 0 }).unwrap()
}

#[test]
fn only_the_very_version_that_was_written_is_an_echo() {
    let writes = OwnWrites::default();
    assert!(!writes.made(&ingress("a", "5")));
    writes.wrote(ingress("a", "4").key(), "5");
    assert!(writes.made(&ingress("a", "5")));
    assert!(!writes.made(&ingress("a", "6")), "somebody wrote after us");
    assert!(!writes.made(&ingress("b", "5")));
    writes.wrote(ingress("a", "6").key(), "7");
    assert!(writes.made(&ingress("a", "7")));
}

#[test]
fn what_is_remembered_is_bounded() {
    let writes = OwnWrites::default();
    for number in 0..=REMEMBERED {
        writes.wrote(ingress(&format!("i{number}"), "1").key(), "2");
    }
    let known = writes.0.lock();
    assert_eq!((known.versions.len(), known.order.len()), (REMEMBERED, REMEMBERED));
    drop(known);
    assert!(!writes.made(&ingress("i0", "2")), "the oldest");
    assert!(writes.made(&ingress("i1", "2")));
}
