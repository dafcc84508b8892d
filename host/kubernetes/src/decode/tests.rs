#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use serde::de::DeserializeSeed as _;
use serde_json::{Value, json};

use super::{transcribe::Transcribe, *};

fn served() -> Served {
    Served { api_version: "v1".into(), resources: "things".into(), kind: "Thing".into(), namespaced: true }
}

fn transcribe(text: &str) -> Result<Transcribed, serde_json::Error> {
    Transcribe { api_version: "v1", kind: "Thing" }.deserialize(&mut serde_json::Deserializer::from_str(text))
}

#[test]
fn an_object_is_written_without_what_is_never_stored() {
    let object = json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {
            "name": "a", "namespace": "shop", "resourceVersion": "7",
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "x" },
            "managedFields": [{ "manager": "kubectl", "fieldsV1": { "f:spec": {} } }],
            "labels": { "managedFields": "a label", "resourceVersion": "another" },
        },
        "spec": { "managedFields": [1], "annotations": { "kubectl.kubernetes.io/last-applied-configuration": 1 },
                  "metadata": { "resourceVersion": "template" }, "kind": "inner" },
        "status": null, "list": [[], {}, [1, -2, 2.5, 18_446_744_073_709_551_615_u64, true, "\"\\\n\u{1}é"]],
    });
    let transcribed = transcribe(&object.to_string()).unwrap();
    assert_eq!(transcribed.name.as_deref(), Some("a"));
    assert_eq!(transcribed.namespace.as_deref(), Some("shop"));
    assert_eq!(transcribed.resource_version, "7");
    let mut expected = object;
    expected["apiVersion"] = json!("v1");
    expected["kind"] = json!("Thing");
    let metadata = expected["metadata"].as_object_mut().unwrap();
    metadata.remove("managedFields");
    metadata.remove("resourceVersion");
    metadata["annotations"].as_object_mut().unwrap().remove("kubectl.kubernetes.io/last-applied-configuration");
    assert_eq!(serde_json::from_str::<Value>(&transcribed.json).unwrap(), expected);
}

#[test]
fn two_states_that_differ_in_their_version_only_have_the_same_text() {
    let text = |version: &str| {
        let object = json!({ "metadata": { "name": "a", "resourceVersion": version, "managedFields": [version] } });
        transcribe(&object.to_string()).unwrap().json
    };
    assert_eq!(text("1"), text("2"));
}

#[test]
fn what_is_no_object_of_the_api_is_malformed() {
    let mut decoder = Decoder::new(Arc::new(served()), Extent::Whole);
    for text in ["[]", "{", "null", r#"{"metadata":{"name":7}}"#, r#"{"a":}"#] {
        assert!(transcribe(text).is_err(), "{text}");
    }
    for text in ["{}", r#"{"metadata":{}}"#, r#"{"metadata":{"name":""}}"#, r#"{"metadata":null}"#] {
        let transcribed = transcribe(text).unwrap();
        assert!(matches!(decoder.object(transcribed), Err(Malformed::Nameless)), "{text}");
    }
}

#[test]
fn objects_of_a_namespace_share_its_name() {
    let mut decoder = Decoder::new(Arc::new(served()), Extent::Whole);
    let mut object = |name: &str, namespace: &str| {
        let object = json!({ "metadata": { "name": name, "namespace": namespace } });
        decoder.object(transcribe(&object.to_string()).unwrap()).unwrap()
    };
    let (a, b, c) = (object("a", "x"), object("b", "x"), object("c", "y"));
    assert!(Arc::ptr_eq(&a.namespace, &b.namespace) && Arc::ptr_eq(&a.kind, &c.kind));
    assert_eq!((&*b.namespace, &*c.namespace, &*c.kind, &*c.api_version), ("x", "y", "Thing", "v1"));
    assert_eq!(c.value()["metadata"]["name"], "c");
}

#[test]
fn every_type_of_event_is_read() {
    let event = |text: &str| read_event(text.as_bytes(), &served());
    let added = r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"5"}}}"#;
    let Ok(Event::Upsert(object)) = event(added) else { panic!("{added}") };
    assert_eq!(object.version().as_str(), "5");
    let deleted = r#"{"object":{"metadata":{"name":"a","resourceVersion":"6"}},"type":"DELETED","more":[1]}"#;
    assert!(matches!(event(deleted), Ok(Event::Delete(object)) if object.version().as_str() == "6"));
    let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"Thing","metadata":{"resourceVersion":"9",
                       "annotations":{"k8s.io/initial-events-end":"true"}},"spec":{}}}"#;
    assert!(matches!(event(bookmark), Ok(Event::Bookmark { ends_initial_events: true, .. })));
    let plain = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
    assert!(matches!(event(plain), Ok(Event::Bookmark { ends_initial_events: false, .. })));
    let error = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
                    "message":"too old resource version: 1 (9)","reason":"Expired","code":410}}"#;
    let Ok(Event::Error(status)) = event(error) else { panic!("{error}") };
    assert_eq!(crate::Refusal::from(status).to_string(), "410 Expired: too old resource version: 1 (9)");
    assert!(matches!(event(r#"{"type":"NEW","object":{}}"#), Err(Malformed::UnknownEvent(kind)) if kind == "NEW"));
    for broken in ["", "{}", r#"{"type":"ADDED"}"#, r#"{"type":"ADDED","object":{}} {}"#, r#"{"type":"ADDED","obj"#] {
        assert!(matches!(event(broken), Err(Malformed::Json(_))), "{broken}");
    }
}

#[test]
fn a_page_that_was_cut_is_no_shorter_list() {
    let body = json!({
        "kind": "ThingList", "apiVersion": "v1", "metadata": { "resourceVersion": "12", "continue": "t" },
        "items": [{ "metadata": { "name": "a" } }, { "metadata": { "name": "b" } }],
    });
    let body = body.to_string();
    let page = read_page(body.as_bytes(), &served()).unwrap();
    assert_eq!((page.version.as_str(), page.next.as_deref(), page.items.len()), ("12", Some("t"), 2));
    for end in 0..body.len() {
        assert!(read_page(&body.as_bytes()[..end], &served()).is_err(), "{}", &body[..end]);
    }
    let last = read_page(br#"{"metadata":{"resourceVersion":"1","continue":""},"items":null}"#, &served()).unwrap();
    assert!(last.next.is_none() && last.items.is_empty());
    let unversioned = read_page(br#"{"metadata":{},"items":[]}"#, &served());
    assert!(matches!(unversioned, Err(Malformed::Unversioned)));
    assert!(read_page(br#"{"metadata":{"resourceVersion":"1"}}"#, &served()).is_err(), "no items is not no objects");
}

proptest! {
    /// Whatever an object holds, its text reads as the same value.
    #[test]
    fn the_text_of_an_object_has_its_value(value in any_json()) {
        let object = json!({ "metadata": { "name": "a" }, "spec": value });
        let transcribed = transcribe(&object.to_string()).unwrap();
        let read: Value = serde_json::from_str(&transcribed.json).unwrap();
        prop_assert_eq!(&read["spec"], &object["spec"]);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Few digits: reading JSON is exact to the last bit for those only.
        any::<i16>().prop_map(|number| Value::from(f64::from(number) / 64.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}
