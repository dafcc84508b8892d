#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_api as api;
use haptic_store::{Store, WatchedResource};

use super::*;

fn pinned(name: &str, versions: &[&str], version: &str, change: impl Fn(&mut api::WatchedResource)) -> Pinned {
    let mut spec = api::WatchedResource {
        api_versions: versions.iter().map(|version| (*version).to_owned()).collect(),
        resources: "widgets".to_owned(),
        enable_validation_webhook: true,
        ..api::WatchedResource::default()
    };
    change(&mut spec);
    Pinned { resource: WatchedResource::new(name, &spec, &[]).unwrap(), api_version: version.into() }
}

fn widgets() -> Registered {
    let versions = ["example.com/v1", "example.com/v1beta1"];
    Registered::new(vec![
        pinned("all", &versions, "example.com/v1", |_| {}),
        pinned("red", &versions, "example.com/v1", |spec| {
            spec.label_selector = Some("color=red".to_owned());
            spec.enable_validation_webhook = false;
        }),
        pinned("others", &["example.org/v1"], "example.org/v1", |spec| spec.enable_validation_webhook = false),
    ])
}

fn request(change: Value) -> Request {
    let mut request = json!({
        "uid": "u-1", "name": "w", "namespace": "shop", "operation": "CREATE",
        "kind": { "group": "example.com", "version": "v1", "kind": "Widget" },
        "resource": { "group": "example.com", "version": "v1", "resource": "widgets" },
        "object": {
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w", "namespace": "shop" },
        },
    });
    for (name, value) in change.as_object().unwrap() {
        request[name] = value.clone();
    }
    serde_json::from_value(request).unwrap()
}

fn of_version(version: &str) -> Request {
    request(json!({
        "kind": { "group": "example.com", "version": version, "kind": "Widget" },
        "object": {
            "apiVersion": format!("example.com/{version}"), "kind": "Widget",
            "metadata": { "name": "w", "namespace": "shop", "labels": { "color": "red" } },
        },
    }))
}

#[test]
fn every_alias_of_the_kind_sees_the_proposal_in_its_own_version() {
    for (version, other) in [("v1", false), ("v1beta1", true), ("v2", true)] {
        let proposed = widgets().propose(&of_version(version)).unwrap();
        assert_eq!(proposed.other_version, other, "{version}");
        let resources: Vec<_> = proposed.proposal.changes.iter().map(|(name, _)| &**name).collect();
        assert_eq!(resources, ["all", "red"]);
        let mut store = Store::new(widgets().0.iter().map(|pinned| pinned.resource.clone()).collect());
        let overlay = store.overlay(&proposed.proposal.changes).unwrap();
        for name in ["all", "red"] {
            let found = overlay.snapshot.list(name).unwrap();
            let value = serde_json::to_value(found[0].as_value()).unwrap();
            assert_eq!(value["apiVersion"], "example.com/v1", "templates read one version");
        }
    }
}

#[test]
fn a_label_is_one_of_a_closed_set() {
    let label = |request: &Request| widgets().label(request);
    assert_eq!(label(&request(json!({}))).as_deref(), Some("example.com/v1/Widget"));
    assert_eq!(label(&of_version("v9")).as_deref(), Some("example.com/v1/Widget"), "whatever the version");
    let of_group = |group: &str| request(json!({ "resource": { "group": group, "resource": "widgets" } }));
    assert_eq!(label(&of_group("example.org")), None, "watched and not switched on");
    assert_eq!(label(&of_group("example.net")), None, "not watched");
    let invented = request(json!({ "kind": { "group": "example.com", "version": "v1", "kind": "Invented" } }));
    assert_eq!(label(&invented), None);
}

#[test]
fn a_deletion_takes_the_object_out_of_every_alias() {
    let deleted = widgets().propose(&request(json!({ "operation": "DELETE", "object": null }))).unwrap();
    assert_eq!(deleted.proposal.object, ObjectRef::new("Widget", "shop", "w"));
    let mut store = Store::new(widgets().0.iter().map(|pinned| pinned.resource.clone()).collect());
    let created = widgets().propose(&of_version("v1")).unwrap();
    for (name, change) in &created.proposal.changes {
        store.apply(name, std::slice::from_ref(change)).unwrap();
    }
    assert_eq!(store.snapshot().len(), 2);
    assert!(store.overlay(&deleted.proposal.changes).unwrap().snapshot.is_empty());
}

#[test]
fn an_object_that_is_yet_to_be_named_has_a_name_of_its_own() {
    let generated = json!({ "name": "", "object": {
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "generateName": "w-", "namespace": "shop" },
    } });
    let proposed = widgets().propose(&request(generated)).unwrap();
    assert_eq!(&*proposed.proposal.object.name, "w-u-1");
}

#[test]
fn a_write_without_an_object_proposes_nothing() {
    assert!(matches!(widgets().propose(&request(json!({ "object": null }))), Err(Unfit::NoObject)));
    assert!(matches!(widgets().propose(&request(json!({ "object": { "kind": "x" } }))), Err(Unfit::NoIdentity)));
}
