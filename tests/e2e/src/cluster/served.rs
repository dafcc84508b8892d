//! The example shop as a whole: two controllers, two HAProxy pods, backends, certificates.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::{
    Answer, Certificate, Target, binary,
    cluster::{Credentials, LeaseHistory, Passage, PodState, Room, TEMPLATE_CONFIG, condition, reason_of},
    eventually, get, ingress,
};

pub const HAPTIC: &str = "app.kubernetes.io/name=haptic";
pub const HAPROXY: &str = "app.kubernetes.io/name=haproxy";
pub const LEASE_NAME: &str = "haptic-leader";
pub const HTTP: u16 = 8080;
pub const HTTPS: u16 = 8443;
pub const AGENT: u16 = 5555;
/// Of the controller.
pub const PROBES: u16 = 8080;

/// Host and the beginning of the names of the pods that answer for it.
pub const HOSTS: [(&str, &str); 2] = [("shop.localhost", "web-"), ("api.shop.localhost", "api-")];

/// Seconds: for how long a leader that is gone is waited for, and how often it renews.
pub const LEASE_DURATION: u64 = 6;
pub const RETRY_PERIOD: u64 = 1;

/// Where the example has its objects of haptic's own kinds.
const CONFIGURATION: [&str; 3] = ["common/libraries", "common/plugins.yaml", "cluster/config.yaml"];

pub struct Served {
    pub room: Room,
    pub credentials: Credentials,
    /// Of `shop.localhost`.
    pub certificate: Certificate,
    /// The objects of haptic's own kinds as the example has them.
    configuration: Vec<Value>,
}

/// What a test wants otherwise than the example; sees every object before it is applied.
pub type Change<'a> = &'a dyn Fn(&mut Value);

// === impl Served ===

impl Served {
    /// Applies everything and waits until all of it is ready.
    pub async fn start(name: &str, change: Change<'_>) -> Result<Self> {
        let served = Self::apply(name, change).await?;
        served.ready().await?;
        Ok(served)
    }

    /// Applies everything, the controllers last.
    pub async fn apply(name: &str, change: Change<'_>) -> Result<Self> {
        let served = Self::prepare(name).await?;
        served.finish(change).await?;
        Ok(served)
    }

    /// Namespaces and credentials, for who has something of his own to apply before the rest.
    pub async fn prepare(name: &str) -> Result<Self> {
        let room = Room::open(name).await?;
        room.apply(&room.example("cluster/namespaces.yaml")?).await?;
        let credentials = room.issue_credentials().await?;
        let certificate = Certificate::issue(HOSTS[0].0)?;
        let mut configuration = Vec::new();
        for part in CONFIGURATION {
            // Permissions are those of the example: what a test adds, it permits itself, or not.
            configuration.extend(room.example(part)?);
        }
        Ok(Self { room, credentials, certificate, configuration })
    }

    /// What [`Self::prepare`] left, the controllers last.
    pub async fn finish(&self, change: Change<'_>) -> Result<()> {
        let room = &self.room;
        let example = |path: &str| -> Result<Vec<Value>> {
            let mut objects = room.example(path)?;
            for object in &mut objects {
                if object["kind"] == "HAProxyTemplateConfig" {
                    object["spec"]["controller"]["leaderElection"] = json!({
                        "leaseDuration": format!("{LEASE_DURATION}s"),
                        "renewDeadline": "4s",
                        "retryPeriod": format!("{RETRY_PERIOD}s"),
                    });
                }
                change(object);
            }
            Ok(objects)
        };
        room.apply_text(&self.certificate.manifest("shop-tls")).await?;
        for (name, host) in [("api-tls", HOSTS[1].0), ("default-tls", "default.shop.localhost")] {
            room.apply_text(&Certificate::issue(host)?.manifest(name)).await?;
        }
        for part in CONFIGURATION {
            room.apply(&example(part)?).await?;
        }
        permit(room, &self.configuration).await?;
        for part in [
            "common/services.yaml",
            "common/ingresses.yaml",
            "cluster/backends.yaml",
            "cluster/haproxy.yaml",
            "cluster/controller.yaml",
        ] {
            room.apply(&example(part)?).await.with_context(|| format!("apply {part}"))?;
        }
        Ok(())
    }

    /// Both controllers and both HAProxies are.
    pub async fn ready(&self) -> Result<()> {
        self.room.ready_pods(HAPTIC, 2).await?;
        self.room.ready_pods(HAPROXY, 2).await?;
        Ok(())
    }

    pub fn targets() -> [Target; 2] {
        HOSTS.map(|(host, served_by)| Target { host: host.to_owned(), served_by: served_by.to_owned() })
    }

    /// Passages to a port of every HAProxy pod that is ready, by name.
    pub async fn doors(&self, port: u16) -> Result<Vec<(PodState, Passage)>> {
        let mut doors = Vec::new();
        for pod in self.room.pods(HAPROXY).await?.into_iter().filter(|pod| pod.ready && !pod.ending) {
            let passage = self.room.passage(&pod, port).await?;
            doors.push((pod, passage));
        }
        Ok(doors)
    }

    /// Both hosts answer through every HAProxy pod.
    pub async fn check_routes(&self) -> Result<()> {
        for (pod, door) in self.doors(HTTP).await? {
            for (host, served_by) in HOSTS {
                let answer = get(door.address(), host, "/").await?;
                let right = answer.pod().is_some_and(|name| name.starts_with(served_by));
                assert!(right, "{host} through {}: {answer:?}", pod.name);
            }
        }
        Ok(())
    }

    /// Makes an Ingress for the host to the Service `web`, and waits until every HAProxy pod knows it.
    pub async fn add_route(&self, name: &str, host: &str) -> Result<()> {
        self.room.apply_text(&ingress(name, host, "/", &[], "web")).await?;
        for (pod, door) in self.doors(HTTP).await? {
            let what = format!("{host} through {}", pod.name);
            eventually(&what, async || get(door.address(), host, "/").await.ok()?.pod()).await;
        }
        Ok(())
    }

    /// Changes the configuration (a merge patch) and returns its new generation.
    pub async fn configure(&self, patch: &Value) -> Result<i64> {
        let changed = self.room.objects.merge(TEMPLATE_CONFIG, self.room.system(), "shop", patch).await?;
        changed["metadata"]["generation"].as_i64().context("the server counts generations")
    }

    /// Lets the controllers read what these objects name besides, as a user would before applying them.
    pub async fn permit(&self, more: &[Value]) -> Result<()> {
        let all: Vec<Value> = self.configuration.iter().chain(more).cloned().collect();
        permit(&self.room, &all).await
    }

    /// Lets the controllers do what `haptic rbac` says for the configuration with this change.
    pub async fn permit_changed(&self, change: Change<'_>) -> Result<()> {
        let mut configuration = self.configuration.clone();
        configuration.iter_mut().for_each(change);
        permit(&self.room, &configuration).await
    }

    /// Lets the controllers do what `haptic rbac` says for these options besides.
    pub async fn permit_for(&self, options: &[String]) -> Result<()> {
        allow(&self.room, &self.configuration, options).await
    }

    /// Waits until the configuration of this generation was judged, and returns status, reason and message.
    pub async fn judged(&self, generation: i64) -> Result<String> {
        let what = format!("the verdict about generation {generation} of the configuration");
        let judged = |config: &Value| {
            let accepted = condition(config, "Accepted")?;
            let about = accepted["observedGeneration"].as_i64()?;
            (about == generation && accepted["status"] != "Unknown").then(|| reason_of(config, "Accepted"))
        };
        self.room.objects.until((TEMPLATE_CONFIG, self.room.system(), "shop"), &what, judged).await
    }

    /// The first host answers through every HAProxy pod.
    pub async fn check_web(&self) -> Result<()> {
        for (pod, door) in self.doors(HTTP).await? {
            let answer = get(door.address(), HOSTS[0].0, "/").await?;
            assert!(answer.pod().is_some_and(|name| name.starts_with(HOSTS[0].1)), "through {}: {answer:?}", pod.name);
        }
        Ok(())
    }

    /// Asks a probe of a controller.
    pub async fn probe(&self, pod: &PodState, path: &str) -> Result<Answer> {
        let door = self.room.passage(pod, PROBES).await?;
        get(door.address(), "probe", path).await
    }

    /// Waits until every HAProxy pod answers with this header.
    pub async fn answers_with(&self, name: &str, value: &str) -> Result<()> {
        for (pod, door) in self.doors(HTTP).await? {
            let what = format!("{name}: {value} through {}", pod.name);
            eventually(&what, async || {
                let answer = get(door.address(), HOSTS[0].0, "/").await.ok()?;
                (header(&answer, name)? == value).then_some(())
            })
            .await;
        }
        Ok(())
    }

    /// What the controller that leads has logged.
    pub async fn leader_log(&self, lease: &LeaseHistory) -> Result<String> {
        let holder = lease.until("a leader", |state| state.holder.clone()).await?;
        Ok(self.room.log(&holder, "haptic"))
    }
}

/// Applies what `haptic rbac` says that a controller of these objects needs.
async fn permit(room: &Room, configuration: &[Value]) -> Result<()> {
    allow(room, configuration, &[]).await
}

async fn allow(room: &Room, configuration: &[Value], options: &[String]) -> Result<()> {
    let folder = tempfile::tempdir().context("make a folder")?;
    for (number, object) in configuration.iter().enumerate() {
        // JSON is YAML.
        fs::write(folder.path().join(format!("{number}.yaml")), object.to_string()).context("write a manifest")?;
    }
    let mut command = Command::new(binary());
    command.args(["rbac", "--namespace", room.system(), "--config-dir"]).arg(folder.path()).args(options);
    let output = command.output().context("run haptic rbac")?;
    ensure!(output.status.success(), "haptic rbac: {}", String::from_utf8_lossy(&output.stderr));
    for document in serde_norway::Deserializer::from_slice(&output.stdout) {
        let object = Value::deserialize(document).context("read what haptic rbac printed")?;
        if !object.is_null() {
            room.objects.apply(&object).await?;
        }
    }
    Ok(())
}

/// A route of a host to an address: an Ingress, its headless Service and its slice, all of the name.
pub fn route(name: &str, host: &str, namespace: &str, class: &str, address: &str) -> [Value; 3] {
    [
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": namespace },
            "spec": { "clusterIP": "None", "ports": [{ "name": "http", "port": 80 }] },
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": { "name": name, "namespace": namespace, "labels": { "kubernetes.io/service-name": name } },
            "ports": [{ "name": "http", "port": 9001, "protocol": "TCP" }],
            "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
        }),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "ingressClassName": class, "rules": [{ "host": host, "http": { "paths": [{
                "path": "/", "pathType": "Prefix",
                "backend": { "service": { "name": name, "port": { "number": 80 } } },
            }] } }] },
        }),
    ]
}

/// A header of the answer, if a pod of the shop gave it.
pub fn header(answer: &Answer, name: &str) -> Option<String> {
    answer.pod().and_then(|_| answer.header(name).map(str::to_owned))
}
