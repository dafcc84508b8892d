//! The status page of a leader and of a follower, through `kubectl port-forward` as a person reaches it.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::{
    cluster::served::{HAPROXY, HAPTIC, LEASE_NAME, Served},
    eventually, exclusive, get, ingress,
};
use serde_json::Value;

/// Of the controller, on the loopback of its pod.
const DEBUG: u16 = 8081;

async fn json(address: SocketAddr, path: &str) -> Option<Value> {
    serde_json::from_str(&get(address, "localhost", path).await.ok()?.body).ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_and_follower_tell_how_they_stand_and_answer_searches() -> Result<()> {
    let _turn = exclusive().await;
    let served = Served::start("status", &|_| {}).await?;
    let holder = served.room.watch_lease(LEASE_NAME).until("a leader", |state| state.holder.clone()).await?;
    let pods = served.room.pods(HAPTIC).await?;
    let follower = pods.iter().find(|pod| pod.name != *holder).context("a follower")?;
    let (leader, follower) =
        (served.room.forward(&holder, DEBUG).await?, served.room.forward(&follower.name, DEBUG).await?);

    // The leader names every pod with what it runs.
    let status = eventually("the leader to tell that both pods serve", async || {
        let status = json(leader.address(), "/debug/status").await?;
        let serving = status["pods"]["shown"].as_array()?.iter().filter(|pod| pod["outcome"] == "serving").count();
        (serving == 2).then_some(status)
    })
    .await;
    ensure!(status["leadership"]["role"] == "leader" && status["leadership"]["epoch"].is_u64(), "{status}");
    ensure!(status["identity"] == *holder, "{status}");
    let plan = status["serving"]["plan"].as_str().context("a plan serves")?;
    for pod in served.room.pods(HAPROXY).await? {
        let shown = status["pods"]["shown"].as_array().context("pods are a list")?;
        let entry = shown.iter().find(|entry| entry["name"] == pod.name.as_str());
        let entry = entry.with_context(|| format!("the page has pod {}: {status}", pod.name))?;
        ensure!(entry["appliedPlan"] == plan && entry["runningPlan"] == plan, "{entry}");
    }
    let resources = status["resources"].as_array().context("resources are a list")?;
    ensure!(resources.iter().all(|resource| resource["state"] == "synced"), "{resources:?}");
    ensure!(status["config"]["generation"].is_i64() && status["config"]["refused"].is_null(), "{}", status["config"]);

    // The follower says who leads, and nothing of what pods run.
    let status = eventually("the follower to know the leader", async || {
        let status = json(follower.address(), "/debug/status").await?;
        (status["leadership"]["holder"] == *holder && status["rendered"].is_string()).then_some(status)
    })
    .await;
    ensure!(status["leadership"]["role"] == "follower" && status["serving"].is_null(), "{status}");
    ensure!(status["rendered"] == plan, "it is warm with the plan that serves: {status}");

    // Both find the object that made a route, and where a request goes.
    served.add_route("found", "found.localhost").await?;
    for (who, address) in [("leader", leader.address()), ("follower", follower.address())] {
        let what = format!("the {who} to know the new route");
        let route = eventually(&what, async || {
            let said = json(address, "/debug/explain?host=found.localhost&path=/x").await?;
            said["route"]["entry"].is_object().then_some(said)
        })
        .await;
        let object = format!("Ingress {}/found", served.room.shop());
        ensure!(route["route"]["entry"]["object"] == object.as_str(), "{who}: {route}");
        let servers = route["route"]["backend"]["servers"].as_array().context("servers are a list")?;
        ensure!(servers.iter().any(|it| it["name"].as_str().is_some_and(|name| name.starts_with("web-"))), "{route}");
        let lines = json(address, "/debug/explain?line=found.localhost").await.context("an answer")?;
        ensure!(lines["lines"]["matches"][0]["object"] == object.as_str(), "{who}: {lines}");
        let page = get(address, "localhost", "/?line=found.localhost").await?;
        ensure!(page.status == 200 && page.body.contains(&object.replace('/', "&#x2f;")), "{who}: {}", page.body);
        ensure!(page.body.contains(who), "the page says which it is");
    }

    // A rejected object is on the leader's page, with what to do.
    let annotations = [("haptic.rs/load-balance", "dice")];
    served.room.apply_text(&ingress("bad", "bad.localhost", "/", &annotations, "web")).await?;
    eventually("the rejected object", async || {
        let status = json(leader.address(), "/debug/status").await?;
        let shown = status["objects"]["shown"].as_array()?;
        let name = format!("Ingress {}/bad", served.room.shop());
        let bad = shown.iter().find(|object| object["name"] == name.as_str())?;
        (bad["findings"][0]["nextStep"] == "correct or remove the annotation").then_some(())
    })
    .await;

    // Neither shows a key, and neither answers for a name of somebody else.
    for address in [leader.address(), follower.address()] {
        for path in ["/", "/?line=PRIVATE", "/debug/status", "/debug/explain?line=PRIVATE"] {
            let answer = get(address, "localhost", path).await?;
            ensure!(!answer.body.contains("PRIVATE KEY"), "{path}: {}", answer.body);
        }
        ensure!(get(address, "rebound.example", "/").await?.status == 421, "another name is refused");
    }
    served.room.close().await
}
