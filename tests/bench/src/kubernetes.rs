//! In a real Kubernetes: from a write to the API server to the first answer through HAProxy.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::{
    cluster::{
        DEPLOYMENT, ENDPOINT_SLICE, POD, PodState,
        served::{AGENT, HAPROXY, HAPTIC, Served, route},
    },
    tls,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    Subject,
    inside::{Client, Inside},
    stats::{self, Samples},
};

const CHANGES: usize = 100;
const NEW_ROUTES: usize = 100;
/// Between two changes that are measured one by one: each meets quiet debounce windows, of 100 ms by default, and what
/// follows the last one off its path is done.
const APART: Duration = Duration::from_millis(500);

/// When the next change is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rhythm {
    /// A while after the last one was served.
    Apart,
    /// As soon as the last one was served.
    InARow,
}

pub(crate) fn measure(subject: &Subject) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measured(subject.routes))
}

async fn measured(routes: usize) -> Result<()> {
    ensure!(routes >= CHANGES, "the number of routes must be at least {CHANGES}");
    let served = Served::apply("bench", &asleep).await?;
    let (room, objects) = (&served.room, &served.room.objects);
    let steady = |deployment: &Value| (deployment["status"]["readyReplicas"] == 2).then_some(());
    for name in ["web", "api"] {
        objects.until((DEPLOYMENT, room.shop(), name), "its pods to be ready", steady).await?;
    }
    let backends = backends(&served).await?;
    let all = (0..routes).flat_map(|number| {
        let (name, host) = names(number);
        route(&name, &host, room.shop(), room.ingress_class(), &backends[0].1)
    });
    objects.create_all(all.collect()).await?;

    room.scale("haproxy", 1).await?;
    let pod = running(&served, HAPROXY).await?;
    let began = Instant::now();
    room.scale("haptic", 1).await?;
    room.ready_pods(HAPROXY, 1).await?;
    stats::print("controller started until HAProxy serves all of it", &stats::shown(began.elapsed()), "");
    let controller = running(&served, HAPTIC).await?;
    let inside = Inside::of(room, &pod).await?;
    let client = inside.client();
    client.until_other(&names(routes - 1).1, None).await?;

    for debounce in [None, Some("0")] {
        let with = if debounce.is_some() { ", debounce 0" } else { ", default debounce" };
        if let Some(interval) = debounce {
            set_debounce(&served, interval).await?;
        }
        let reloads = reloads(&served, &pod).await?;
        let load = inside.load(&Served::targets());
        load.flow(100).await;
        endpoints(&served, &client, &backends, with).await?;
        let first = routes + if debounce.is_some() { 2 * NEW_ROUTES } else { 0 };
        for (first, rhythm) in [(first, Rhythm::Apart), (first + NEW_ROUTES, Rhythm::InARow)] {
            new_routes(&served, &client, &backends[0].1, first, rhythm, with).await?;
        }
        let report = load.finish().await;
        let now = self::reloads(&served, &pod).await?;
        stats::print(&format!("reloads{with}"), &(now - reloads).to_string(), "0");
        let failed = format!("{} of {}", report.failed, report.requests);
        stats::print(&format!("failed requests under load{with}"), &failed, "0");
    }
    let memory = memory(&served, &controller).await?;
    stats::print("memory of the controller (RSS)", &format!("{memory} MiB"), "120 MiB");
    room.scale("haptic", 0).await?;
    served.room.close().await
}

/// The example without controllers and HAProxies, and without rendered-output validators.
pub(crate) fn asleep(object: &mut Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if object["kind"] == "Deployment" && (name == "haptic" || name == "haproxy") {
        object["spec"]["replicas"] = 0.into();
    }
    if object["kind"] == "HAProxyTemplateConfig" {
        // Each adds its own cost, linear in the configuration: `haptic-bench` prints it apart.
        object["spec"]["validators"] = json!([{ "plugin": "error-file", "files": ["general/*.http"] }]);
        object["spec"]["plugins"] = json!([{ "name": "error-file" }, { "name": "network" }]);
    }
}

/// A patch of an EndpointSlice that moves a route to the other pod. Wants as many routes as there are changes.
async fn endpoints(served: &Served, client: &Client, backends: &[(String, String)], with: &str) -> Result<()> {
    let (mut samples, mut written) = (Samples::default(), Samples::default());
    for round in 0..CHANGES {
        // Another route each time: an address that comes back while a client still uses its old server is a reload.
        let (name, host) = names(round);
        let now = client.ask(&host).await?.context("the route answers")?;
        let (_, address) = backends.iter().find(|(name, _)| *name != now).context("there are two backends")?;
        let patch = json!({ "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }] });
        let began = Instant::now();
        served.room.objects.merge(ENDPOINT_SLICE, served.room.shop(), &name, &patch).await?;
        written.push(began.elapsed());
        samples.push(client.until_other(&host, Some(&now)).await? - began);
    }
    samples.print(&format!("endpoint change, API patch to first answer{with}"), "10/40 ms");
    written.print("  of it until the API server answers the patch", "");
    Ok(())
}

/// Service and slice are there; the Ingress is what makes the route.
async fn new_routes(
    served: &Served,
    client: &Client,
    address: &str,
    first: usize,
    rhythm: Rhythm,
    with: &str,
) -> Result<()> {
    let room = &served.room;
    let (mut samples, mut written) = (Samples::default(), Samples::default());
    for number in first..first + NEW_ROUTES {
        let (name, host) = names(number);
        let [service, slice, ingress] = route(&name, &host, room.shop(), room.ingress_class(), address);
        room.objects.apply(&service).await?;
        room.objects.apply(&slice).await?;
        if rhythm == Rhythm::Apart {
            sleep(APART).await;
        }
        let began = Instant::now();
        room.objects.apply(&ingress).await?;
        written.push(began.elapsed());
        samples.push(client.until_other(&host, None).await? - began);
    }
    let (how, goal) = match rhythm {
        Rhythm::Apart => ("new route, API write to first 200", "p99 50 ms"),
        Rhythm::InARow => ("new routes in a row", ""),
    };
    samples.print(&format!("{how}{with}"), goal);
    written.print("  of it until the API server answers the write", "");
    Ok(())
}

async fn set_debounce(served: &Served, interval: &str) -> Result<()> {
    let watched: serde_json::Map<String, Value> = ["ingresses", "services", "endpointslices", "secrets"]
        .map(|name| (name.to_owned(), json!({ "debounceInterval": interval })))
        .into_iter()
        .collect();
    let generation = served.configure(&json!({ "spec": { "watchedResources": watched } })).await?;
    let verdict = served.judged(generation).await?;
    ensure!(verdict.starts_with("True "), "the debounce was not taken: {verdict}");
    Ok(())
}

/// Names and addresses of the pods that every route leads to, one at a time.
async fn backends(served: &Served) -> Result<Vec<(String, String)>> {
    let pods = served.room.objects.list(POD, served.room.shop(), "app=web").await?;
    let told = pods.iter().filter_map(|pod| {
        let name = pod["metadata"]["name"].as_str()?.to_owned();
        Some((name, pod["status"]["podIP"].as_str()?.to_owned()))
    });
    let backends: Vec<_> = told.collect();
    ensure!(backends.len() >= 2, "the web Deployment has two pods");
    Ok(backends)
}

/// The one pod of these labels, once it has an address.
async fn running(served: &Served, labels: &str) -> Result<PodState> {
    let one = |pods: &[&Value]| {
        let name = pods.first()?["metadata"]["name"].as_str()?.to_owned();
        pods[0]["status"]["podIP"].as_str().map(|_| name)
    };
    let room = &served.room;
    let name = room.objects.until_all((POD, room.system(), labels), "a pod with an address", one).await?;
    room.pods(labels).await?.into_iter().find(|pod| pod.name == name).context("it was there a moment ago")
}

async fn reloads(served: &Served, pod: &PodState) -> Result<u64> {
    let agent = served.room.passage(pod, AGENT).await?;
    let state = tls::get_as(agent.address(), &served.credentials.controller, "/v1/state?plan=0").await?;
    let state: Value = serde_json::from_str(&state.body).context("read the agent's state")?;
    state["reloads"].as_u64().context("the agent counts reloads")
}

/// In MiB.
async fn memory(served: &Served, controller: &PodState) -> Result<u64> {
    let room = &served.room;
    let processes = room.cluster().processes(room.system(), &controller.name).await?;
    let pid = processes.get("haptic").context("the controller runs")?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("read the controller's memory")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("the kernel tells its size")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().context("a number")?;
    Ok(kilobytes / 1024)
}

fn names(number: usize) -> (String, String) {
    (format!("route-{number}"), format!("route-{number}.localhost"))
}
