#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicUsize, Ordering};

use haptic_api as api;
use serde_json::json;

use super::*;
use crate::{Extent, RawChange, RawObject, Read, ReadError, Store, Transcript};

/// Answers as an API server would that has these objects; counts what it is asked.
#[derive(Debug, Default)]
struct FakeServer {
    objects: Mutex<BTreeMap<String, Value>>,
    down: Mutex<bool>,
    asked: AtomicUsize,
}

impl FakeServer {
    fn has(&self, name: &str, version: &str, data: &str) {
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "data": data,
            "metadata": { "namespace": "shop", "name": name, "resourceVersion": version },
        });
        self.objects.lock().insert(name.to_owned(), object);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl BodyReader for FakeServer {
    fn read(&self, resource: &WatchedResource, object: &ObjectRef) -> Result<Option<Value>, UnreadableBody> {
        assert_eq!(resource.resources, "secrets");
        self.asked.fetch_add(1, Ordering::Relaxed);
        if *self.down.lock() {
            return Err(UnreadableBody("the server is away".to_owned()));
        }
        Ok(self.objects.lock().get(&*object.name).cloned())
    }
}

fn spec(index_by: &[&str], fields: Option<&str>) -> Result<WatchedResource, Vec<haptic_model::Finding>> {
    let spec = api::WatchedResource {
        api_version: Some("v1".to_owned()),
        resources: "secrets".to_owned(),
        index_by: index_by.iter().map(|path| (*path).to_owned()).collect(),
        field_selector: fields.map(str::to_owned),
        store: api::StorePolicy::OnDemand,
        ..api::WatchedResource::default()
    };
    WatchedResource::new("secrets", &spec, &[])
}

fn store(server: &Arc<FakeServer>) -> Store {
    Store::on_demand(vec![spec(&[], None).unwrap()], Arc::clone(server) as Arc<dyn BodyReader>)
}

/// What a watch of metadata says.
fn told(store: &mut Store, name: &str, version: &str) {
    let metadata = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": "shop", "name": name } });
    let raw = RawObject::transcribed(Transcript {
        api_version: "v1".into(),
        kind: "Secret".into(),
        namespace: "shop".into(),
        name: name.into(),
        resource_version: version.into(),
        extent: Extent::Metadata,
        json: metadata.to_string().into(),
    });
    store.apply("secrets", &[RawChange::Upsert(Arc::new(raw))]).unwrap();
}

fn data(store: &Store, name: &str) -> Result<Option<String>, ReadError> {
    let found = store.snapshot().get_single("secrets", &["shop", name])?;
    Ok(found.map(|object| object.as_value().get_attr("data").unwrap().to_string()))
}

#[test]
fn an_object_is_read_once_for_each_of_its_versions() {
    let server = Arc::new(FakeServer::default());
    let mut store = store(&server);
    server.has("a", "1", "old");
    told(&mut store, "a", "1");
    assert_eq!(server.asked(), 0, "nobody wanted it yet");
    assert_eq!(data(&store, "a").unwrap().as_deref(), Some("old"));
    assert_eq!(data(&store, "a").unwrap().as_deref(), Some("old"));
    assert_eq!(server.asked(), 1);

    let read = Read::Fetch { resource: "secrets".into(), keys: ["shop".into(), "a".into()].into() };
    let before = store.snapshot().stamp(&read);
    server.has("a", "2", "new");
    told(&mut store, "a", "2");
    assert_ne!(store.snapshot().stamp(&read), before, "its metadata is the same, its content is not");
    assert_eq!(data(&store, "a").unwrap().as_deref(), Some("new"));
    assert_eq!(server.asked(), 2);
}

#[test]
fn what_is_read_ahead_of_the_watch_is_not_kept_for_the_version_that_is_known() {
    let server = Arc::new(FakeServer::default());
    let mut store = store(&server);
    server.has("a", "2", "newer");
    told(&mut store, "a", "1");
    assert_eq!(data(&store, "a").unwrap().as_deref(), Some("newer"));
    assert_eq!(data(&store, "a").unwrap().as_deref(), Some("newer"));
    assert_eq!(server.asked(), 2);
}

#[test]
fn a_read_that_fails_is_never_the_same_as_nothing_found() {
    let server = Arc::new(FakeServer::default());
    let mut store = store(&server);
    told(&mut store, "a", "1");
    *server.down.lock() = true;
    let error = data(&store, "a").unwrap_err().to_string();
    assert!(error.contains("Secret shop/a") && error.contains("the server is away"), "{error}");
    assert!(store.snapshot().list("secrets").is_err());
    *server.down.lock() = false;
    assert_eq!(data(&store, "a").unwrap(), None, "the server says that it is gone");
    assert_eq!(data(&store, "b").unwrap(), None);
    assert_eq!(server.asked(), 3, "an object that is not known is not asked for");
}

#[test]
fn a_list_has_whole_objects_in_their_order() {
    let server = Arc::new(FakeServer::default());
    let mut store = store(&server);
    for name in ["b", "a", "c"] {
        server.has(name, "1", name);
        told(&mut store, name, "1");
    }
    assert_eq!(store.snapshot().count("secrets"), 3);
    assert_eq!(server.asked(), 0, "to count them needs nobody");
    let listed = store.snapshot().list("secrets").unwrap();
    let texts: Vec<_> = listed.iter().map(|object| object.as_value().get_attr("data").unwrap().to_string()).collect();
    assert_eq!(texts, ["a", "b", "c"]);
}

#[test]
fn only_so_many_objects_are_kept_and_the_least_used_goes_first() {
    let server = Arc::new(FakeServer::default());
    let mut store = store(&server);
    for number in 0..=KEPT {
        let name = format!("secret-{number}");
        server.has(&name, "1", &name);
        told(&mut store, &name, "1");
        data(&store, &name).unwrap();
        data(&store, "secret-0").unwrap();
    }
    let asked = server.asked();
    assert_eq!(asked, KEPT + 1);
    data(&store, "secret-0").unwrap();
    data(&store, &format!("secret-{KEPT}")).unwrap();
    assert_eq!(server.asked(), asked, "both were used lately");
    data(&store, "secret-1").unwrap();
    assert_eq!(server.asked(), asked + 1, "it made place");
}

#[test]
fn keys_and_selectors_that_metadata_cannot_answer_are_refused() {
    let findings = spec(&["spec.class"], Some("type=kubernetes.io/tls")).unwrap_err();
    let texts: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(texts[0].contains("watched resource `secrets`, indexBy: `spec.class` is no metadata"), "{texts:?}");
    assert!(texts[1].contains("fieldSelector: `type` is no metadata"), "{texts:?}");
    assert!(spec(&["metadata.namespace", "metadata.labels['a.b/c']"], Some("metadata.name!=x")).is_ok());
}
