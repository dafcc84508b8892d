//! The leader ends, one way or the other, while the shop is under load and its endpoints change.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use haptic_e2e::{
    Load,
    cluster::{DEPLOYMENT, Objects},
    exclusive,
};
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use haptic_e2e::cluster::served::{HAPTIC, LEASE_DURATION, LEASE_NAME, RETRY_PERIOD, Served};

/// Above what the times of the Lease allow: a busy machine starts processes late.
const SLACK: Duration = Duration::from_secs(3);
/// How long a hand-over may take when the leader says that it goes.
const HANDED_OVER: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_one_leads_in_time_and_no_request_fails() -> Result<()> {
    let _turn = exclusive().await;
    // Endpoints that go serve on until well after another leader knows of them.
    let patient = |object: &mut Value| {
        if object["kind"] == "Deployment" && object["metadata"]["name"] == "api" {
            let pod = &mut object["spec"]["template"]["spec"];
            pod["terminationGracePeriodSeconds"] = 60.into();
            pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"] = 20.into();
        }
    };
    let served = Served::start("leader", &patient).await?;
    let room = &served.room;
    let lease = room.watch_lease(LEASE_NAME);
    let mut leader = lease.until("a leader", |state| state.holder.clone().map(|holder| (holder, state.epoch))).await?;

    let service = room.service("haproxy", 80).await?;
    let load = Load::start(service.address(), &Served::targets());
    load.flow(200).await;
    let (go_on, stop) = watch::channel(());
    let churn = tokio::spawn(churn(room.objects.clone(), room.shop().to_owned(), stop));
    for (signal, bound) in [
        (rustix::process::Signal::KILL, Duration::from_secs(LEASE_DURATION + 2 * RETRY_PERIOD) + SLACK),
        (rustix::process::Signal::TERM, HANDED_OVER),
    ] {
        let (holder, epoch) = leader;
        let begun = Instant::now();
        room.signal(&holder, "haptic", signal).await?;
        let what = format!("another leader after {signal:?} to {holder}");
        let next = lease.until(&what, |state| (state.epoch > epoch).then(|| state.clone())).await?;
        assert!(next.at - begun <= bound, "{signal:?}: after {:?}, and {bound:?} are allowed", next.at - begun);
        leader = (next.holder.context("an epoch has a holder")?, next.epoch);
        // It acts as one: a new route arrives through it.
        served.add_route(&format!("term-{}", next.epoch), &format!("term-{}.localhost", next.epoch)).await?;
        load.flow(500).await;
        room.ready_pods(HAPTIC, 2).await?;
    }
    drop(go_on);
    let changes = churn.await??;
    let report = load.finish().await;
    assert_eq!(report.failed, 0, "{} of {} requests failed: {:#?}", report.failed, report.requests, report.samples);
    assert!(changes >= 2, "endpoints changed only {changes} times");
    lease.check_epochs()?;
    served.room.close().await
}

/// Scales a Deployment up and down until it is told to stop; how often it did.
async fn churn(objects: Objects, namespace: String, mut stop: watch::Receiver<()>) -> Result<u32> {
    let mut changes = 0;
    let namespace: Arc<str> = namespace.into();
    loop {
        for replicas in [3, 2] {
            let patch = json!({ "spec": { "replicas": replicas } });
            objects.merge(DEPLOYMENT, &namespace, "api", &patch).await?;
            let scaled = |deployment: &Value| (deployment["status"]["readyReplicas"] == replicas).then_some(());
            tokio::select! {
                _ = stop.changed() => return Ok(changes),
                scaled = objects.until((DEPLOYMENT, &namespace, "api"), "it to be scaled", scaled) => scaled?,
            }
            changes += 1;
        }
    }
}
