//! A local address for a port that a pod has on its loopback only, as a person reaches it: `kubectl port-forward`.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Stdio},
    thread,
};

use anyhow::{Context as _, Result};

use crate::cluster::Cluster;

/// Open until it is dropped.
pub struct PortForward {
    kubectl: Child,
    address: SocketAddr,
}

// === impl PortForward ===

impl PortForward {
    pub(super) async fn open(cluster: &Cluster, namespace: &str, pod: &str, port: u16) -> Result<Self> {
        let mut command = cluster.kubectl_command();
        command.args(["port-forward", "--namespace", namespace, &format!("pod/{pod}"), &format!(":{port}")]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut kubectl = command.spawn().context("start kubectl port-forward")?;
        let mut lines = BufReader::new(kubectl.stdout.take().context("kubectl has an output")?).lines();
        let said = tokio::task::spawn_blocking(move || {
            let address = lines
                .by_ref()
                .map_while(Result::ok)
                .find_map(|line| line.strip_prefix("Forwarding from ")?.split(' ').next()?.parse().ok());
            // Nobody waits for what else it says.
            thread::spawn(move || lines.for_each(drop));
            address
        });
        let address = said.await.context("read what kubectl says")?;
        let Some(address) = address else {
            let _ = kubectl.kill();
            let _ = kubectl.wait();
            anyhow::bail!("kubectl port-forward to pod {pod} did not start");
        };
        Ok(Self { kubectl, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for PortForward {
    fn drop(&mut self) {
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}
