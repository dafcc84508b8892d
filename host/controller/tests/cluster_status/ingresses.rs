//! The load balancer status of Ingresses.

use anyhow::Result;
use haptic_controller::pod::PodOutcome;
use haptic_model::SourceLocation;
use haptic_store::RawObject;
use http::Method;
use serde_json::{Value, json};

use crate::scene::{Scene, eventually};

const GROUP: &str = "apis/networking.k8s.io/v1";

async fn entries(scene: &Scene, name: &str) -> Result<Value> {
    Ok(scene.object(GROUP, "ingresses", name).await?["status"]["loadBalancer"]["ingress"].clone())
}

async fn says(scene: &Scene, name: &str, expected: Value) -> Result<()> {
    eventually(&format!("{name} says {expected}"), || async {
        Ok((entries(scene, name).await? == expected).then_some(()))
    })
    .await
}

async fn says_nothing(scene: &Scene, name: &str) -> Result<()> {
    eventually(&format!("{name} says nothing"), || async {
        Ok(entries(scene, name).await?.as_array().is_none_or(Vec::is_empty).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ingress_says_its_addresses_once_every_pod_serves_it_and_entries_of_others_stay() -> Result<()> {
    let scene = Scene::new(json!({ "ingressStatus": { "addresses": ["192.0.2.1", "lb.example.com"] } })).await?;
    scene.ingress("web", "web.example").await?;
    scene.ingress("other", "other.example").await?;
    let theirs = json!({ "ip": "198.51.100.7" });
    let status = format!("{}/web/status", scene.room.path(GROUP, "ingresses"));
    let patch = json!({ "status": { "loadBalancer": { "ingress": [theirs] } } });
    let web = scene.room.send(Method::PATCH, &status, &patch).await?;
    let other = scene.object(GROUP, "ingresses", "other").await?;

    let term = scene.lead(&["a", "b"]);
    let render = scene.render(1, &[web.clone(), other.clone()]);
    term.rendered(&render);
    term.answered(&render, &["a"], PodOutcome::Serving);
    scene.condition("Deployed", "False", "Deploying").await?;
    assert_eq!(entries(&scene, "web").await?, json!([theirs]));
    term.answered(&render, &["b"], PodOutcome::Serving);
    let ours = [json!({ "ip": "192.0.2.1" }), json!({ "hostname": "lb.example.com" })];
    says(&scene, "web", json!([theirs, ours[0], ours[1]])).await?;
    says(&scene, "other", json!(ours)).await?;

    // Its echo in the watch is known for our own.
    let written = scene.object(GROUP, "ingresses", "web").await?;
    let source = SourceLocation { file: "the cluster".into(), line: 0, column: 0 };
    let echo = RawObject::new(&written, &scene.room.namespace, source);
    assert!(echo.is_some_and(|echo| scene.own_writes.made(&echo)));

    // Web is not served any more; the store knows the status from the watch.
    let mut unserved = written.clone();
    unserved["spec"]["rules"] = json!([]);
    let other = scene.object(GROUP, "ingresses", "other").await?;
    let version = other["metadata"]["resourceVersion"].clone();
    let render = scene.render(2, &[unserved, other]);
    assert_eq!(render.output.rendered.failed_units.len(), 1, "it has no host");
    term.serves(&render, &["a", "b"]);
    says(&scene, "web", json!([theirs])).await?;
    assert_eq!(scene.object(GROUP, "ingresses", "other").await?["metadata"]["resourceVersion"], version);

    // And other leaves the selection.
    term.serves(&scene.render(3, &[]), &["a", "b"]);
    says_nothing(&scene, "other").await?;
    term.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_leader_takes_back_addresses_that_the_configuration_does_not_name_any_more() -> Result<()> {
    let scene = Scene::new(json!({ "ingressStatus": { "addresses": ["192.0.2.1"] } })).await?;
    let web = scene.ingress("web", "web.example").await?;
    let term = scene.lead(&["a"]);
    term.serves(&scene.render(1, std::slice::from_ref(&web)), &["a"]);
    says(&scene, "web", json!([{ "ip": "192.0.2.1" }])).await?;
    assert_eq!(scene.config().await?["status"]["ingressAddresses"], json!(["192.0.2.1"]));
    term.end().await?;

    // Another configuration, and a Service that has no address of its own yet.
    let services = scene.room.path("api/v1", "services");
    let service = json!({
        "metadata": { "name": "haproxy" },
        "spec": { "clusterIP": "None", "externalIPs": ["192.0.2.9"], "ports": [{ "port": 80 }] },
    });
    scene.room.send(Method::POST, &services, &service).await?;
    let scene = scene.reconfigured(json!({ "ingressStatus": { "publishService": { "name": "haproxy" } } }))?;
    let web = scene.object(GROUP, "ingresses", "web").await?;
    let term = scene.lead(&["a"]);
    term.serves(&scene.render(1, &[web]), &["a"]);
    says(&scene, "web", json!([{ "ip": "192.0.2.9" }])).await?;
    eventually("the old address is forgotten", || async {
        Ok((scene.config().await?["status"]["ingressAddresses"] == json!(["192.0.2.9"])).then_some(()))
    })
    .await?;
    term.end().await?;

    // It is switched off.
    let scene = scene.reconfigured(json!({}))?;
    let web = scene.object(GROUP, "ingresses", "web").await?;
    let term = scene.lead(&["a"]);
    term.serves(&scene.render(1, &[web]), &["a"]);
    says_nothing(&scene, "web").await?;
    term.end().await
}
