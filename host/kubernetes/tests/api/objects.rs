//! Single objects are read, listed and written, and only the ones that are meant are deleted.

use anyhow::{Context as _, Result};
use haptic_kubernetes::{Deletion, FIELD_MANAGER, Identity, LARGEST_BODY, Listing, Objects, Trouble};
use http::Method;
use serde_json::{Value, json};

use crate::cluster::Room;

fn config_maps(room: &Room) -> Objects {
    Objects::in_namespace(&room.api(), "v1", "configmaps", &room.namespace)
}

fn config_map(name: &str, data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "labels": { "set": "x" } }, "data": data })
}

fn identity(object: &Value) -> Identity {
    let of = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    Identity { uid: of("/metadata/uid"), resource_version: Some(of("/metadata/resourceVersion")) }
}

#[tokio::test]
async fn an_apply_makes_changes_takes_over_and_removes_what_it_does_not_name_any_more() -> Result<()> {
    let room = Room::new().await?;
    let objects = config_maps(&room);
    assert_eq!(objects.get("a").await?, None);
    let made = objects.apply("a", &config_map("a", &json!({ "one": "1", "two": "2" }))).await?;
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], FIELD_MANAGER);
    room.patch_config_map("a", &json!({ "data": { "one": "theirs", "three": "3" } })).await?;
    let changed = objects.apply("a", &config_map("a", &json!({ "one": "1" }))).await?;
    assert_eq!(changed["data"], json!({ "one": "1", "three": "3" }));
    assert_eq!(objects.get("a").await?.context("it is there")?["metadata"]["uid"], made["metadata"]["uid"]);
    let again = objects.apply("a", &config_map("a", &json!({ "one": "1" }))).await?;
    assert_eq!(again["metadata"]["resourceVersion"], changed["metadata"]["resourceVersion"], "nothing was written");
    Ok(())
}

#[tokio::test]
async fn an_object_is_made_once_and_a_merge_fails_on_another_state() -> Result<()> {
    let room = Room::new().await?;
    let objects = config_maps(&room);
    let made = objects.create(&config_map("a", &json!({ "one": "1" }))).await?;
    let twice = objects.create(&config_map("a", &json!({}))).await;
    assert!(twice.is_err_and(|trouble| trouble.is_conflict()));
    let version = &made["metadata"]["resourceVersion"];
    let patch = json!({ "metadata": { "resourceVersion": version }, "data": { "one": null, "two": "2" } });
    let merged = objects.merge("a", &patch).await?;
    assert_eq!(merged["data"], json!({ "two": "2" }));
    assert!(objects.merge("a", &patch).await.is_err_and(|trouble| trouble.is_conflict()));
    assert!(objects.merge("b", &json!({})).await.is_err_and(|trouble| trouble.is_not_found()));
    Ok(())
}

#[tokio::test]
async fn an_object_is_replaced_whole_and_only_in_the_state_that_was_read() -> Result<()> {
    let room = Room::new().await?;
    let objects = config_maps(&room);
    let mut made = objects.create(&config_map("a", &json!({ "one": "1" }))).await?;
    made["data"] = json!({ "two": "2" });
    let replaced = objects.replace("a", &made).await?;
    assert_eq!((&replaced["data"], &replaced["metadata"]["labels"]), (&json!({ "two": "2" }), &json!({ "set": "x" })));
    assert!(objects.replace("a", &made).await.is_err_and(|trouble| trouble.is_conflict()));
    Ok(())
}

#[tokio::test]
async fn one_element_of_a_list_is_changed_and_the_others_stay() -> Result<()> {
    let room = Room::new().await?;
    let configurations =
        Objects::in_cluster(&room.api(), "admissionregistration.k8s.io/v1", "validatingwebhookconfigurations");
    let webhook = |name: &str| {
        json!({
            "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": { "service": { "namespace": room.namespace, "name": "haptic", "path": "/validate" } },
        })
    };
    let name = format!("{}-elements", room.namespace);
    let webhooks = [webhook("a.haptic.rs"), webhook("b.haptic.rs")];
    let made = configurations.create(&json!({ "metadata": { "name": name }, "webhooks": webhooks })).await?;
    let changed = json!([{ "name": "b.haptic.rs", "clientConfig": { "service": { "path": "/other" } } }]);
    let version = &made["metadata"]["resourceVersion"];
    let patch = json!({ "metadata": { "resourceVersion": version }, "webhooks": changed });
    let merged = configurations.merge_elements(&name, &patch).await?;
    assert_eq!(merged["webhooks"][0], made["webhooks"][0]);
    let service = &merged["webhooks"][1]["clientConfig"]["service"];
    assert_eq!((&service["path"], &service["name"]), (&json!("/other"), &json!("haptic")));
    assert!(configurations.merge_elements(&name, &patch).await.is_err_and(|trouble| trouble.is_conflict()));
    Ok(())
}

#[tokio::test]
async fn a_status_is_written_apart_from_the_rest() -> Result<()> {
    let room = Room::new().await?;
    let ingresses = Objects::in_namespace(&room.api(), "networking.k8s.io/v1", "ingresses", &room.namespace);
    let spec = json!({ "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } } });
    ingresses.create(&json!({ "metadata": { "name": "web" }, "spec": spec })).await?;
    let status = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } });
    let patch = json!({ "status": status, "spec": { "ingressClassName": "other" } });
    let written = ingresses.merge_status("web", &patch).await?;
    assert_eq!((&written["status"], &written["spec"]), (&status, &spec));
    Ok(())
}

#[tokio::test]
async fn only_this_very_object_in_this_very_state_is_deleted() -> Result<()> {
    let room = Room::new().await?;
    let objects = config_maps(&room);
    let first = objects.create(&config_map("a", &json!({}))).await?;
    let changed = room.patch_config_map("a", &json!({ "data": { "one": "1" } })).await?;
    assert!(objects.delete("a", &identity(&first)).await.is_err_and(|trouble| trouble.is_conflict()));
    assert_eq!(objects.delete("a", &identity(&changed)).await?, Deletion::Done);
    assert_eq!(objects.delete("a", &identity(&changed)).await?, Deletion::NotThere);
    objects.create(&config_map("a", &json!({}))).await?;
    let another = Identity { resource_version: None, ..identity(&changed) };
    assert!(objects.delete("a", &another).await.is_err_and(|trouble| trouble.is_conflict()));
    assert!(objects.get("a").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_list_is_by_label_and_whole_over_all_its_pages() -> Result<()> {
    let room = Room::new().await?;
    for number in 0..7 {
        config_maps(&room).create(&config_map(&format!("a{number}"), &json!({ "one": "1" }))).await?;
    }
    room.make_config_map("other", "1").await?;
    let limits = haptic_kubernetes::Limits { page: 3, ..haptic_kubernetes::Limits::default() };
    let api = haptic_kubernetes::Api::new(room.client.clone(), limits);
    let objects = Objects::in_namespace(&api, "v1", "configmaps", &room.namespace);
    let whole = objects.list("set=x", Listing::Whole).await?;
    let names: Vec<_> = whole.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["a0", "a1", "a2", "a3", "a4", "a5", "a6"]);
    assert_eq!(whole[0]["data"]["one"], "1");
    let metadata = objects.list("set=x", Listing::Metadata).await?;
    assert_eq!((metadata.len(), metadata[0].get("data")), (7, None));
    assert!(metadata[0]["metadata"]["uid"].is_string());
    assert_eq!(objects.list("set=y", Listing::Whole).await?, [Value::Null; 0]);
    let everywhere = Objects::in_cluster(&api, "v1", "configmaps").list("set=x", Listing::Metadata).await?;
    assert!(everywhere.len() >= 7);
    Ok(())
}

#[tokio::test]
async fn names_are_names_and_no_way_to_other_objects() -> Result<()> {
    let room = Room::new().await?;
    room.send(Method::POST, &room.path("api/v1", "secrets"), &json!({ "metadata": { "name": "key" } })).await?;
    let objects = config_maps(&room);
    for name in ["../secrets/key", "..%2Fsecrets%2Fkey", "key?x=y"] {
        match objects.get(name).await {
            Ok(found) => assert_eq!(found, None, "{name}"),
            Err(Trouble::Refused(_)) => {}
            Err(trouble) => return Err(trouble.into()),
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_no_server_takes_is_not_sent() -> Result<()> {
    let room = Room::new().await?;
    let object = config_map("a", &json!({ "one": "x".repeat(LARGEST_BODY) }));
    let refused = config_maps(&room).create(&object).await;
    assert!(refused.is_err_and(|trouble| trouble.is_too_large()));
    Ok(())
}
