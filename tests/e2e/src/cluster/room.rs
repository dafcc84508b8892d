//! Namespaces of its own for one test: that of the controller and that of the shop.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::cluster::{
    CUSTOM_RESOURCE_DEFINITION, Cluster, Credentials, DEPLOYMENT, EVENT, LeaseHistory, NAMESPACE, Objects, POD,
    Passage, PortForward, relocate::Relocation,
};

/// What one test has in the cluster. Its namespaces go with [`Room::close`]; one that is dropped before keeps its logs.
pub struct Room {
    pub objects: Objects,
    cluster: &'static Cluster,
    places: Relocation,
    passed: bool,
}

/// A pod as its status tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodState {
    pub name: String,
    pub ip: Option<IpAddr>,
    pub ready: bool,
    /// It is being deleted.
    pub ending: bool,
}

static ROOMS: AtomicU32 = AtomicU32::new(0);

// === impl Room ===

impl Room {
    /// Both namespaces, and the definitions of haptic's kinds, which all rooms share.
    pub async fn open(name: &str) -> Result<Self> {
        let room = Self::open_bare(name).await?;
        room.define().await?;
        Ok(room)
    }

    /// Both namespaces, for who brings the definitions in another way.
    pub async fn open_bare(name: &str) -> Result<Self> {
        let cluster = Cluster::shared().await?;
        let objects = Objects::new(cluster.client().await?);
        let system = format!("{name}-{}", ROOMS.fetch_add(1, Ordering::Relaxed));
        let places = Relocation { shop: format!("{system}-shop"), system };
        let room = Self { objects, cluster, places, passed: false };
        // `shop` is where tests of the libraries have their objects; all rooms watch it, and nobody puts anything there.
        for namespace in [room.system(), room.shop(), "shop"] {
            let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
            room.objects.apply(&object).await?;
        }
        Ok(room)
    }

    /// Ends a test that passed.
    pub async fn close(mut self) -> Result<()> {
        self.passed = true;
        for namespace in [self.system(), self.shop()] {
            // Nobody waits for drains: the next test has namespaces of its own.
            let pods = self.objects.list(POD, namespace, "").await?;
            self.objects.delete(NAMESPACE, "", namespace).await?;
            for pod in pods {
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                for pid in self.cluster.processes(namespace, name).await.unwrap_or_default().into_values() {
                    signal(pid, Signal::KILL)?;
                }
            }
        }
        Ok(())
    }

    pub fn cluster(&self) -> &'static Cluster {
        self.cluster
    }

    /// The namespace of the controller.
    pub fn system(&self) -> &str {
        &self.places.system
    }

    /// The namespace of the shop.
    pub fn shop(&self) -> &str {
        &self.places.shop
    }

    /// The IngressClass of this room.
    pub fn ingress_class(&self) -> &str {
        self.places.ingress_class()
    }

    /// The documents of a manifest below `tests/examples/shop`, or of all in a folder, moved into this room.
    pub fn example(&self, path: &str) -> Result<Vec<Value>> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/shop").join(path);
        let mut objects = Vec::new();
        for file in files(&path)? {
            objects.extend(
                self.manifest(&fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?)?,
            );
        }
        ensure!(!objects.is_empty(), "{} holds no manifest", path.display());
        Ok(objects)
    }

    /// The documents of a text, moved into this room: `haptic` and `shop` are its namespaces.
    pub fn manifest(&self, text: &str) -> Result<Vec<Value>> {
        let mut objects = Vec::new();
        for document in serde_norway::Deserializer::from_str(text) {
            let mut object = Value::deserialize(document).context("read a manifest")?;
            if object.is_null() {
                continue;
            }
            self.places.apply(&mut object);
            let own = object["kind"] == "HAProxyTemplateLibrary" && object["metadata"]["namespace"].is_null();
            if own {
                object["metadata"]["namespace"] = self.system().into();
            }
            objects.push(object);
        }
        Ok(objects)
    }

    pub async fn apply(&self, objects: &[Value]) -> Result<()> {
        for object in objects {
            self.objects.apply(object).await?;
        }
        Ok(())
    }

    /// [`Self::manifest`], applied.
    pub async fn apply_text(&self, text: &str) -> Result<()> {
        self.apply(&self.manifest(text)?).await
    }

    /// Issues identities and brings them into the controller's namespace.
    pub async fn issue_credentials(&self) -> Result<Credentials> {
        let credentials = Credentials::issue()?;
        for mut secret in credentials.secrets() {
            self.places.apply(&mut secret);
            self.objects.apply(&secret).await?;
        }
        Ok(credentials)
    }

    /// The pods of the controller's namespace with these labels, by name.
    pub async fn pods(&self, labels: &str) -> Result<Vec<PodState>> {
        let pods = self.objects.list(POD, self.system(), labels).await?;
        Ok(pods.iter().map(PodState::read).collect())
    }

    /// Waits until exactly so many pods have these labels, none of them ending, and all are ready.
    pub async fn ready_pods(&self, labels: &str, count: usize) -> Result<Vec<PodState>> {
        let what = format!("{count} pods {labels} in {} that are ready", self.system());
        let all_ready = |pods: &[&Value]| {
            let pods: Vec<_> = pods.iter().map(|pod| PodState::read(pod)).collect();
            let all = pods.len() == count && pods.iter().all(|pod| pod.ready && !pod.ending && pod.ip.is_some());
            all.then_some(pods)
        };
        self.objects.until_all((POD, self.system(), labels), &what, all_ready).await
    }

    pub async fn scale(&self, deployment: &str, replicas: u32) -> Result<()> {
        let patch = json!({ "spec": { "replicas": replicas } });
        self.objects.merge(DEPLOYMENT, self.system(), deployment, &patch).await.map(|_| ())
    }

    /// Sends a signal to the process of a container in the controller's namespace.
    pub async fn signal(&self, pod: &str, container: &str, what: Signal) -> Result<()> {
        self.signal_in(self.system(), pod, container, what).await
    }

    pub async fn signal_in(&self, namespace: &str, pod: &str, container: &str, what: Signal) -> Result<()> {
        let processes = self.cluster.processes(namespace, pod).await?;
        let pid = processes.get(container).with_context(|| format!("`{container}` of pod {pod} does not run"))?;
        signal(*pid, what)
    }

    /// The log of a container's newest run.
    pub fn log(&self, pod: &str, container: &str) -> String {
        let folder = self.cluster.folder().join("pods").join(format!("{}_{pod}", self.system()));
        fs::read_to_string(folder.join(format!("{container}.log"))).unwrap_or_default()
    }

    /// A local address for a port of a pod.
    pub async fn passage(&self, pod: &PodState, port: u16) -> Result<Passage> {
        let ip = pod.ip.with_context(|| format!("pod {} has no address", pod.name))?;
        self.cluster.passage(&format!("{ip}:{port}")).await
    }

    /// A local address for a port that a pod has on its loopback.
    pub async fn forward(&self, pod: &str, port: u16) -> Result<PortForward> {
        PortForward::open(self.cluster, self.system(), pod, port).await
    }

    /// A local address for a port of a Service in the controller's namespace.
    pub async fn service(&self, service: &str, port: u16) -> Result<Passage> {
        self.cluster.passage(&format!("{service}.{}.svc:{port}", self.system())).await
    }

    /// Every state of a Lease in the controller's namespace from now on.
    pub fn watch_lease(&self, name: &str) -> LeaseHistory {
        LeaseHistory::start(self.objects.client().clone(), self.system(), name)
    }

    /// Reason and message of each Event about an object, in either namespace.
    pub async fn events(&self, kind: &str, name: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for namespace in [self.system(), self.shop()] {
            for event in self.objects.list(EVENT, namespace, "").await? {
                let about = &event["involvedObject"];
                if about["kind"] == kind && about["name"] == name {
                    let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
                    found.push(format!("{}: {}", text("reason"), text("message")));
                }
            }
        }
        Ok(found)
    }

    /// The definitions of haptic's kinds, established.
    async fn define(&self) -> Result<()> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds");
        for file in files(&folder)? {
            let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
            let definition: Value = serde_norway::from_str(&text).context("read a definition")?;
            self.objects.apply(&definition).await?;
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let established =
                |found: &Value| condition(found, "Established").is_some_and(|it| it["status"] == "True").then_some(());
            self.objects.until((CUSTOM_RESOURCE_DEFINITION, "", name), "it to be established", established).await?;
        }
        Ok(())
    }

    fn keep_logs(&self) -> std::io::Result<PathBuf> {
        let keep = std::env::temp_dir().join("haptic-e2e-failed").join(self.system());
        let _ = fs::remove_dir_all(&keep);
        fs::create_dir_all(&keep)?;
        copy(&self.cluster.folder().join("logs"), &keep.join("logs"))?;
        for pod in fs::read_dir(self.cluster.folder().join("pods"))?.flatten() {
            let name = pod.file_name().to_string_lossy().into_owned();
            if [self.system(), self.shop()].iter().any(|namespace| name.starts_with(&format!("{namespace}_"))) {
                copy(&pod.path(), &keep.join(name))?;
            }
        }
        Ok(keep)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.passed {
            return;
        }
        #[allow(clippy::print_stderr, reason = "where the logs are is read where the test failed")]
        match self.keep_logs() {
            Ok(folder) => eprintln!("the logs of the failed test are in {}", folder.display()),
            Err(error) => eprintln!("the logs of the failed test could not be kept: {error}"),
        }
    }
}

// === impl PodState ===

impl PodState {
    fn read(pod: &Value) -> Self {
        Self {
            name: pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            ip: pod["status"]["podIP"].as_str().and_then(|ip| ip.parse().ok()),
            ready: condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True"),
            ending: !pod["metadata"]["deletionTimestamp"].is_null(),
        }
    }
}

/// The condition of this type in an object's status.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Status, reason and message of a condition in one line; empty if there is none.
pub fn reason_of(object: &Value, kind: &str) -> String {
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    condition(object, kind).map_or_else(String::new, |found| {
        format!("{} {}: {}", text(found, "status"), text(found, "reason"), text(found, "message"))
    })
}

/// A process of a container, and never one of the test's own group.
fn signal(pid: i32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(pid).filter(|pid| pid.as_raw_pid() > 1).context("no process of a container has this id")?;
    kill_process(pid, signal).with_context(|| format!("signal process {pid:?}"))
}

/// The file, or the manifests in the folder.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path).with_context(|| format!("list {}", path.display()))? {
        let path = entry.with_context(|| format!("list {}", path.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)?.flatten() {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()))?;
        } else if kind.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
