//! Which version of a resource is followed, and what happens when it comes and goes.

use anyhow::{Context as _, Result};
use haptic_api as api;
use haptic_kubernetes::{Discovery, Effect, Limits, Trouble};
use http::Method;
use serde_json::{Value, json};

use crate::{
    cluster::{Room, settings},
    fault_proxy::{Fault, FaultProxy},
    followed::{Followed, spec, wanted},
};

/// A definition of `widgets` in a group of the room's own, served in these versions; the last one is stored.
fn definition(group: &str, versions: &[&str]) -> Value {
    let version = |name: &&str| {
        json!({
            "name": name, "served": true, "storage": Some(name) == versions.last(),
            "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
        })
    };
    json!({
        "metadata": { "name": format!("widgets.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
        },
    })
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn widgets(group: &str, optional: bool) -> api::WatchedResource {
    api::WatchedResource {
        api_versions: vec![format!("{group}/v2"), format!("{group}/v1")],
        api_version: None,
        optional,
        ..spec("", "widgets", "")
    }
}

/// Makes a widget as soon as the server takes it.
async fn make_widget(room: &Room, group: &str, name: &str) -> Result<()> {
    let path = room.path(&format!("apis/{group}/v1"), "widgets");
    let object =
        json!({ "apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": { "name": name }, "size": 3 });
    let made = async {
        while room.send(Method::POST, &path, &object).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::followed::BOUND, made).await.context("the server does not take widgets")
}

#[tokio::test]
async fn takes_the_first_version_that_is_served_and_names_what_is_missing() -> Result<()> {
    let room = Room::new().await?;
    let discovery = Discovery::new(room.api());
    let several = api::WatchedResource {
        api_version: None,
        api_versions: ["gone.example.com/v1", "networking.k8s.io/v9", "networking.k8s.io/v1"].map(str::to_owned).into(),
        ..spec("", "ingresses", "")
    };
    let served = discovery.resolve(&wanted(&several)).await?.context("it is served")?;
    assert_eq!((&*served.api_version, &*served.kind, served.namespaced), ("networking.k8s.io/v1", "Ingress", true));
    let cluster_wide = discovery.resolve(&wanted(&spec("v1", "nodes", ""))).await?.context("it is served")?;
    assert!(!cluster_wide.namespaced);
    let subresource = discovery.resolve(&wanted(&spec("v1", "pods/status", ""))).await;
    assert!(matches!(subresource, Err(Trouble::Unwatchable { .. })), "{subresource:?}");
    let missing = discovery.require(&wanted(&spec("v1", "gateways", ""))).await.unwrap_err();
    assert_eq!(
        missing.to_string(),
        "no version of `gateways` is served (v1); install its CRD, or set `optional: true`"
    );
    Ok(())
}

#[tokio::test]
async fn an_optional_resource_appears_changes_its_version_and_vanishes() -> Result<()> {
    let room = Room::new().await?;
    let group = format!("{}.example.com", room.namespace);
    let mut followed = Followed::start(room.api(), vec![wanted(&widgets(&group, true))], settings());
    let first = followed.next().await?;
    assert!(first.synced && first.changes.is_empty(), "nothing to wait for: {first:?}");
    assert!(followed.state("widgets", |_| true).await?.is_absent());

    room.send(Method::POST, DEFINITIONS, &definition(&group, &["v1"])).await?;
    make_widget(&room, &group, "a").await?;
    followed.until(|followed| followed.names("widgets") == ["a"]).await?;
    let state = followed.state("widgets", |state| state.served().is_some()).await?;
    assert_eq!(*state.served().context("it is served")?.api_version, format!("{group}/v1"));

    let path = format!("{DEFINITIONS}/widgets.{group}");
    room.send(Method::PATCH, &path, &json!({ "spec": definition(&group, &["v2", "v1"])["spec"] })).await?;
    let update = followed.next().await?;
    let [(_, effect)] = &*update.changes else { panic!("the object changes its version once: {update:?}") };
    assert_eq!(*effect, Effect::Changed);
    let (_, object) = followed.objects.first_key_value().context("it stays")?;
    assert_eq!((*object.api_version).to_owned(), format!("{group}/v2"), "the preferred version is served now");
    assert_eq!(object.value()["size"], 3);

    room.delete(&path).await?;
    followed.until(|followed| followed.objects.is_empty()).await?;
    followed.state("widgets", haptic_kubernetes::ResourceState::is_absent).await?;

    room.send(Method::POST, DEFINITIONS, &definition(&group, &["v1"])).await?;
    make_widget(&room, &group, "b").await?;
    followed.until(|followed| followed.names("widgets") == ["b"]).await?;
    room.delete(&path).await
}

#[tokio::test]
async fn a_required_resource_that_is_missing_is_told_until_it_comes() -> Result<()> {
    let room = Room::new().await?;
    let group = format!("{}.example.com", room.namespace);
    let all = vec![wanted(&widgets(&group, false)), crate::followed::config_maps(&room.namespace)];
    let mut followed = Followed::start(room.api(), all, settings());
    let update = followed.next().await?;
    assert_eq!((&*update.resource, update.synced), ("configmaps", true), "others do not wait for it");
    let state = followed.state("widgets", |state| state.trouble().is_some()).await?;
    assert!(!state.is_synced() && !state.is_absent());
    let trouble = state.trouble().context("it has trouble")?.to_string();
    assert_eq!(
        trouble,
        format!("no version of `widgets` is served ({group}/v2, {group}/v1); install its CRD, or set `optional: true`")
    );
    room.send(Method::POST, DEFINITIONS, &definition(&group, &["v1"])).await?;
    let update = followed.next().await?;
    assert_eq!((&*update.resource, update.synced), ("widgets", true));
    assert!(followed.state("widgets", |state| state.trouble().is_none()).await?.is_synced());
    room.delete(&format!("{DEFINITIONS}/widgets.{group}")).await
}

#[tokio::test]
async fn a_resource_that_comes_back_in_other_scopes_leaves_nothing_behind() -> Result<()> {
    let room = Room::new().await?;
    let group = format!("{}.example.com", room.namespace);
    let path = format!("{DEFINITIONS}/widgets.{group}");
    room.send(Method::POST, DEFINITIONS, &definition(&group, &["v1"])).await?;
    make_widget(&room, &group, "a").await?;
    let namespaced = api::WatchedResource { namespaces: vec![room.namespace.clone()], ..widgets(&group, false) };
    let proxy = FaultProxy::start(room.client.clone()).await?;
    let mut followed =
        Followed::synced(proxy.api(Limits::default()).await?, vec![wanted(&namespaced)], settings()).await?;
    assert_eq!(followed.names("widgets"), ["a"]);

    // Nobody says that the object goes with its definition.
    let objects = |what: &str| what.contains("/widgets");
    proxy.rule(move |what| objects(what).then_some(Fault::Broken));
    proxy.cut();
    room.delete(&path).await?;
    let gone = async { while room.send(Method::GET, &path, &Value::Null).await.is_ok() {} };
    tokio::time::timeout(crate::followed::BOUND, gone).await.context("the definition stays")?;
    followed.state("widgets", |state| matches!(state.trouble().map(|it| &**it), Some(Trouble::Missing { .. }))).await?;
    assert_eq!(followed.names("widgets"), ["a"], "what is required stays");

    let mut cluster_wide = definition(&group, &["v1"]);
    cluster_wide["spec"]["scope"] = "Cluster".into();
    room.send(Method::POST, DEFINITIONS, &cluster_wide).await?;
    followed.state("widgets", |state| state.served().is_some_and(|served| !served.namespaced)).await?;
    followed.until(|followed| followed.names("widgets").is_empty()).await?;
    proxy.heal();
    let object = json!({ "apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": { "name": "b" } });
    room.send(Method::POST, &format!("/apis/{group}/v1/widgets"), &object).await?;
    followed.until(|followed| followed.names("widgets") == ["b"]).await?;
    room.delete(&path).await
}
