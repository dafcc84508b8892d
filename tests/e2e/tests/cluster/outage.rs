//! The API server goes away for two minutes, and endpoints go with it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use haptic_e2e::{
    Load,
    cluster::{Component, DEPLOYMENT, LEASE, POD},
    eventually, exclusive, get, within,
};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};

use haptic_e2e::cluster::served::{HAPTIC, HOSTS, HTTP, LEASE_NAME, Served};

const OUTAGE: Duration = Duration::from_mins(2);
/// From the return of the API server until what changed is served.
const CONVERGED: Duration = Duration::from_secs(30);
/// Lists and watches of a kind that only haptic asks for, of both controllers together, for a while after the return.
const MOST_REQUESTS: u64 = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_withdrawn_while_the_api_server_is_away() -> Result<()> {
    let _turn = exclusive().await;
    let served = Served::start("outage", &|_| {}).await?;
    let room = &served.room;
    let cluster = room.cluster();
    let doors = served.doors(HTTP).await?;
    // Not by the Service: kube-proxy starts afresh after the outage, and resets what goes through it.
    let load = Load::start(doors[0].1.address(), &Served::targets());
    load.flow(200).await;

    // On its way when the server goes: nobody tells of it.
    let web = json!({ "spec": { "replicas": 3 } });
    room.objects.merge(DEPLOYMENT, room.shop(), "web", &web).await?;
    let pods = room.objects.list(POD, room.shop(), "app=web").await?;
    let pod = pods[0]["metadata"]["name"].as_str().context("a pod has a name")?.to_owned();
    cluster.kill(Component::ApiServer).await?;
    let begun = Instant::now();
    // A backend that ends and is started again.
    room.signal_in(room.shop(), &pod, "demo", rustix::process::Signal::TERM).await?;
    let mut ticks = interval(Duration::from_secs(5));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while begun.elapsed() < OUTAGE {
        ticks.tick().await;
        for (pod, door) in &doors {
            for (host, served_by) in HOSTS {
                let answer = get(door.address(), host, "/").await?;
                let right = answer.pod().is_some_and(|name| name.starts_with(served_by));
                assert!(right, "{:?} into the outage, {host} through {}: {answer:?}", begun.elapsed(), pod.name);
            }
        }
    }

    cluster.start_again(Component::ApiServer).await?;
    let scaled = |deployment: &serde_json::Value| (deployment["status"]["readyReplicas"] == 3).then_some(());
    room.objects.until((DEPLOYMENT, room.shop(), "web"), "three pods of web", scaled).await?;
    for (pod, door) in &doors {
        let what = format!("three different pods of web through {}", pod.name);
        let mut seen = std::collections::BTreeSet::new();
        within(CONVERGED, &what, async || {
            seen.extend(get(door.address(), HOSTS[0].0, "/").await.ok()?.pod());
            (seen.len() >= 3).then_some(())
        })
        .await;
    }
    room.ready_pods(HAPTIC, 2).await?;
    served.add_route("after", "after.localhost").await?;
    let report = load.finish().await;
    assert_eq!(report.failed, 0, "{} of {} requests failed: {:#?}", report.failed, report.requests, report.samples);

    let metrics = cluster.kubectl(&["get", "--raw", "/metrics"]).await?;
    for resource in ["haproxytemplateconfigs", "ingresses", "ingressclasses"] {
        let asked = requests(&metrics, resource)?;
        assert!((2..=MOST_REQUESTS).contains(&asked), "{resource} was listed and watched {asked} times");
    }
    eventually("the Lease to have a leader", async || {
        let lease = room.objects.get(LEASE, room.system(), LEASE_NAME).await.ok()?;
        lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
    })
    .await;
    served.room.close().await
}

/// Lists and watches of a resource that the API server counted since it started.
fn requests(metrics: &str, resource: &str) -> Result<u64> {
    let mut sum = 0.0;
    for line in metrics.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let counts = line.contains(&format!("resource=\"{resource}\""))
            && ["LIST", "WATCH"].iter().any(|verb| line.contains(&format!("verb=\"{verb}\"")));
        if counts {
            let (_, number) = line.rsplit_once(' ').context("a metric has a value")?;
            sum += number.parse::<f64>().with_context(|| format!("read {line}"))?;
        }
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of requests")]
    Ok(sum as u64)
}
