//! Pods of two HAProxy versions at once, as they are in the middle of an upgrade.

use anyhow::{Context as _, Result};
use haptic_e2e::{
    Load,
    cluster::{DEPLOYMENT, POD, PodState, TEMPLATE_CONFIG, reason_of},
    eventually, exclusive, tls,
};
use serde_json::{Value, json};

use haptic_e2e::cluster::served::{AGENT, HAPROXY, Served};

const OLD: &str = "haptic-haproxy:3.0";
const NEW: &str = "haptic-haproxy:3.4";

/// HAProxy 3.4 takes a new route at run time, HAProxy 3.0 reloads for it; neither gets the other's way. Each version
/// has a verdict of its own, and the upgrade loses no request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_pod_of_a_mixed_fleet_gets_what_its_version_can_do() -> Result<()> {
    let _turn = exclusive().await;
    let old_image = |object: &mut Value| {
        if object["kind"] == "Deployment" && object["metadata"]["name"] == "haproxy" {
            object["spec"]["template"]["spec"]["containers"][0]["image"] = OLD.into();
        }
    };
    let served = Served::start("versions", &old_image).await?;
    let room = &served.room;
    room.apply(&[another_deployment(&served)?]).await?;
    room.ready_pods(HAPROXY, 3).await?;
    served.check_routes().await?;

    let pods = room.pods(HAPROXY).await?;
    let mut before = Vec::new();
    for pod in &pods {
        before.push(haproxy(&served, pod).await?);
    }
    served.add_route("mixed", "mixed.localhost").await?;
    let mut seen = [0, 0];
    for (pod, (version, reloads)) in pods.iter().zip(before) {
        let (now_version, now) = haproxy(&served, pod).await?;
        assert_eq!(version, now_version);
        if version == (3, 4) {
            assert_eq!(now, reloads, "{} is HAProxy 3.4 and takes a route at run time", pod.name);
            seen[1] += 1;
        } else {
            assert_eq!(version, (3, 0), "{}", pod.name);
            assert_eq!(now, reloads + 1, "{} is HAProxy 3.0 and reloads for a route, once", pod.name);
            seen[0] += 1;
        }
    }
    assert_eq!(seen, [2, 1]);
    // Both versions were asked, so it is no verdict of one of them.
    let validated = |config: &Value| {
        let told = reason_of(config, "Validated");
        (told.starts_with("True ") && told.contains("3.0.") && told.contains("3.4.")).then_some(())
    };
    room.objects.until((TEMPLATE_CONFIG, room.system(), "shop"), "the verdict of both versions", validated).await?;

    let service = room.service("haproxy", 80).await?;
    let load = Load::start(service.address(), &Served::targets());
    load.flow(200).await;
    // A merge patch replaces lists as a whole.
    let deployment = room.objects.get(DEPLOYMENT, room.system(), "haproxy").await?;
    let mut containers = deployment["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["image"] = NEW.into();
    let patch = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    room.objects.merge(DEPLOYMENT, room.system(), "haproxy", &patch).await?;
    let all_new = |pods: &[&Value]| {
        let ready = |pod: &&&Value| {
            pod["spec"]["containers"][0]["image"] == NEW
                && pod["status"]["conditions"]
                    .as_array()
                    .is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
        };
        (pods.len() == 3 && pods.iter().filter(ready).count() == 3).then_some(())
    };
    room.objects.until_all((POD, room.system(), HAPROXY), "every pod of the new version", all_new).await?;
    load.flow(200).await;
    let report = load.finish().await;
    assert_eq!(report.failed, 0, "{} of {} requests failed: {:#?}", report.failed, report.requests, report.samples);
    served.add_route("after", "after.localhost").await?;
    served.room.close().await
}

/// The example's Deployment once more, with the new image and one replica.
fn another_deployment(served: &Served) -> Result<Value> {
    let objects = served.room.example("cluster/haproxy.yaml")?;
    let mut next = objects.into_iter().find(|object| object["kind"] == "Deployment").context("it has a Deployment")?;
    next["metadata"]["name"] = "haproxy-next".into();
    next["spec"]["replicas"] = 1.into();
    next["spec"]["selector"]["matchLabels"]["track"] = "next".into();
    next["spec"]["template"]["metadata"]["labels"]["track"] = "next".into();
    next["spec"]["template"]["spec"]["containers"][0]["image"] = NEW.into();
    Ok(next)
}

/// Version of a pod's HAProxy and how often it was reloaded.
async fn haproxy(served: &Served, pod: &PodState) -> Result<((u64, u64), u64)> {
    let agent = served.room.passage(pod, AGENT).await?;
    let state = eventually(&format!("the state of {}", pod.name), async || {
        let answer = tls::get_as(agent.address(), &served.credentials.controller, "/v1/state?plan=0").await.ok()?;
        let state: Value = serde_json::from_str(&answer.body).ok()?;
        (!state["haproxy"].is_null() && state["reload_pending"] == false).then_some(state)
    })
    .await;
    let minor = |index: usize| state["haproxy"]["minor"][index].as_u64().context("it tells its version");
    Ok(((minor(0)?, minor(1)?), state["reloads"].as_u64().context("it counts reloads")?))
}
