//! A release of both charts in the cluster, with the shop behind it.

use std::{collections::BTreeSet, fs, time::Duration};

use anyhow::{Context as _, Result};
use haptic_e2e::{
    Certificate, Target,
    cluster::{CUSTOM_RESOURCE_DEFINITION, POD, Passage, PodState, Room, condition, served::HOSTS},
    get, within,
};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::task::block_in_place;

use crate::helm::{Helm, chart};

/// Longer than anything takes that works on a busy machine; given to Helm's own waits.
const PATIENCE: &str = "300s";
pub(crate) const CONTROLLERS: &str = "app.kubernetes.io/component=controller";
pub(crate) const HAPROXIES: &str = "app.kubernetes.io/component=haproxy";
pub(crate) const HTTP: u16 = 8080;

/// One installed release of the chart `haptic`.
pub(crate) struct Release {
    pub room: Room,
    pub helm: Helm,
    /// What every revision is made with.
    values: Value,
}

/// The kinds, from their chart; those that an earlier test left are taken over.
pub(crate) async fn install_kinds(helm: &Helm, room: &Room) -> Result<()> {
    block_in_place(|| {
        let words = ["upgrade", "--install", "haptic-crds", &chart("haptic-crds"), "--namespace", "default"];
        helm.run(&words).map(|_| ())
    })?;
    let established =
        |found: &Value| condition(found, "Established").is_some_and(|it| it["status"] == "True").then_some(());
    let what = (CUSTOM_RESOURCE_DEFINITION, "", "haproxytemplateconfigs.haptic.rs");
    room.objects.until(what, "it to be established", established).await
}

// === impl Release ===

impl Release {
    /// The shop without its IngressClass, which the chart makes, and the values for this room.
    pub(crate) async fn prepare(helm: Helm, name: &str) -> Result<Self> {
        let room = Room::open_bare(name).await?;
        let helm = helm.with_cluster(room.cluster().kubeconfig());
        install_kinds(&helm, &room).await?;
        let restricted = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": room.system(), "labels": { "pod-security.kubernetes.io/enforce": "restricted" } } });
        room.objects.apply(&restricted).await?;
        for (name, host) in [("shop-tls", HOSTS[0].0), ("api-tls", HOSTS[1].0), ("default-tls", "default.localhost")] {
            room.apply_text(&Certificate::issue(host)?.manifest(name)).await?;
        }
        for part in ["common/services.yaml", "cluster/backends.yaml", "common/ingresses.yaml"] {
            let objects = room.example(part)?;
            let objects: Vec<_> = objects.into_iter().filter(|object| object["kind"] != "IngressClass").collect();
            room.apply(&objects).await?;
        }
        // What is there before the release is complete.
        let backends = |pods: &[&Value]| {
            let ready = |pod: &&&Value| condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True");
            (pods.iter().filter(ready).count() == 4).then_some(())
        };
        room.objects.until_all((POD, room.shop(), ""), "four backends that are ready", backends).await?;
        let values = json!({
            "haproxy": { "image": { "tag": "3.4" }, "service": { "type": "ClusterIP" }, "drainSeconds": 10 },
            "ingressClass": { "name": room.ingress_class(), "controller": format!("haptic.rs/{}", room.system()) },
            "config": { "extraContext": { "default_certificate": { "namespace": room.shop(), "name": "default-tls" } } },
        });
        Ok(Self { room, helm, values })
    }

    /// Sets values that every revision has.
    pub(crate) fn set(&mut self, more: &Value) {
        merge(&mut self.values, more);
    }

    /// Installs or upgrades, and returns when everything is ready.
    pub(crate) fn deploy(&self, chart: &str, more: &Value) -> Result<()> {
        let mut values = self.values.clone();
        merge(&mut values, more);
        let file = NamedTempFile::new().context("make a file")?;
        fs::write(file.path(), values.to_string()).context("write values")?;
        let path = file.path().to_str().context("a path is text")?;
        let wait = ["--wait", "--timeout", PATIENCE, "--values", path];
        self.helm(&[&["upgrade", "--install", "haptic", chart], &wait[..]].concat()).map(|_| ())
    }

    /// Runs Helm on the namespace of the release, and returns what it printed.
    pub(crate) fn helm(&self, words: &[&str]) -> Result<String> {
        let namespace = ["--namespace", self.room.system()];
        block_in_place(|| self.helm.run(&[words, &namespace[..]].concat()))
    }

    pub(crate) async fn all_ready(&self) -> Result<()> {
        self.room.ready_pods(CONTROLLERS, 2).await?;
        self.room.ready_pods(HAPROXIES, 2).await.map(|_| ())
    }

    /// A passage to a port of every HAProxy pod.
    pub(crate) async fn doors(&self, port: u16) -> Result<Vec<(PodState, Passage)>> {
        let mut doors = Vec::new();
        for pod in self.room.ready_pods(HAPROXIES, 2).await? {
            let passage = self.room.passage(&pod, port).await?;
            doors.push((pod, passage));
        }
        Ok(doors)
    }

    /// Both hosts answer through every HAProxy pod. The backends may have become ready only now.
    pub(crate) async fn check_routes(&self) -> Result<()> {
        for (pod, door) in self.doors(HTTP).await? {
            for (host, served_by) in HOSTS {
                let what = format!("{host} through {}", pod.name);
                within(Duration::from_mins(2), &what, async || {
                    let answer = get(door.address(), host, "/").await.ok()?;
                    answer.pod().filter(|name| name.starts_with(served_by))
                })
                .await;
            }
        }
        Ok(())
    }

    /// Every HAProxy pod answers with this header, or without it.
    pub(crate) async fn answers_with(&self, name: &str, value: Option<&str>) -> Result<()> {
        for (pod, door) in self.doors(HTTP).await? {
            let what = format!("{name}: {value:?} through {}", pod.name);
            within(Duration::from_mins(2), &what, async || {
                let answer = get(door.address(), HOSTS[0].0, "/").await.ok()?;
                (answer.pod().is_some() && answer.header(name) == value).then_some(())
            })
            .await;
        }
        Ok(())
    }

    pub(crate) fn targets() -> [Target; 2] {
        HOSTS.map(|(host, served_by)| Target { host: host.to_owned(), served_by: served_by.to_owned() })
    }
}

/// Everything that the cluster has, but for records that end by themselves: kind, namespace and name.
pub(crate) async fn inventory(room: &Room) -> Result<BTreeSet<String>> {
    let listed = ["api-resources", "--verbs=list,delete", "--output=name"];
    let kinds = room.cluster().kubectl(&listed).await?;
    let kept = |kind: &&str| !kind.starts_with("events") && !kind.starts_with("pods.metrics");
    let kinds = kinds.lines().filter(kept).collect::<Vec<_>>().join(",");
    let each = "{range .items[*]}{.kind} {.metadata.namespace} {.metadata.name}{\"\\n\"}{end}";
    let template = format!("jsonpath={each}");
    let found = room.cluster().kubectl(&["get", &kinds, "--all-namespaces", "--output", &template]).await?;
    Ok(found.lines().map(str::to_owned).collect())
}

/// A merge of values as Helm does it.
fn merge(values: &mut Value, more: &Value) {
    match (values, more) {
        (Value::Object(values), Value::Object(more)) => {
            for (name, value) in more {
                merge(values.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (values, more) => *values = more.clone(),
    }
}
