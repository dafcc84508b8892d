//! What a pod's object says of it: whether its agent can be asked, and where.

use std::{net::IpAddr, net::SocketAddr, sync::Arc};

use haptic_store::RawObject;
use serde_json::Value;

/// A pod whose agent can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) name: Arc<str>,
    pub(super) identity: Identity,
    /// Which processes run in it; differs after every restart of a container.
    pub(super) containers: Vec<Container>,
}

/// A pod with another identity is another pod, whatever its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uid: Arc<str>,
    pub(super) agent: SocketAddr,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Container {
    name: String,
    id: String,
    restarts: u64,
}

// === impl Candidate ===

impl Candidate {
    /// `None` while the pod has no address, is ending or has ended, or its agent's container does not run. Whether it is
    /// Ready plays no part: a pod becomes Ready by what is deployed to it.
    pub(super) fn of(pod: &RawObject, agent_port: u16) -> Option<Self> {
        let value = pod.value();
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
        if value.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
            || matches!(text("/status/phase"), Some("Failed" | "Succeeded"))
            || !agent_runs(&value, agent_port)
        {
            return None;
        }
        let address: IpAddr = text("/status/podIP")?.parse().ok()?;
        let uid = text("/metadata/uid").unwrap_or_default().into();
        let mut containers: Vec<_> = statuses(&value).map(Container::of).collect();
        containers.sort();
        let identity = Identity { uid, agent: SocketAddr::new(address, agent_port) };
        Some(Self { name: pod.name.clone(), identity, containers })
    }
}

// === impl Container ===

impl Container {
    fn of(status: &Value) -> Self {
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        Self { name: text("name"), id: text("containerID"), restarts: status["restartCount"].as_u64().unwrap_or(0) }
    }
}

/// The agent's container is the one that declares its port. Declaring ports is not required: without it, any container
/// that runs may be the agent's, and asking tells.
fn agent_runs(pod: &Value, agent_port: u16) -> bool {
    let declares = |container: &Value| {
        list(&container["ports"]).any(|port| port["containerPort"].as_u64() == Some(agent_port.into()))
    };
    let specified = list(&pod["spec"]["containers"]).chain(list(&pod["spec"]["initContainers"]));
    let agents: Vec<_> =
        specified.filter(|container| declares(container)).map(|container| &container["name"]).collect();
    statuses(pod).any(|status| {
        status["state"]["running"].is_object() && (agents.is_empty() || agents.contains(&&status["name"]))
    })
}

/// Of all containers; a sidecar's stands among those of the init containers.
fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    list(&pod["status"]["containerStatuses"]).chain(list(&pod["status"]["initContainerStatuses"]))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
