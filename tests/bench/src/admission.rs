//! In a real Kubernetes: how long the API server takes for a write that controllers judge, with `haproxy -c`.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::cluster::{
    POD,
    served::{HAPTIC, Served, route},
    webhook::{Webhook, switch_on},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    Subject,
    kubernetes::asleep,
    stats::{self, Samples},
};

const SINGLE: usize = 50;
const TOGETHER: usize = 50;
const ROUNDS: usize = 4;

pub(crate) fn measure(subject: &Subject) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measured(subject.routes))
}

async fn measured(routes: usize) -> Result<()> {
    let change = |object: &mut Value| {
        switch_on(object);
        asleep(object);
    };
    let served = Served::prepare("admission-bench").await?;
    let webhook = Webhook::prepare(&served).await?;
    webhook.renew().await?;
    served.finish(&change).await?;
    let room = &served.room;
    let address = |pods: &[&Value]| pods.first()?["status"]["podIP"].as_str().map(str::to_owned);
    let backend = room.objects.until_all((POD, room.shop(), "app=web"), "a pod of web", address).await?;
    let made = |number: usize| {
        let name = format!("route-{number}");
        route(&name, &format!("{name}.localhost"), room.shop(), room.ingress_class(), &backend)
    };
    room.objects.create_all((0..routes).flat_map(made).collect()).await?;
    room.scale("haptic", 1).await?;
    let began = Instant::now();
    room.ready_pods(HAPTIC, 1).await?;
    stats::print("controller started until it judges", &stats::shown(began.elapsed()), "");

    let mut without = Samples::default();
    for number in routes..routes + SINGLE {
        without.push(write(&served, made(number)).await?);
    }
    without.print("one create, without the webhook", "");
    let mut config = room.example("cluster/config.yaml")?.remove(0);
    change(&mut config);
    config["spec"]["validators"] = json!([]);
    webhook.register(&config, "fail").await?;
    let mut bad = made(0)[2].clone();
    bad["metadata"] = json!({
        "name": "bad", "namespace": room.shop(), "annotations": { "haptic.rs/timeout-server": "soon" },
    });
    webhook.until_asked(&bad).await?;

    let next = routes + SINGLE;
    let mut single = Samples::default();
    for number in next..next + SINGLE {
        single.push(write(&served, made(number)).await?);
    }
    single.print("one create, judged with haproxy -c", "1 s (p99)");
    let (mut together, mut denied) = (Samples::default(), 0);
    for round in 0..ROUNDS {
        let first = next + SINGLE + round * TOGETHER;
        let (samples, failed) = at_once(&served, (first..first + TOGETHER).map(made)).await?;
        for sample in samples {
            together.push(sample);
        }
        denied += failed;
    }
    together.print(&format!("{TOGETHER} creates at once, each, judged with haproxy -c"), "3 s (p99)");
    stats::print("of them denied or unanswered", &denied.to_string(), "0");
    webhook.unregister().await?;
    room.scale("haptic", 0).await?;
    served.room.close().await
}

/// The Ingress alone is timed: it is what changes the configuration.
async fn write(served: &Served, [service, slice, ingress]: [Value; 3]) -> Result<Duration> {
    served.room.objects.create_all(vec![service, slice]).await?;
    let began = Instant::now();
    served.room.objects.apply(&ingress).await?;
    Ok(began.elapsed())
}

/// How long each took, and how many were not accepted.
async fn at_once(served: &Served, routes: impl Iterator<Item = [Value; 3]>) -> Result<(Vec<Duration>, usize)> {
    let mut ingresses = Vec::new();
    for [service, slice, ingress] in routes {
        served.room.objects.create_all(vec![service, slice]).await?;
        ingresses.push(ingress);
    }
    let mut running = JoinSet::new();
    for ingress in ingresses {
        let objects = served.room.objects.clone();
        running.spawn(async move {
            let began = Instant::now();
            let written = objects.apply(&ingress).await;
            (began.elapsed(), written.is_ok())
        });
    }
    let (mut samples, mut failed) = (Vec::new(), 0);
    while let Some(written) = running.join_next().await {
        let (duration, accepted) = written.context("write an Ingress")?;
        samples.push(duration);
        failed += usize::from(!accepted);
    }
    ensure!(samples.len() == TOGETHER, "every write is answered");
    Ok((samples, failed))
}
