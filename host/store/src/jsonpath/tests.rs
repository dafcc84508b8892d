#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use super::*;

fn find(path: &str, value: &Value) -> Vec<Value> {
    path.parse::<JsonPath>().unwrap().find(value).into_iter().cloned().collect()
}

#[test]
fn reads_every_notation_of_kubernetes() {
    let object = json!({
        "metadata": { "name": "a", "labels": { "kubernetes.io/service-name": "shop" } },
        "spec": { "ports": [{ "port": 80 }, { "port": 443 }] },
    });
    for path in [
        "metadata.labels['kubernetes.io/service-name']",
        "metadata.labels[\"kubernetes.io/service-name\"]",
        "metadata.labels.kubernetes\\.io/service-name",
        "{.metadata.labels.kubernetes\\.io/service-name}",
        "{ .metadata.labels['kubernetes.io/service-name'] }",
        "$.metadata.labels['kubernetes.io/service-name']",
        "$['metadata']['labels']['kubernetes.io/service-name']",
        ".metadata.labels.['kubernetes.io/service-name']",
    ] {
        assert_eq!(find(path, &object), [json!("shop")], "{path}");
    }
    assert_eq!(find("spec.ports[0].port", &object), [json!(80)]);
    assert_eq!(find("spec.ports[-1].port", &object), [json!(443)]);
    assert_eq!(find("spec.ports[*].port", &object), [json!(80), json!(443)]);
    assert!(find("spec.ports[7].port", &object).is_empty());
    assert!(find("metadata.name.inner", &object).is_empty());
}

#[test]
fn refuses_what_it_does_not_understand() {
    for path in [
        "",
        "$",
        "{}",
        "{.a",
        "a..b",
        "a.",
        "a[",
        "a['b",
        "a['b'",
        "a[?(@.b=='c')]",
        "a[0:2]",
        "a b",
        "$..a",
        "a[b]",
        "a]",
        "a\\",
        "['a']b",
    ] {
        assert!(path.parse::<JsonPath>().is_err(), "{path}");
    }
}

#[test]
fn removes_fields_items_and_everything_inside() {
    let remove = |path: &str| {
        let mut value = json!({ "a": { "b": 1, "c": [{ "d": 1, "e": 2 }, { "d": 3 }] } });
        path.parse::<JsonPath>().unwrap().remove(&mut value);
        value
    };
    assert_eq!(remove("a.b"), json!({ "a": { "c": [{ "d": 1, "e": 2 }, { "d": 3 }] } }));
    assert_eq!(remove("a.c[*].d"), json!({ "a": { "b": 1, "c": [{ "e": 2 }, {}] } }));
    assert_eq!(remove("a.c[0]"), json!({ "a": { "b": 1, "c": [{ "d": 3 }] } }));
    assert_eq!(remove("a.x.y"), json!({ "a": { "b": 1, "c": [{ "d": 1, "e": 2 }, { "d": 3 }] } }));
}
