//! Discovery through a real API server, of pods whose agents are the real program behind TLS.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use haptic_controller::{
    agent_port::Connect,
    agents,
    bus::{EventBus, Subscription},
    cluster::{Discovery, DiscoveryMetrics, DiscoverySettings},
    events::{Event, EventKind},
    pod::{Endpoint, Pod as Discovered},
};
use haptic_e2e::cluster::{Cluster, Component};
use haptic_kubernetes::{Access, Api, Jitter, Limits, SourceSettings, connect};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::{task::spawn_blocking, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::pod::Pod;

/// Longer than anything takes on a busy machine.
const BOUND: Duration = Duration::from_mins(1);
/// Where the API server is told that the pod is: it refuses loopback addresses.
const POD_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1));
const PORT: u16 = 5555;

/// The agent of the pod at [`POD_ADDRESS`] is this one; nobody is anywhere else.
fn connections(pod: &Pod) -> Connect {
    let (connect, agent) = (agents::connect(Some(pod.identity.clone())), pod.api());
    Arc::new(move |endpoint| match endpoint {
        Endpoint::Tls(address) if *address == SocketAddr::new(POD_ADDRESS, PORT) => connect(&Endpoint::Tls(agent)),
        endpoint => connect(endpoint),
    })
}

/// Nothing runs this pod: its status is what the test says.
fn manifest(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "namespace": "edge", "labels": { "app": "haproxy", "tier": "edge" } },
        "spec": {
            "schedulerName": "nobody",
            "containers": [{ "name": "agent", "image": "haptic", "ports": [{ "containerPort": PORT }] }],
        },
    })
}

fn running() -> String {
    let container = json!({
        "name": "agent", "ready": false, "restartCount": 0, "image": "haptic", "imageID": "",
        "containerID": "process://1", "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
    });
    let status = json!({ "phase": "Running", "podIP": POD_ADDRESS, "podIPs": [{ "ip": POD_ADDRESS }],
        "containerStatuses": [container] });
    json!({ "status": status }).to_string()
}

async fn discovered(events: &mut Subscription) -> Result<Arc<[Discovered]>> {
    match timeout(BOUND, events.next()).await.context("nothing was published")? {
        Some(Event::HAProxyPodsDiscovered { pods, .. }) => Ok(pods),
        other => bail!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_found_by_label_asked_over_tls_and_kept_while_the_api_server_is_away() -> Result<()> {
    let mut pod = Pod::start(&[]).await?;
    let cluster = spawn_blocking(Cluster::start).await??;
    cluster.kubectl(&["create", "namespace", "edge"]).await?;
    let mut other = manifest("other");
    other["metadata"]["labels"] = json!({ "app": "haproxy" });
    cluster.apply_text(&other.to_string()).await?;
    cluster
        .kubectl(&["-n", "edge", "patch", "pod", "other", "--subresource=status", "--type=merge", "-p", &running()])
        .await?;

    let access = Access::Kubeconfig { path: cluster.kubeconfig().to_owned(), context: None };
    let api = Api::new(connect(&access, Duration::from_secs(10)).await?, Limits::default());
    let bus = EventBus::new();
    let mut events = bus.subscribe("test", &[EventKind::HAProxyPodsDiscovered]);
    bus.start();
    let labels = BTreeMap::from([("app", "haproxy"), ("tier", "edge")].map(|(k, v)| (k.to_owned(), v.to_owned())));
    let metrics = DiscoveryMetrics::register(&mut Registry::default());
    let source = SourceSettings::new(Jitter::random());
    let settings = DiscoverySettings::new("edge", &labels, PORT, source, metrics)
        .map_err(|findings| anyhow::anyhow!("{findings:?}"))?;
    let stop = CancellationToken::new();
    let (discovery, fleet) = Discovery::new(&bus, api, settings, connections(&pod), stop.clone());
    let running_discovery = tokio::spawn(discovery.run());

    ensure!(discovered(&mut events).await?.is_empty(), "a pod without all labels is none of ours");
    cluster.apply_text(&manifest("haproxy-0").to_string()).await?;
    cluster
        .kubectl(&["-n", "edge", "patch", "pod", "haproxy-0", "--subresource=status", "--type=merge", "-p", &running()])
        .await?;
    let pods = discovered(&mut events).await?;
    ensure!(pods.len() == 1 && &*pods[0].name == "haproxy-0" && !pods[0].uid.is_empty(), "{pods:?}");
    ensure!(pods[0].endpoint == Endpoint::Tls((POD_ADDRESS, PORT).into()), "{pods:?}");
    ensure!(pods[0].haproxy.is_none(), "its HAProxy does not run before the first apply: {pods:?}");

    let config = pod.config(pod.backend());
    let (manifest, parts) = pod.manifest(&config, 7);
    ensure!(pod.client().apply(&manifest, &parts).await?.ok, "the configuration is applied");
    timeout(BOUND, fleet.ask_again().answered()).await.context("the round ends")?;
    ensure!(*fleet.seen_epoch().borrow() == 7, "{:?}", fleet.seen_epoch());
    let pods = discovered(&mut events).await?;
    ensure!(pods[0].haproxy == Some((3, 4)), "{pods:?}");

    cluster.kill(Component::ApiServer).await?;
    let (manifest, parts) = pod.manifest(&config, 9);
    ensure!(pod.client().apply(&manifest, &parts).await?.ok, "the configuration is applied");
    timeout(BOUND, fleet.ask_again().answered()).await.context("agents are asked without the API server")?;
    ensure!(*fleet.seen_epoch().borrow() == 9, "{:?}", fleet.seen_epoch());
    ensure!(events.try_next().is_none() && fleet.pods().borrow().len() == 1, "nothing is withdrawn");
    cluster.start_again(Component::ApiServer).await?;
    cluster.kubectl(&["-n", "edge", "delete", "pod", "haproxy-0", "--grace-period=0", "--force"]).await?;
    ensure!(discovered(&mut events).await?.is_empty(), "it is gone");

    stop.cancel();
    timeout(BOUND, running_discovery).await.context("it ends when it is told to")???;
    Ok(())
}
