//! In a real Kubernetes: how long the API server takes for a write that controllers judge, with `haproxy -c`
//! and without the time that this takes.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::{
    Scrape,
    cluster::{
        POD, PodState,
        served::{HAPTIC, Served, route},
        webhook::{Webhook, switch_on},
    },
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    kubernetes::asleep,
    stats::{self, Samples},
};

const SINGLE: usize = 200;
const TOGETHER: usize = 50;
const ROUNDS: usize = 4;
const METRICS: u16 = 9090;
const CHECK_SECONDS: &str = "haptic_admission_check_duration_seconds_sum";

/// The cluster, and the routes that it has.
struct Measured {
    served: Served,
    /// Address of a pod that every route leads to.
    backend: String,
    config: Value,
    /// Routes so far; their numbers are those below.
    routes: Cell<usize>,
}

/// With so many routes, one after the other.
pub(crate) fn measure(routes: &[usize]) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measured(routes))
}

async fn measured(routes: &[usize]) -> Result<()> {
    let change = |object: &mut Value| {
        switch_on(object);
        asleep(object);
    };
    let served = Served::prepare("admission-bench").await?;
    Webhook::prepare(&served).await?.renew().await?;
    served.finish(&change).await?;
    let address = |pods: &[&Value]| pods.first()?["status"]["podIP"].as_str().map(str::to_owned);
    let backend = served.room.objects.until_all((POD, served.room.shop(), "app=web"), "a pod of web", address).await?;
    let mut config = served.room.example("cluster/config.yaml")?.remove(0);
    change(&mut config);
    config["spec"]["validators"] = json!([]);
    let measured = Measured { served, backend, config, routes: Cell::new(0) };
    for wanted in routes {
        measured.figures(*wanted).await?;
    }
    measured.served.room.close().await
}

// === impl Measured ===

impl Measured {
    async fn figures(&self, wanted: usize) -> Result<()> {
        println!("-- {wanted} routes");
        let missing: Vec<Value> = (self.routes.get()..wanted).flat_map(|number| self.route(number)).collect();
        self.served.room.objects.create_all(missing).await?;
        self.routes.set(self.routes.get().max(wanted));
        self.served.room.scale("haptic", 1).await?;
        let began = Instant::now();
        let controller = self.served.room.ready_pods(HAPTIC, 1).await?.remove(0);
        stats::print("controller started until it judges", &stats::shown(began.elapsed()), "");

        let mut without = Samples::default();
        for _ in 0..SINGLE {
            without.push(self.write().await?);
        }
        without.print("one create, without the webhook", "");
        let webhook = Webhook::prepare(&self.served).await?;
        webhook.register(&self.config, "fail").await?;
        let mut bad = self.route(0)[2].clone();
        bad["metadata"] = json!({
            "name": "bad", "namespace": self.served.room.shop(), "annotations": { "haptic.rs/timeout-server": "soon" },
        });
        webhook.until_asked(&bad).await?;
        self.singles(&controller).await?;
        self.together().await?;
        webhook.unregister().await?;
        self.served.room.scale("haptic", 0).await
    }

    /// One after the other: as a whole, and without the time that HAProxy took, which the controller tells.
    async fn singles(&self, controller: &PodState) -> Result<()> {
        let door = self.served.room.passage(controller, METRICS).await?;
        let checked = async || anyhow::Ok(Scrape::of(door.address()).await?.sum(CHECK_SECONDS, &[]));
        let (mut whole, mut rest) = (Samples::default(), Samples::default());
        let mut before = checked().await?;
        for _ in 0..SINGLE {
            let took = self.write().await?;
            let now = checked().await?;
            ensure!(now > before, "the write was judged without haproxy -c");
            whole.push(took);
            rest.push(took.saturating_sub(Duration::from_secs_f64(now - before)));
            before = now;
        }
        whole.print("one create, judged with haproxy -c", "1 s (p99)");
        rest.print("of that, without the time of haproxy -c", "200 ms (p99)");
        Ok(())
    }

    async fn together(&self) -> Result<()> {
        let (mut together, mut denied) = (Samples::default(), 0);
        for _ in 0..ROUNDS {
            let (samples, failed) = self.at_once().await?;
            for sample in samples {
                together.push(sample);
            }
            denied += failed;
        }
        together.print(&format!("{TOGETHER} creates at once, each, judged with haproxy -c"), "3 s (p99)");
        stats::print("of them denied or unanswered", &denied.to_string(), "0");
        Ok(())
    }

    fn route(&self, number: usize) -> [Value; 3] {
        let (name, room) = (format!("route-{number}"), &self.served.room);
        route(&name, &format!("{name}.localhost"), room.shop(), room.ingress_class(), &self.backend)
    }

    /// Service and slice of the next route, and its Ingress, which is not written yet.
    async fn prepared(&self) -> Result<Value> {
        let [service, slice, ingress] = self.route(self.routes.replace(self.routes.get() + 1));
        self.served.room.objects.create_all(vec![service, slice]).await?;
        Ok(ingress)
    }

    /// The Ingress alone is timed: it is what changes the configuration.
    async fn write(&self) -> Result<Duration> {
        let ingress = self.prepared().await?;
        let began = Instant::now();
        self.served.room.objects.apply(&ingress).await?;
        Ok(began.elapsed())
    }

    /// How long each took, and how many were not accepted.
    async fn at_once(&self) -> Result<(Vec<Duration>, usize)> {
        let mut ingresses = Vec::new();
        for _ in 0..TOGETHER {
            ingresses.push(self.prepared().await?);
        }
        let mut running = JoinSet::new();
        for ingress in ingresses {
            let objects = self.served.room.objects.clone();
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
}
