#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_api as api;
use minijinja::{Environment, context};

use super::*;
use crate::{Read, ReadError};

fn resource(name: &str, kind: &str, index_by: &[&str]) -> WatchedResource {
    let spec = api::WatchedResource {
        api_version: Some("v1".to_owned()),
        resources: name.to_owned(),
        kind: Some(kind.to_owned()),
        index_by: index_by.iter().map(|path| (*path).to_owned()).collect(),
        ..api::WatchedResource::default()
    };
    WatchedResource::new(name, &spec, &["status".to_owned()]).unwrap()
}

fn slices() -> Store {
    Store::new(vec![
        resource("slices", "Slice", &["metadata.namespace", "metadata.labels['kubernetes.io/service-name']"]),
        resource("services", "Service", &[]),
    ])
}

fn raw(value: &Value) -> Arc<RawObject> {
    let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default();
    let source = SourceLocation { file: "dir/a.yaml".into(), line: 7, column: 1 };
    Arc::new(RawObject::new(value, namespace, source).unwrap())
}

fn slice(namespace: &str, name: &str, service: &str, port: i64) -> Arc<RawObject> {
    raw(&json!({
        "apiVersion": "v1", "kind": "Slice",
        "metadata": { "namespace": namespace, "name": name, "labels": { "kubernetes.io/service-name": service } },
        "port": port,
    }))
}

fn upsert(object: &Arc<RawObject>) -> RawChange {
    RawChange::Upsert(Arc::clone(object))
}

fn names(objects: &[Arc<Object>]) -> Vec<String> {
    objects.iter().map(|object| object.reference().name.to_string()).collect()
}

fn fetch(key: &[&str]) -> Read {
    Read::Fetch { resource: "slices".into(), keys: key.iter().map(|key| (*key).into()).collect() }
}

#[test]
fn iterates_by_key_then_namespace_and_name_in_any_order_of_input() {
    let objects =
        [slice("b", "z", "shop", 1), slice("a", "y", "web", 1), slice("a", "x", "web", 1), slice("a", "w", "api", 1)];
    let mut forward = slices();
    forward.sync(&objects.iter().map(upsert).collect::<Vec<_>>());
    let mut backward = slices();
    backward.sync(&objects.iter().rev().map(upsert).collect::<Vec<_>>());
    for store in [&forward, &backward] {
        assert_eq!(names(&store.snapshot().list("slices").unwrap()), ["w", "x", "y", "z"]);
        assert_eq!(names(&store.snapshot().fetch("slices", &["a"]).unwrap()), ["w", "x", "y"]);
        assert_eq!(names(&store.snapshot().fetch("slices", &["a", "web"]).unwrap()), ["x", "y"]);
        assert!(store.snapshot().fetch("slices", &["a", "we"]).unwrap().is_empty());
    }
}

#[test]
fn the_components_of_a_key_are_never_taken_for_one_another() {
    let mut store = slices();
    store.sync(&[
        upsert(&slice("a/b", "x", "c", 1)),
        upsert(&slice("a", "y", "b/c", 1)),
        upsert(&slice("a", "z", "", 1)),
    ]);
    let snapshot = store.snapshot();
    assert_eq!(names(&snapshot.fetch("slices", &["a", "b/c"]).unwrap()), ["y"]);
    assert_eq!(names(&snapshot.fetch("slices", &["a/b", "c"]).unwrap()), ["x"]);
    assert_eq!(names(&snapshot.fetch("slices", &["a", ""]).unwrap()), ["z"]);
}

#[test]
fn wrong_reads_are_errors_and_not_empty_answers() {
    let mut store = slices();
    store.sync(&[upsert(&slice("a", "x", "web", 1)), upsert(&slice("a", "y", "web", 1))]);
    let snapshot = store.snapshot();
    assert!(matches!(snapshot.list("slice"), Err(ReadError::UnknownResource { .. })));
    assert!(matches!(snapshot.fetch::<&str>("slices", &[]), Err(ReadError::NoKeys { .. })));
    let too_many = snapshot.fetch("slices", &["a", "b", "c"]).unwrap_err();
    assert_eq!(too_many.to_string(), "reading `slices` with 3 keys, but its index has 2");
    let several = snapshot.get_single("slices", &["a", "web"]).unwrap_err();
    assert_eq!(
        several.to_string(),
        "2 objects of `slices` match `a`, `web`, such as Slice a/x and Slice a/y; get_single() needs at most one"
    );
    assert!(snapshot.get_single("slices", &["a", "none"]).unwrap().is_none());
}

#[test]
fn deleting_one_object_leaves_the_others_with_its_key() {
    let mut store = slices();
    let gone = slice("a", "x", "web", 1);
    store.sync(&[upsert(&gone), upsert(&slice("a", "y", "web", 1))]);
    let changed = store.sync(&[RawChange::Delete(gone.key())]);
    assert_eq!(changed.objects, [ObjectRef::new("Slice", "a", "x")].into());
    assert_eq!(names(&store.snapshot().fetch("slices", &["a", "web"]).unwrap()), ["y"]);
}

#[test]
fn a_changed_key_moves_the_object_at_once_and_earlier_snapshots_stay() {
    let mut store = slices();
    store.sync(&[upsert(&slice("a", "x", "web", 1))]);
    let before = store.snapshot();
    store.sync(&[upsert(&slice("a", "x", "api", 1))]);
    let after = store.snapshot();
    assert_eq!(names(&after.fetch("slices", &["a", "api"]).unwrap()), ["x"]);
    assert!(after.fetch("slices", &["a", "web"]).unwrap().is_empty());
    assert_eq!(after.list("slices").unwrap().len(), 1);
    assert_eq!(names(&before.fetch("slices", &["a", "web"]).unwrap()), ["x"]);
}

#[test]
fn an_object_without_its_key_is_left_out_and_named() {
    let mut store = slices();
    store.sync(&[upsert(&slice("a", "x", "web", 1)), upsert(&slice("a", "y", "web", 1))]);
    let bare = json!({ "apiVersion": "v1", "kind": "Slice", "metadata": { "namespace": "a", "name": "x" } });
    store.sync(&[upsert(&raw(&bare))]);
    assert_eq!(names(&store.snapshot().list("slices").unwrap()), ["y"]);
    let findings = store.findings();
    assert_eq!(findings.len(), 1);
    let text = findings[0].to_string();
    assert!(text.starts_with("Slice a/x: dir/a.yaml:7:1: left out of `slices`: it has no `metadata.labels"), "{text}");
    store.sync(&[upsert(&slice("a", "x", "web", 1))]);
    assert!(store.findings().is_empty(), "it has its key again");
}

#[test]
fn the_same_content_keeps_object_and_serial_even_if_it_moved() {
    let mut store = slices();
    store.sync(&[upsert(&slice("a", "x", "web", 80))]);
    let before = store.snapshot().list("slices").unwrap()[0].clone();
    let same = json!({
        "kind": "Slice", "port": 80.0, "status": { "seen": 5 },
        "metadata": {
            "labels": { "kubernetes.io/service-name": "web" }, "name": "x", "namespace": "a",
            "managedFields": [{ "manager": "kubectl" }],
        },
        "apiVersion": "v1",
    });
    let moved = SourceLocation { file: "dir/b.yaml".into(), line: 70, column: 1 };
    let changed = store.sync(&[RawChange::Upsert(Arc::new(RawObject::new(&same, "a", moved.clone()).unwrap()))]);
    assert!(changed.is_empty());
    let after = store.snapshot().list("slices").unwrap()[0].clone();
    assert!(Arc::ptr_eq(&before, &after));
    assert_eq!(after.source(), Some(moved));

    store.sync(&[upsert(&slice("a", "x", "web", 81))]);
    assert_ne!(store.snapshot().list("slices").unwrap()[0].serial(), before.serial());
}

#[test]
fn stamps_are_equal_exactly_if_the_answers_are() {
    let mut store = slices();
    store.sync(&[upsert(&slice("a", "x", "web", 1)), upsert(&slice("a", "y", "api", 1))]);
    let reads = [fetch(&["a", "web"]), fetch(&["a"]), fetch(&["a", "none"]), Read::List { resource: "slices".into() }];
    let stamps = |store: &Store| reads.clone().map(|read| store.snapshot().stamp(&read));
    let before = stamps(&store);

    store.sync(&[upsert(&slice("a", "x", "web", 1))]);
    assert_eq!(stamps(&store), before, "nothing changed");

    store.sync(&[upsert(&slice("a", "y", "api", 2))]);
    let after = stamps(&store);
    assert_eq!(after[0], before[0], "another object changed");
    assert_ne!(after[1], before[1]);
    assert_eq!(after[2], before[2], "found nothing before and after");
    assert_ne!(after[3], before[3]);

    store.sync(&[upsert(&slice("a", "n", "none", 1))]);
    assert_ne!(stamps(&store)[2], before[2], "now it finds something");

    let unknown = Read::List { resource: "nothing".into() };
    assert_eq!(store.snapshot().stamp(&unknown), store.snapshot().stamp(&unknown));
    assert_ne!(slices().snapshot().stamp(&reads[3]), before[3], "two stores never share a revision");
}

#[test]
fn replacing_all_believes_an_empty_list_and_touches_only_one_resource() {
    let mut store = slices();
    let service = raw(&json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": "a", "name": "s" } }));
    store.sync(&[upsert(&slice("a", "x", "web", 1)), upsert(&service)]);
    store.replace_all("slices", &[slice("a", "y", "web", 1)]).unwrap();
    assert_eq!(names(&store.snapshot().list("slices").unwrap()), ["y"]);
    let changed = store.replace_all("slices", &[]).unwrap();
    assert_eq!(changed.resources, [Arc::from("slices")].into());
    assert!(store.snapshot().list("slices").unwrap().is_empty());
    assert_eq!(store.snapshot().list("services").unwrap().len(), 1);
    assert!(store.replace_all("nothing", &[]).is_err());
}

#[test]
fn an_object_that_leaves_its_selector_is_gone() {
    let mut spec = resource("slices", "Slice", &[]);
    spec.label_selector = "kubernetes.io/service-name=web".parse().unwrap();
    let mut store = Store::new(vec![spec]);
    store.apply("slices", &[upsert(&slice("a", "x", "web", 1))]).unwrap();
    assert_eq!(store.snapshot().len(), 1);
    store.apply("slices", &[upsert(&slice("a", "x", "api", 1))]).unwrap();
    assert!(store.snapshot().is_empty());
}

#[test]
fn templates_read_objects_as_maps_with_sorted_fields() {
    let mut store = slices();
    store.sync(&[upsert(&raw(&json!({
        "apiVersion": "v1", "kind": "Slice",
        "metadata": {
            "namespace": "a", "name": "x", "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": { "kubernetes.io/service-name": "web" },
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "b": "2", "a": "1" },
        },
        "ports": [{ "port": 80.0 }, { "port": 443, "weight": 1.5 }], "flag": true, "none": null,
    })))]);
    let object = store.snapshot().list("slices").unwrap()[0].clone();
    assert_eq!(object.creation_timestamp().as_deref(), Some("2026-01-02T03:04:05Z"));
    let render = |template: &str| {
        let environment = Environment::new();
        let text = environment.render_str(template, context! { o => object.as_value() });
        text.unwrap()
    };
    assert_eq!(render("{{ o.metadata.name }} {{ o.metadata.labels['kubernetes.io/service-name'] }}"), "x web");
    assert_eq!(render("{% for p in o.ports %}{{ p.port }}/{{ loop.index }} {% endfor %}"), "80/1 443/2 ");
    assert_eq!(
        render("{{ o.ports|length }} {{ o.ports[-1].weight }} {{ o.ports[0].weight is defined }}"),
        "2 1.5 False"
    );
    assert_eq!(render("{% for k, v in o.metadata.annotations|items %}{{ k }}={{ v }} {% endfor %}"), "a=1 b=2 ");
    assert_eq!(render("{{ 'ports' in o }} {{ o.none is none }} {{ o.missing is undefined }}"), "True True True");

    let value = object.as_value();
    assert_eq!(Object::from_value(&value).unwrap().reference(), object.reference());
    assert!(Object::from_value(&value.get_attr("metadata").unwrap()).is_none(), "a part is no object of the store");
}

#[test]
fn fixtures_are_completed_and_mistakes_in_them_are_found() {
    let mut selected = resource("slices", "Slice", &[]);
    selected.namespaces = vec!["a".to_owned()];
    let objects = BTreeMap::from([
        (
            "slices".to_owned(),
            vec![
                json!({ "metadata": { "namespace": "a", "name": "x" } }),
                json!({ "metadata": { "namespace": "b", "name": "y" } }),
                json!({ "metadata": {} }),
            ],
        ),
        ("typo".to_owned(), vec![]),
    ]);
    let (snapshot, findings) = Store::fixture(vec![selected], &objects);
    let list = snapshot.list("slices").unwrap();
    assert_eq!(names(&list), ["x"]);
    assert_eq!(list[0].as_value().get_attr("kind").unwrap().as_str(), Some("Slice"));
    assert_eq!(findings.len(), 3, "{findings:#?}");
}

#[test]
fn names_that_nobody_uses_any_more_do_not_pile_up() {
    let mut store = slices();
    for round in 0..20_000 {
        let mut labels = serde_json::Map::new();
        labels.insert(format!("round-{round}"), json!("x"));
        labels.insert("kubernetes.io/service-name".to_owned(), json!("web"));
        let value = json!({
            "apiVersion": "v1", "kind": "Slice", "metadata": { "namespace": "a", "name": "x", "labels": labels },
        });
        store.sync(&[upsert(&raw(&value))]);
    }
    assert!(store.interner.len() < 10_000, "{}", store.interner.len());
}

/// Every object of every resource, as JSON.
fn contents(snapshot: &Snapshot) -> Vec<String> {
    let resources: Vec<_> = snapshot.resources().cloned().collect();
    let all = resources.iter().flat_map(|resource| snapshot.list(resource).unwrap().to_vec());
    all.map(|object| serde_json::to_string(&object.as_value()).unwrap()).collect()
}

#[test]
fn an_overlay_is_the_state_after_the_change_and_leaves_the_store_alone() {
    let key = |name: &str| slice("a", name, "web", 1).key();
    let changes = [
        upsert(&slice("a", "new", "web", 9)),
        upsert(&slice("a", "known", "web", 2)),
        upsert(&slice("a", "known", "moved", 1)),
        RawChange::Delete(key("known")),
        RawChange::Delete(key("unknown")),
        upsert(&slice("a", "known", "web", 1)),
    ];
    for change in changes {
        let mut store = slices();
        store.sync(&[upsert(&slice("a", "known", "web", 1)), upsert(&slice("b", "other", "web", 1))]);
        let before = store.snapshot();
        let overlay = store.overlay(&[("slices".into(), change.clone())]).unwrap();
        assert!(store.snapshot().changes_since(&before).is_empty(), "the store is as it was");
        store.sync(std::slice::from_ref(&change));
        assert_eq!(contents(&overlay.snapshot), contents(&store.snapshot()), "{change:?}");
        let changed = contents(&before) != contents(&store.snapshot());
        assert_eq!(overlay.snapshot.changes_since(&before).is_empty(), !changed, "{change:?}");
        for read in [fetch(&["a", "web"]), fetch(&["a", "moved"])] {
            let found = |snapshot: &Snapshot| snapshot.stamp(&read).is_of_nothing();
            assert_eq!(found(&overlay.snapshot), found(&store.snapshot()), "{change:?}: {read:?}");
        }
    }
}

#[test]
fn a_proposed_object_enters_and_leaves_a_selection() {
    let spec = api::WatchedResource {
        api_version: Some("v1".to_owned()),
        resources: "slices".to_owned(),
        kind: Some("Slice".to_owned()),
        label_selector: Some("kubernetes.io/service-name=web".to_owned()),
        namespaces: vec!["a".to_owned()],
        ..api::WatchedResource::default()
    };
    let mut store = Store::new(vec![WatchedResource::new("web", &spec, &[]).unwrap()]);
    store.sync(&[upsert(&slice("a", "in", "web", 1)), upsert(&slice("a", "out", "api", 1))]);
    let mut proposed = |object: Arc<RawObject>| {
        let overlay = store.overlay(&[("web".into(), RawChange::Upsert(object))]).unwrap();
        names(&overlay.snapshot.list("web").unwrap())
    };
    assert_eq!(proposed(slice("a", "out", "web", 1)), ["in", "out"]);
    assert!(proposed(slice("a", "in", "api", 1)).is_empty());
    assert_eq!(proposed(slice("b", "elsewhere", "web", 1)), ["in"], "another namespace is not watched");
}

#[test]
fn a_proposed_object_without_a_key_is_told() {
    let mut store = slices();
    let keyless = raw(&json!({
        "apiVersion": "v1", "kind": "Slice", "metadata": { "namespace": "a", "name": "x", "labels": {} },
    }));
    let overlay = store.overlay(&[("slices".into(), RawChange::Upsert(keyless))]).unwrap();
    assert!(overlay.snapshot.is_empty());
    assert!(overlay.findings[0].message.contains("left out of `slices`"), "{:?}", overlay.findings);
}
