//! HAProxy as a DaemonSet: one pod a node, and the ports of the node.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result};
use haptic_e2e::{
    cluster::{NAMESPACE, NODE, POD, served::HOSTS},
    exclusive, get, within,
};
use serde_json::{Value, json};

use crate::{
    helm::{Helm, chart},
    release::{HAPROXIES, Release},
};

/// No other pod asks a node for this one.
const HOST_PORT: u16 = 18_080;
/// Of HAProxy itself.
const HTTP: u16 = 8080;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_has_one_and_answers_on_its_own_ports() -> Result<()> {
    let _turn = exclusive().await;
    let mut release = Release::prepare(Helm::four()?, "daemons").await?;
    release.set(&json!({ "haproxy": { "kind": "DaemonSet" } }));
    let nodes = addresses(&release).await?;
    assert_eq!(nodes.len(), 2, "one pod a node is worth a look where there are several");

    // The namespace takes restricted pods only, and these are.
    release.deploy(&chart("haptic"), &json!({}))?;
    release.all_ready().await?;
    assert_eq!(hosts(&release).await?, nodes, "each node has one pod");
    release.check_routes().await?;

    // Ports of nodes are outside of that standard. Each pod is replaced before its node has them.
    let label = json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "privileged" } } });
    release.room.objects.merge(NAMESPACE, "", release.room.system(), &label).await?;
    release.deploy(&chart("haptic"), &json!({ "haproxy": { "hostPorts": { "http": HOST_PORT } } }))?;
    release.all_ready().await?;
    for node in &nodes {
        answers(&release, &format!("{node}:{HOST_PORT}")).await?;
    }

    // All nodes of this cluster are one network, so one of them has the pod that listens on all addresses of it.
    let node = release.room.objects.list(NODE, "", "").await?.remove(0);
    let only = json!({ "kubernetes.io/hostname": node["metadata"]["labels"]["kubernetes.io/hostname"] });
    release.deploy(&chart("haptic"), &json!({ "haproxy": { "hostNetwork": true, "nodeSelector": only } }))?;
    let pod = release.room.ready_pods(HAPROXIES, 1).await?.remove(0);
    let address = pod.ip.context("it is ready")?.to_string();
    assert!(nodes.contains(&address), "the pod has the address of its node: {address}");
    answers(&release, &format!("{address}:{HTTP}")).await?;
    release.helm(&["uninstall", "haptic", "--wait", "--timeout", "300s"])?;
    release.room.close().await
}

/// Both hosts answer at this address of the cluster's network.
async fn answers(release: &Release, address: &str) -> Result<()> {
    let door = release.room.cluster().passage(address).await?;
    for (host, served_by) in HOSTS {
        within(Duration::from_mins(2), &format!("{host} at {address}"), async || {
            let answer = get(door.address(), host, "/").await.ok()?;
            answer.pod().filter(|name| name.starts_with(served_by))
        })
        .await;
    }
    Ok(())
}

/// Of the nodes.
async fn addresses(release: &Release) -> Result<BTreeSet<String>> {
    let nodes = release.room.objects.list(NODE, "", "").await?;
    let internal = |node: &Value| {
        let addresses = node["status"]["addresses"].as_array()?;
        let address = addresses.iter().find(|address| address["type"] == "InternalIP")?;
        address["address"].as_str().map(str::to_owned)
    };
    nodes.iter().map(|node| internal(node).context("every node has an address")).collect()
}

/// The addresses of nodes that have a HAProxy pod; no node has two.
async fn hosts(release: &Release) -> Result<BTreeSet<String>> {
    let pods = release.room.objects.list(POD, release.room.system(), HAPROXIES).await?;
    let hosts: BTreeSet<_> =
        pods.iter().filter_map(|pod| pod["status"]["hostIP"].as_str().map(str::to_owned)).collect();
    assert_eq!(hosts.len(), pods.len(), "{hosts:?}");
    Ok(hosts)
}
