//! Lists and watches of a server in good health.

use anyhow::{Context as _, Result};
use haptic_api as api;
use haptic_kubernetes::Limits;
use haptic_store::{RawChange, Store, WatchedResource};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    cluster::{Room, settings},
    fault_proxy::{Fault, FaultProxy},
    followed::{Followed, config_maps, metadata, spec, told, wanted},
};

#[tokio::test]
async fn delivers_a_complete_list_and_then_each_change() -> Result<()> {
    let room = Room::new().await?;
    for name in ["a", "b"] {
        room.make_config_map(name, "1").await?;
    }
    let mut followed = Followed::start(room.api(), vec![config_maps(&room.namespace)], settings());
    let first = followed.next().await?;
    assert_eq!((told(&first), first.synced), (vec!["Added a".to_owned(), "Added b".to_owned()], true));
    room.make_config_map("c", "1").await?;
    assert_eq!(followed.told().await?, ["Added c"]);
    room.patch_config_map("a", &json!({ "data": { "value": "2" } })).await?;
    assert_eq!(followed.told().await?, ["Changed a"]);
    room.patch_config_map("b", &json!({ "metadata": { "labels": { "test": "no" } } })).await?;
    assert_eq!(followed.told().await?, ["Removed b"], "the selector does not take it any more");
    room.delete_config_map("c").await?;
    assert_eq!(followed.told().await?, ["Removed c"]);
    let object = &followed.objects[&("configmaps".to_owned(), "a".to_owned())];
    let value = object.value();
    assert_eq!((value["apiVersion"].as_str(), value["kind"].as_str()), (Some("v1"), Some("ConfigMap")));
    assert_eq!(value["data"]["value"], "2");
    assert!(value.pointer("/metadata/managedFields").is_none() && value.pointer("/metadata/uid").is_some());
    Ok(())
}

#[tokio::test]
async fn an_empty_list_is_a_complete_one() -> Result<()> {
    let room = Room::new().await?;
    let mut followed = Followed::start(room.api(), vec![config_maps(&room.namespace)], settings());
    let first = followed.next().await?;
    assert!(first.synced && first.changes.is_empty());
    Ok(())
}

#[tokio::test]
async fn lists_come_in_pages_where_the_server_does_not_stream_them() -> Result<()> {
    let room = Room::new().await?;
    for name in ["a", "b", "c", "d", "e"] {
        room.make_config_map(name, "1").await?;
    }
    let proxy = FaultProxy::start(room.client.clone()).await?;
    proxy.rule(|what| {
        what.contains("sendInitialEvents").then_some(Fault::Status(StatusCode::UNPROCESSABLE_ENTITY, None))
    });
    let api = proxy.api(Limits { page: 2, ..Limits::default() }).await?;
    let mut followed = Followed::start(api, vec![config_maps(&room.namespace)], settings());
    let first = followed.next().await?;
    assert_eq!((first.changes.len(), first.synced), (5, true));
    assert_eq!(proxy.seen(&["limit=2"]).len(), 3);
    room.make_config_map("f", "1").await?;
    assert_eq!(followed.told().await?, ["Added f"]);
    assert_eq!(proxy.seen(&["sendInitialEvents"]).len(), 1, "it is not asked for again");
    Ok(())
}

#[tokio::test]
async fn a_selection_that_the_server_cannot_make_is_left_to_the_store() -> Result<()> {
    let room = Room::new().await?;
    room.make_config_map("a", "1").await?;
    room.make_config_map("b", "2").await?;
    room.make_config_map("c", "1").await?;
    let selection = Some("data.value=1,metadata.name!=c".to_owned());
    let spec = api::WatchedResource { field_selector: selection, ..spec("v1", "configmaps", &room.namespace) };
    let mut followed = Followed::synced(room.api(), vec![wanted(&spec)], settings()).await?;
    let names = followed.names("configmaps");
    assert!(names.contains(&"b") && !names.contains(&"c"), "the server tests names, but no data: {names:?}");
    room.make_config_map("d", "1").await?;
    assert_eq!(followed.told().await?, ["Added d"]);
    let mut store = Store::new(vec![WatchedResource::new("configmaps", &spec, &[]).unwrap()]);
    let changes: Vec<RawChange> = followed.objects.values().cloned().map(RawChange::Upsert).collect();
    let stored = store.apply("configmaps", &changes)?;
    let stored: Vec<_> = stored.objects.iter().map(|object| &*object.name).collect();
    assert_eq!(stored, ["a", "d"]);
    Ok(())
}

#[tokio::test]
async fn each_namespace_is_asked_for_alone_and_the_resource_is_synced_with_the_last() -> Result<()> {
    let (one, two, other) = (Room::new().await?, Room::new().await?, Room::new().await?);
    one.make_config_map("a", "1").await?;
    two.make_config_map("b", "1").await?;
    other.make_config_map("c", "1").await?;
    let spec = api::WatchedResource {
        namespaces: vec![one.namespace.clone(), two.namespace.clone()],
        label_selector: Some("test=yes".to_owned()),
        ..spec("v1", "configmaps", "")
    };
    let mut followed = Followed::start(one.api(), vec![wanted(&spec)], settings());
    let (first, second) = (followed.next().await?, followed.next().await?);
    assert!(!first.synced && second.synced, "{first:?} {second:?}");
    assert_eq!(followed.names("configmaps"), ["a", "b"]);
    other.delete_config_map("c").await?;
    two.delete_config_map("b").await?;
    assert_eq!(followed.told().await?, ["Removed b"]);
    Ok(())
}

#[tokio::test]
async fn metadata_is_followed_without_the_rest() -> Result<()> {
    let room = Room::new().await?;
    room.make_config_map("a", "secret").await?;
    let spec = api::WatchedResource {
        label_selector: Some("test=yes".to_owned()),
        ..spec("v1", "configmaps", &room.namespace)
    };
    let mut followed = Followed::synced(room.api(), vec![metadata(&spec)], settings()).await?;
    room.make_config_map("b", "secret").await?;
    assert_eq!(followed.told().await?, ["Added b"]);
    for object in followed.objects.values() {
        let value = object.value();
        assert_eq!((&*object.kind, value["kind"].as_str()), ("ConfigMap", Some("ConfigMap")));
        assert_eq!(value["metadata"]["labels"]["test"], "yes");
        assert!(value.get("data").is_none());
    }
    // Without metadata that changes there is nothing to tell.
    room.patch_config_map("a", &json!({ "data": { "value": "other" } })).await?;
    room.make_config_map("c", "1").await?;
    assert_eq!(followed.told().await?, ["Added c"]);
    Ok(())
}

#[tokio::test]
async fn an_own_status_write_is_no_change() -> Result<()> {
    let room = Room::new().await?;
    let path = room.path("apis/networking.k8s.io/v1", "ingresses");
    let ingress = json!({
        "metadata": { "name": "shop" },
        "spec": { "rules": [{ "host": "shop.example.com" }] },
    });
    room.send(Method::POST, &path, &ingress).await?;
    let spec = api::WatchedResource {
        ignore_fields: vec!["status".to_owned()],
        ..spec("networking.k8s.io/v1", "ingresses", &room.namespace)
    };
    let mut store = Store::new(vec![WatchedResource::new("ingresses", &spec, &[]).unwrap()]);
    let mut followed = Followed::start(room.api(), vec![wanted(&spec)], settings());
    let mut apply = async |followed: &mut Followed| -> Result<bool> {
        let update = followed.next().await?;
        let changes: Vec<RawChange> = update.changes.into_iter().map(|(change, _)| change).collect();
        Ok(!store.apply(&update.resource, &changes)?.is_empty())
    };
    assert!(apply(&mut followed).await?);
    let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } } });
    room.send(Method::PATCH, &format!("{path}/shop/status"), &status).await?;
    assert!(!apply(&mut followed).await?, "only the status and the version differ");
    let host = json!({ "metadata": { "labels": { "a": "b" } } });
    room.send(Method::PATCH, &format!("{path}/shop"), &host).await?;
    assert!(apply(&mut followed).await?);
    Ok(())
}

#[tokio::test]
async fn a_write_that_only_the_server_keeps_is_not_even_delivered() -> Result<()> {
    let room = Room::new().await?;
    room.make_config_map("a", "1").await?;
    let mut followed = Followed::synced(room.api(), vec![config_maps(&room.namespace)], settings()).await?;
    // Another owner of the same value: only managedFields and the version change.
    let object =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "value": "1" } });
    let path = format!("{}/a?fieldManager=other&force=true", room.path("api/v1", "configmaps"));
    let before: Value = room.send(Method::GET, &path, &Value::Null).await?;
    let after = room.apply(&path, &object).await?;
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_ne!(version(&before), version(&after), "it was written");
    room.make_config_map("b", "1").await?;
    assert_eq!(followed.told().await?, ["Added b"]);
    Ok(())
}

#[tokio::test]
async fn a_resource_is_followed_and_forgotten_while_others_go_on() -> Result<()> {
    let room = Room::new().await?;
    room.make_config_map("a", "1").await?;
    let mut followed = Followed::synced(room.api(), vec![config_maps(&room.namespace)], settings()).await?;
    followed.source.follow(wanted(&spec("v1", "services", &room.namespace)));
    let update = followed.next().await?;
    assert_eq!((&*update.resource, update.synced), ("services", true));
    followed.source.forget("configmaps");
    assert!(!followed.source.states().borrow().contains_key("configmaps"));
    room.make_config_map("b", "1").await?;
    let service = json!({ "metadata": { "name": "s" }, "spec": { "clusterIP": "None", "ports": [{ "port": 80 }] } });
    room.send(Method::POST, &room.path("api/v1", "services"), &service).await.context("make a service")?;
    assert_eq!(followed.told().await?, ["Added s"]);
    Ok(())
}
