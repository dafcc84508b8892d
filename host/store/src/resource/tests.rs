#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_model::SourceLocation;
use serde_json::json;

use super::*;

fn spec(resources: &str) -> api::WatchedResource {
    api::WatchedResource {
        api_version: Some("networking.k8s.io/v1".to_owned()),
        resources: resources.to_owned(),
        ..api::WatchedResource::default()
    }
}

fn raw(api_version: &str, kind: &str, namespace: &str) -> RawObject {
    let value = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": { "name": "a", "namespace": namespace, "labels": { "app": "shop" } },
        "spec": { "ingressClassName": "haproxy" },
    });
    let source = SourceLocation { file: "a.yaml".into(), line: 1, column: 1 };
    RawObject::new(&value, namespace, source).unwrap()
}

#[test]
fn a_bad_path_or_selector_is_an_error_that_names_the_resource() {
    let bad = api::WatchedResource {
        index_by: vec!["metadata..name".to_owned(), "spec.rules[*].host".to_owned()],
        ignore_fields: vec!["a[".to_owned()],
        label_selector: Some("app in shop".to_owned()),
        field_selector: Some("nonsense".to_owned()),
        ..spec("ingresses")
    };
    let findings = WatchedResource::new("routes", &bad, &["$".to_owned()]).unwrap_err();
    let messages: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(messages.len(), 6, "{messages:#?}");
    assert!(messages.iter().all(|message| message.contains("watched resource `routes`")), "{messages:#?}");
}

#[test]
fn the_kind_is_told_from_the_plural_name() {
    let cases = [
        ("Ingress", "ingresses"),
        ("EndpointSlice", "endpointslices"),
        ("Endpoints", "endpoints"),
        ("Gateway", "gateways"),
        ("NetworkPolicy", "networkpolicies"),
        ("IngressClass", "ingressclasses"),
        ("Service", "services"),
        ("HTTPRoute", "httproutes"),
    ];
    for (kind, plural) in cases {
        assert_eq!(plural_of(kind), plural);
        assert_eq!(kind_of(plural), kind);
    }
}

#[test]
fn objects_belong_by_version_kind_and_selectors() {
    let resource = WatchedResource::new("ingresses", &spec("ingresses"), &[]).unwrap();
    assert!(resource.owns(&raw("networking.k8s.io/v1", "Ingress", "shop")));
    assert!(!resource.owns(&raw("networking.k8s.io/v1", "IngressClass", "shop")));
    assert!(!resource.owns(&raw("networking.k8s.io/v1beta1", "Ingress", "shop")));

    let narrow = api::WatchedResource {
        namespaces: vec!["shop".to_owned()],
        label_selector: Some("app=shop".to_owned()),
        field_selector: Some("spec.ingressClassName=haproxy".to_owned()),
        ..spec("ingresses")
    };
    let resource = WatchedResource::new("ingresses", &narrow, &[]).unwrap();
    assert!(resource.owns(&raw("networking.k8s.io/v1", "Ingress", "shop")));
    assert!(!resource.owns(&raw("networking.k8s.io/v1", "Ingress", "other")));
}

#[test]
fn an_explicit_kind_and_several_versions_count() {
    let odd = api::WatchedResource {
        api_version: None,
        api_versions: vec!["networking.k8s.io/v1".to_owned(), "networking.k8s.io/v1beta1".to_owned()],
        kind: Some("Ingress".to_owned()),
        ..spec("oddly-named")
    };
    let resource = WatchedResource::new("x", &odd, &[]).unwrap();
    assert!(resource.owns(&raw("networking.k8s.io/v1", "Ingress", "a")));
    assert!(resource.owns(&raw("networking.k8s.io/v1beta1", "Ingress", "a")));
    assert!(!resource.owns(&raw("extensions/v1beta1", "Ingress", "a")));
}
