//! HAProxy pods come and go.

use std::time::Duration;

use anyhow::{Context as _, Result};
use haptic_e2e::{
    Load,
    cluster::{POD, Passage},
    exclusive, get,
};
use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use haptic_e2e::cluster::served::{HAPROXY, HOSTS, HTTP, Served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_pod_serves_everything_before_it_is_ready_and_one_that_goes_loses_nothing() -> Result<()> {
    let _turn = exclusive().await;
    let served = Served::start("scale", &|_| {}).await?;
    let room = &served.room;
    served.add_route("third", "third.localhost").await?;
    let service = room.service("haproxy", 80).await?;
    let load = Load::start(service.address(), &Served::targets());
    let old: Vec<String> = room.pods(HAPROXY).await?.into_iter().map(|pod| pod.name).collect();

    room.scale("haproxy", 5).await?;
    let addressed = |pods: &[&Value]| {
        let ips: Vec<String> = pods
            .iter()
            .filter(|pod| !old.iter().any(|name| pod["metadata"]["name"] == **name))
            .filter_map(|pod| pod["status"]["podIP"].as_str().map(str::to_owned))
            .collect();
        (ips.len() == 3).then_some(ips)
    };
    let new = room.objects.until_all((POD, room.system(), HAPROXY), "three new pods with addresses", addressed).await?;
    let mut watchers = JoinSet::new();
    for ip in new {
        let passage = room.cluster().passage(&format!("{ip}:{HTTP}")).await?;
        watchers.spawn(first_answers(passage));
    }
    let ready = room.ready_pods(HAPROXY, 5).await?;
    for pod in &ready {
        // At this very moment, not some time later.
        let door = room.passage(pod, HTTP).await?;
        for host in HOSTS.map(|(host, _)| host).into_iter().chain(["third.localhost"]) {
            let answer = get(door.address(), host, "/").await?;
            assert!(answer.pod().is_some(), "{host} through {}: {answer:?}", pod.name);
        }
    }
    while let Some(first) = watchers.join_next().await {
        let wrong = first?;
        assert!(wrong.is_empty(), "a pod answered before it knew everything: {wrong:?}");
    }
    load.flow(300).await;
    room.scale("haproxy", 1).await?;
    room.ready_pods(HAPROXY, 1).await?;
    load.flow(300).await;
    let report = load.finish().await;
    assert_eq!(report.failed, 0, "{} of {} requests failed: {:#?}", report.failed, report.requests, report.samples);
    served.add_route("fourth", "fourth.localhost").await.context("the pod that is left takes new routes")?;
    served.room.close().await
}

/// Asks from before the pod listens until it gave 20 answers; those that are wrong.
async fn first_answers(passage: Passage) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut answers = 0;
    let mut ticks = interval(Duration::from_millis(20));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while answers < 20 {
        ticks.tick().await;
        // Nothing listens yet.
        let Ok(answer) = get(passage.address(), "third.localhost", "/").await else { continue };
        answers += 1;
        if answer.pod().is_none() {
            wrong.push(format!("{} {}", answer.status, answer.body));
        }
    }
    wrong
}
