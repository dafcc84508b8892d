//! The real API server: started once for this binary, and ended with it.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{self, Child, ChildStdin, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use haptic_kubernetes::{Access, Api, Backoff, Client, Jitter, Limits, SourceSettings, connect};
use http::{Method, Request};
use kube::client::Body;
use serde_json::{Value, json};

/// A namespace of its own in the shared cluster.
pub(crate) struct Room {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) kubeconfig: PathBuf,
}

/// A running cluster.
pub(crate) struct Cluster {
    program: PathBuf,
    folder: PathBuf,
    kubeconfig: PathBuf,
    /// The cluster ends when the other end of this pipe is closed, however this process ends.
    _lifeline: ChildStdin,
}

static CLUSTER: OnceLock<Result<Cluster, String>> = OnceLock::new();
static ROOMS: AtomicU32 = AtomicU32::new(0);

/// Ends the program when nobody holds the lifeline any more, and takes its folder away.
const KEEPER: &str = r#"
"$1" up --dir "$2" <&- &
cluster=$!
cat >/dev/null
kill "$cluster" 2>/dev/null
wait "$cluster" 2>/dev/null
rm -rf "$2" "$2.log"
"#;

// === impl Cluster ===

impl Cluster {
    pub(crate) fn start(name: &str) -> Result<Self> {
        let program = program()?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kubernetes-{name}-{}", process::id()));
        fs::create_dir_all(&folder)?;
        let log = fs::File::create(folder.with_extension("log"))?;
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .args([&program, &folder])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("start the test cluster")?;
        let lifeline = keeper.stdin.take().context("it has a pipe")?;
        let kubeconfig = ready(&mut keeper).with_context(|| {
            let said = fs::read_to_string(folder.with_extension("log")).unwrap_or_default();
            format!("the test cluster did not start; it said:\n{said}")
        })?;
        Ok(Self { program, folder, kubeconfig, _lifeline: lifeline })
    }

    /// Ends the API server in order (`TERM`) or at once (`KILL`).
    pub(crate) fn stop_api_server(&self, signal: &str) -> Result<()> {
        self.control(&["stop", "apiserver", signal])
    }

    /// Starts it again with the same data and address.
    pub(crate) fn start_api_server(&self) -> Result<()> {
        self.control(&["start", "apiserver"])
    }

    fn control(&self, words: &[&str]) -> Result<()> {
        let output = Command::new(&self.program).args(["ctl", "--dir"]).arg(&self.folder).args(words).output()?;
        ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

/// The kubeconfig, once the cluster says that it is ready.
fn ready(keeper: &mut Child) -> Result<PathBuf> {
    let mut line = String::new();
    let output = keeper.stdout.take().context("it has a pipe")?;
    BufReader::new(output).read_line(&mut line)?;
    let said: Value = serde_json::from_str(&line).context("read what the cluster says when it is ready")?;
    Ok(said["kubeconfig"].as_str().context("it names its kubeconfig")?.into())
}

fn program() -> Result<PathBuf> {
    let folder = env::var_os("HAPTIC_REGISTRY_TOOLS_DIR")
        .map_or_else(|| env::home_dir().unwrap_or_default().join(".cache/haptic/go/bin"), PathBuf::from);
    let program = folder.join("haptic-cluster");
    ensure!(program.exists(), "`{}` is missing; run `make cluster-tools`", program.display());
    Ok(program)
}

// === impl Room ===

impl Room {
    /// Starts the cluster if it does not run yet.
    pub(crate) async fn new() -> Result<Self> {
        let started = tokio::task::spawn_blocking(|| {
            CLUSTER.get_or_init(|| Cluster::start("api").map_err(|error| format!("{error:#}")))
        });
        let cluster = match started.await? {
            Ok(cluster) => cluster,
            Err(reason) => bail!("{reason}"),
        };
        Self::of(cluster).await
    }

    /// In this cluster, and not in the shared one.
    pub(crate) async fn of(cluster: &Cluster) -> Result<Self> {
        let access = Access::Kubeconfig { path: cluster.kubeconfig.clone(), context: None };
        let client = connect(&access, Duration::from_secs(10)).await?;
        let namespace = format!("room-{}", ROOMS.fetch_add(1, Ordering::Relaxed));
        let room = Self { client, namespace, kubeconfig: cluster.kubeconfig.clone() };
        room.send(Method::POST, "/api/v1/namespaces", &json!({ "metadata": { "name": room.namespace } })).await?;
        Ok(room)
    }

    pub(crate) fn api(&self) -> Api {
        Api::new(self.client.clone(), Limits::default())
    }

    /// The path of a namespaced collection here.
    pub(crate) fn path(&self, group: &str, resources: &str) -> String {
        format!("/{group}/namespaces/{}/{resources}", self.namespace)
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let patch = method == Method::PATCH;
        self.send_as(method, path, if patch { "application/merge-patch+json" } else { "application/json" }, body).await
    }

    /// As `kubectl apply --server-side` does.
    pub(crate) async fn apply(&self, path: &str, body: &Value) -> Result<Value> {
        self.send_as(Method::PATCH, path, "application/apply-patch+yaml", body).await
    }

    async fn send_as(&self, method: Method, path: &str, content_type: &str, body: &Value) -> Result<Value> {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string().into_bytes()) };
        let request = Request::builder().method(&method).uri(path).header("content-type", content_type).body(body)?;
        let response = self.client.send(request).await?;
        let status = response.status();
        let answer = response.into_body().collect_bytes().await?;
        ensure!(status.is_success(), "{method} {path}: {status} {}", String::from_utf8_lossy(&answer));
        Ok(serde_json::from_slice(&answer)?)
    }

    /// Runs kubectl as a user would.
    pub(crate) fn kubectl(&self, words: &[&str]) -> Result<()> {
        let output =
            Command::new(program()?).arg("kubectl").args(words).env("KUBECONFIG", &self.kubeconfig).output()?;
        ensure!(output.status.success(), "kubectl {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    pub(crate) async fn make_config_map(&self, name: &str, value: &str) -> Result<Value> {
        let object = json!({ "metadata": { "name": name, "labels": { "test": "yes" } }, "data": { "value": value } });
        self.send(Method::POST, &self.path("api/v1", "configmaps"), &object).await
    }

    pub(crate) async fn patch_config_map(&self, name: &str, patch: &Value) -> Result<Value> {
        self.send(Method::PATCH, &format!("{}/{name}", self.path("api/v1", "configmaps")), patch).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<()> {
        self.send(Method::DELETE, path, &Value::Null).await.map(|_| ())
    }

    pub(crate) async fn delete_config_map(&self, name: &str) -> Result<()> {
        self.delete(&format!("{}/{name}", self.path("api/v1", "configmaps"))).await
    }
}

/// Short pauses, so that a test needs no long bounds.
pub(crate) fn settings() -> SourceSettings {
    SourceSettings {
        backoff: Backoff {
            first: Duration::from_millis(50),
            longest: Duration::from_millis(400),
            longest_unreachable: Duration::from_millis(200),
        },
        look_again: Duration::from_millis(500),
        confirm_absence: Duration::from_millis(200),
        ..SourceSettings::new(Jitter::random())
    }
}
