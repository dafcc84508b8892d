//! Under which addresses Ingresses are reached.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Duration};

use haptic_api::{IngressStatus, ServiceRef};
use haptic_kubernetes::{Api, Trouble};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::{objects::SERVICE, revise::text};

/// How long what was read of the Service is believed.
const FRESH: Duration = Duration::from_mins(1);
/// The same while it has no address: its load balancer is being made.
const FRESH_WHILE_NONE: Duration = Duration::from_secs(10);

/// The Service in front of the pods, as it was read last.
#[derive(Default)]
pub(super) struct PublishService {
    read: Option<Read>,
}

struct Read {
    service: ServiceRef,
    addresses: BTreeSet<Arc<str>>,
    at: Instant,
}

/// What Ingresses are to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) all: BTreeSet<Arc<str>>,
    /// When to look again.
    pub(super) again: Option<Duration>,
}

// === impl PublishService ===

impl PublishService {
    /// `None` = the Service is not there: nothing is concluded from that.
    pub(super) async fn addresses(
        &mut self,
        api: &Api,
        settings: &IngressStatus,
        namespace: &str,
    ) -> Result<Option<Addresses>, Trouble> {
        let mut all: BTreeSet<Arc<str>> = settings.addresses.iter().map(|address| address.as_str().into()).collect();
        let Some(wanted) = &settings.publish_service else { return Ok(Some(Addresses { all, again: None })) };
        let fresh = self.read.as_ref().filter(|read| read.service == *wanted && read.left() > Duration::ZERO);
        if fresh.is_none() {
            let namespace = wanted.namespace.as_deref().unwrap_or(namespace);
            let Some(service) = SERVICE.objects(api, namespace).get(&wanted.name).await? else {
                self.read = None;
                tracing::warn!(
                    %namespace, name = %wanted.name,
                    "the Service of controller.ingressStatus.publishService is not there; Ingresses keep their status"
                );
                return Ok(None);
            };
            self.read = Some(Read { service: wanted.clone(), addresses: of_service(&service), at: Instant::now() });
        }
        let read = self.read.as_ref().expect("it was read above, if not before");
        all.extend(read.addresses.iter().cloned());
        Ok(Some(Addresses { all, again: Some(read.left()) }))
    }
}

// === impl Read ===

impl Read {
    /// For how long it is still believed.
    fn left(&self) -> Duration {
        let fresh = if self.addresses.is_empty() { FRESH_WHILE_NONE } else { FRESH };
        fresh.saturating_sub(self.at.elapsed())
    }
}

/// Those of the load balancer; without any, external ones; without any, the cluster's own, unless a load balancer is
/// still to come: an address that is reached from the cluster alone must not get into public names meanwhile.
fn of_service(service: &Value) -> BTreeSet<Arc<str>> {
    let list = |pointer| service.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let balanced: BTreeSet<Arc<str>> = list("/status/loadBalancer/ingress").filter_map(address).collect();
    if !balanced.is_empty() {
        return balanced;
    }
    let external: BTreeSet<Arc<str>> = list("/spec/externalIPs").filter_map(Value::as_str).map(Arc::from).collect();
    if !external.is_empty() || text(service, "/spec/type") == Some("LoadBalancer") {
        return external;
    }
    let own = text(service, "/spec/clusterIP").filter(|address| !matches!(*address, "" | "None"));
    own.into_iter().map(Arc::from).collect()
}

/// The address of an entry.
pub(super) fn address(entry: &Value) -> Option<Arc<str>> {
    let of = |field: &str| entry[field].as_str().filter(|address| !address.is_empty());
    of("ip").or(of("hostname")).map(Arc::from)
}

/// The entry of an address.
pub(super) fn entry(address: &str) -> Value {
    match address.parse::<IpAddr>() {
        Ok(_) => json!({ "ip": address }),
        Err(_) => json!({ "hostname": address }),
    }
}

#[cfg(test)]
mod tests;
