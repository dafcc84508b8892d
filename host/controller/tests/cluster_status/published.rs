//! The published output: what is there, what stays, what goes, and what it says about pods.

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use haptic_controller::pod::PodOutcome;
use http::Method;
use serde_json::{Value, json};

use crate::scene::{Scene, eventually, name};

const PODS: [&str; 2] = ["a", "b"];

/// The one `HAProxyCfg` of which this holds.
async fn cfg(scene: &Scene, what: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
    eventually(what, || async { Ok(scene.published("haproxycfgs").await?.into_iter().find(|cfg| holds(cfg))) }).await
}

fn synced(cfg: &Value) -> Option<&str> {
    let conditions = cfg["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == "Synced")?["status"].as_str()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pods_serve_is_published_an_unchanged_file_keeps_its_object_and_what_nobody_has_goes() -> Result<()> {
    let scene = Scene::new(json!({})).await?;
    let web = scene.ingress("web", "web.example").await?;
    let term = scene.lead(&PODS);
    let first = scene.render(1, std::slice::from_ref(&web));
    term.rendered(&first);
    term.answered(&first, &["a"], PodOutcome::Serving);
    let plan = first.plan().to_string();
    let one = cfg(&scene, "one pod is enough", |cfg| cfg["spec"]["plan"] == *plan).await?;
    let owner = &one["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["kind"]), (&json!(*scene.owner.uid), &json!("HAProxyTemplateConfig")));
    assert!(one["spec"]["content"].as_str().context("it is text")?.contains("backend b_web"));
    assert_eq!(synced(&cfg(&scene, "it has a status", |cfg| synced(cfg).is_some()).await?), Some("False"));
    term.answered(&first, &["b"], PodOutcome::Serving);
    cfg(&scene, "every pod has it", |cfg| synced(cfg) == Some("True")).await?;
    let map = scene.published("haproxymapfiles").await?.pop().context("the map is published")?;
    assert_eq!((&map["spec"]["mapName"], &map["spec"]["path"]), (&json!("hosts.map"), &json!("maps/hosts.map")));
    assert_eq!(one["spec"].get("compressed"), None);
    let listed = cfg(&scene, "it names its files", |cfg| {
        cfg["status"]["auxiliaryFiles"]["mapFiles"][0]["name"] == map["metadata"]["name"]
    });
    listed.await?;

    // The host stays, so the map does; a server moves, so the configuration does not.
    let text = crate::scene::INGRESS.replace("10.0.0.1", "10.0.0.2");
    let other = Scene::render_with(&text, 2, std::slice::from_ref(&web))?;
    term.rendered(&other);
    term.answered(&other, &["a"], PodOutcome::Serving);
    let plan = other.plan().to_string();
    cfg(&scene, "the newest is there", |cfg| cfg["spec"]["plan"] == *plan).await?;
    let older = cfg(&scene, "pod b still has the older one", |cfg| {
        let pods = cfg["status"]["deployedToPods"].as_array();
        name(cfg) == name(&one) && pods.is_some_and(|pods| pods.len() == 1 && pods[0]["podName"] == "b")
    });
    assert_eq!(older.await?["metadata"]["uid"], one["metadata"]["uid"]);
    term.answered(&other, &["b"], PodOutcome::Serving);
    eventually("nobody has the older one any more", || async {
        let all = scene.published("haproxycfgs").await?;
        Ok((all.len() == 1 && all[0]["spec"]["plan"] == *plan).then_some(()))
    })
    .await?;
    let maps = scene.published("haproxymapfiles").await?;
    assert_eq!(maps.len(), 1);
    assert_eq!(maps[0]["metadata"]["uid"], map["metadata"]["uid"], "an unchanged file keeps its object");

    // The Ingress goes, and its map entry with it.
    let empty = scene.render(3, &[]);
    term.serves(&empty, &PODS);
    eventually("the map of before is gone", || async {
        let maps = scene.published("haproxymapfiles").await?;
        Ok(maps.iter().all(|known| name(known) != name(&map)).then_some(()))
    })
    .await?;
    term.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_keeps_what_was_deployed_and_the_next_leader_goes_on_with_it() -> Result<()> {
    let scene = Scene::new(json!({})).await?;
    let web = scene.ingress("web", "web.example").await?;
    let term = scene.lead(&PODS);
    let first = scene.render(1, std::slice::from_ref(&web));
    term.serves(&first, &PODS);
    cfg(&scene, "every pod has it", |cfg| synced(cfg) == Some("True")).await?;
    let second = scene.render(2, &[]);
    term.rendered(&second);
    term.answered(&second, &["a"], PodOutcome::Serving);
    term.answered(&second, &["b"], PodOutcome::Failed);
    let pod = |cfg: &Value, name: &str| {
        let pods = cfg["status"]["deployedToPods"].as_array().cloned().unwrap_or_default();
        pods.into_iter().find(|pod| pod["podName"] == name)
    };
    let newest = second.plan().to_string();
    let failing = cfg(&scene, "pod b fails", |cfg| {
        cfg["spec"]["plan"] == *newest && pod(cfg, "b").is_some_and(|pod| pod["consecutiveErrors"] == 1)
    })
    .await?;
    let b = pod(&failing, "b").context("it is there")?;
    assert_eq!((&b["appliedPlan"], &b["lastError"]), (&json!(first.plan()), &json!("the agent does not answer")));
    assert!(b["deployedAt"].is_string() && b["lastErrorFirstSeenAt"].is_string(), "{b}");
    term.end().await?;

    // Pod b fails again, and a new leader has heard of nothing else.
    let term = scene.lead(&PODS);
    term.rendered(&second);
    term.answered(&second, &["a"], PodOutcome::Serving);
    let still = cfg(&scene, "it goes on failing", |cfg| {
        // Reports about one pod replace each other in a mailbox.
        term.answered(&second, &["b"], PodOutcome::Failed);
        let failures = pod(cfg, "b").and_then(|pod| pod["consecutiveErrors"].as_u64());
        cfg["spec"]["plan"] == *newest && failures.is_some_and(|failures| failures > 1)
    });
    let again = still.await?;
    let now = pod(&again, "b").context("it is there")?;
    for field in ["appliedPlan", "deployedAt", "lastErrorFirstSeenAt"] {
        assert_eq!(now[field], b[field], "{field}");
    }
    term.found(&["a"]);
    cfg(&scene, "pods that are gone are taken out", |cfg| pod(cfg, "b").is_none() && synced(cfg) == Some("True"))
        .await?;
    eventually("nobody has the older one any more", || async {
        Ok((scene.published("haproxycfgs").await?.len() == 1).then_some(()))
    })
    .await?;
    term.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn large_text_is_compressed_and_what_others_change_is_put_back() -> Result<()> {
    let scene = Scene::new(json!({ "compressionThreshold": "100" })).await?;
    let web = scene.ingress("web", "web.example").await?;
    let term = scene.lead(&PODS);
    let render = scene.render(1, std::slice::from_ref(&web));
    term.serves(&render, &PODS);
    let made = cfg(&scene, "every pod has it", |cfg| synced(cfg) == Some("True")).await?;
    assert_eq!(made["spec"]["compressed"], json!(true));
    let map = scene.published("haproxymapfiles").await?.pop().context("the map is published")?;
    assert_eq!(map["spec"].get("compressed"), None, "it is small");

    let path = format!("{}/{}", scene.room.path("apis/haptic.rs/v1alpha1", "haproxycfgs"), name(&made));
    scene.room.send(Method::PATCH, &path, &json!({ "spec": { "content": "not ours" } })).await?;
    let map_path = format!("{}/{}", scene.room.path("apis/haptic.rs/v1alpha1", "haproxymapfiles"), name(&map));
    scene.room.delete(&map_path).await?;
    // Owned by another one: never touched, whatever its labels say.
    let mut foreign = map.clone();
    foreign["metadata"] = json!({ "name": "foreign", "labels": map["metadata"]["labels"] });
    scene.room.send(Method::POST, &scene.room.path("apis/haptic.rs/v1alpha1", "haproxymapfiles"), &foreign).await?;
    term.audit();
    cfg(&scene, "it is put back", |cfg| cfg["spec"] == made["spec"]).await?;
    let maps = eventually("the map is made again", || async {
        let maps = scene.published("haproxymapfiles").await?;
        Ok((maps.len() == 2).then_some(maps))
    })
    .await?;
    assert!(maps.iter().any(|map| name(map) == "foreign"));
    term.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_term_that_ended_publishes_nothing() -> Result<()> {
    let scene = Scene::new(json!({})).await?;
    let web = scene.ingress("web", "web.example").await?;
    let term = scene.lead(&PODS);
    let render = scene.render(1, std::slice::from_ref(&web));
    term.serves(&render, &PODS);
    let before = cfg(&scene, "every pod has it", |cfg| synced(cfg) == Some("True")).await?;
    let bus = term.bus.clone();
    term.end().await?;
    let render = scene.render(2, &[]);
    bus.publish(haptic_controller::events::Event::TemplateRendered {
        correlation: render.correlation,
        render: render.clone(),
    });
    // Another leader writes, so that what the old one would have written would be there before it.
    let next = scene.lead(&PODS);
    next.found(&["a"]);
    cfg(&scene, "the next leader writes", |cfg| {
        cfg["status"]["deployedToPods"].as_array().is_some_and(|pods| pods.len() == 1)
    })
    .await?;
    let all = scene.published("haproxycfgs").await?;
    assert_eq!((all.len(), &all[0]["metadata"]["uid"]), (1, &before["metadata"]["uid"]));
    next.end().await
}

/// The text of a configuration that is compressed and in parts.
async fn joined(scene: &Scene, parts: u64) -> Result<String> {
    let all = eventually(&format!("there are {parts} parts"), || async {
        let all = scene.published("haproxycfgs").await?;
        Ok((all.len() as u64 == parts).then_some(all))
    })
    .await?;
    let part = |number: u64| {
        let found = all.iter().find(|cfg| cfg["spec"]["part"] == number && cfg["spec"]["parts"] == parts);
        found.and_then(|cfg| cfg["spec"]["content"].as_str()).context("a part is missing")
    };
    let text = (1..=parts).map(part).collect::<Result<String>>()?;
    Ok(String::from_utf8(zstd::decode_all(BASE64_STANDARD.decode(text)?.as_slice())?)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_object_cannot_hold_is_split_and_what_is_too_large_for_that_is_said() -> Result<()> {
    let mut scene = Scene::new(json!({})).await?;
    scene.settings.object_limit = 120;
    let web = scene.ingress("web", "web.example").await?;
    let render = scene.render(1, std::slice::from_ref(&web));
    let text = String::from_utf8(render.output.rendered.files["haproxy.cfg"].content.to_vec())?;
    let term = scene.lead(&PODS);
    term.serves(&render, &PODS);
    let first = cfg(&scene, "every pod has it", |cfg| synced(cfg) == Some("True")).await?;
    let parts = first["spec"]["parts"].as_u64().context("it is split")?;
    assert_eq!(joined(&scene, parts).await?, text);

    // A part that is gone is made again, and all of them go together.
    let last = format!("{}-p{parts}", name(&first));
    let path = scene.room.path("apis/haptic.rs/v1alpha1", "haproxycfgs");
    scene.room.delete(&format!("{path}/{last}")).await?;
    term.audit();
    assert_eq!(joined(&scene, parts).await?, text);
    term.end().await?;

    scene.settings.object_limit = 4;
    let term = scene.lead(&PODS);
    let render = scene.render(2, &[]);
    term.serves(&render, &PODS);
    let plan = render.plan().to_string();
    let told = cfg(&scene, "it says that it is not published", |cfg| {
        let conditions = cfg["status"]["conditions"].as_array();
        let published = conditions.into_iter().flatten().find(|condition| condition["type"] == "Published");
        cfg["spec"]["plan"] == *plan && published.is_some_and(|published| published["reason"] == "TooLarge")
    })
    .await?;
    assert!(told["spec"]["content"].as_str().is_some_and(|text| text.contains("not published: TooLarge")), "{told}");
    eventually("all parts of the older one are gone", || async {
        Ok((scene.published("haproxycfgs").await?.len() == 1).then_some(()))
    })
    .await?;
    term.end().await
}
