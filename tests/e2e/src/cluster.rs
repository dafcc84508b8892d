//! A real Kubernetes for tests: `haptic-cluster` with haptic and HAProxy as images, one for all tests of a binary.
//!
//! What: [`Cluster`] (starts, stops and looks into it), [`Room`] (namespaces of its own for one test, with what is in
//! them), [`Objects`] (any kind, applied, waited for, deleted), [`Passage`] (a local address that leads to one in the
//! cluster), [`LeaseHistory`] (who led, and when nobody did), [`Asked`] and [`Right`] (what a service account asked for
//! and may). What not: nothing here knows what haptic promises.
//!
//! ```text
//! test ──Objects──► API server ◄── haptic pods ──► HAProxy pods ──► demo pods
//!   └──── Passage ─────────── the cluster's HTTP proxy ──┘
//! ```

mod audit;
mod credentials;
mod door;
mod forward;
mod images;
mod kinds;
mod lease;
mod objects;
mod relocate;
mod room;
pub mod served;
pub mod webhook;

use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::Deserialize;
use tempfile::TempDir;

pub use audit::{Asked, Right};
pub use credentials::Credentials;
pub use door::Passage;
pub use forward::PortForward;
pub use kinds::{
    CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, ENDPOINT_SLICE, EVENT,
    HAPROXY_PLUGIN, INGRESS, Kind, LEASE, NAMESPACE, NODE, POD, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT,
    TEMPLATE_CONFIG, TEMPLATE_LIBRARY, VALIDATING_WEBHOOK_CONFIGURATION, gadgets,
};
pub use lease::{LeaseHistory, LeaseState};
pub use objects::Objects;
pub use room::{PodState, Room, condition, reason_of};

/// A running cluster.
pub struct Cluster {
    program: PathBuf,
    folder: TempDir,
    kubeconfig: PathBuf,
    proxy: String,
    /// The cluster ends when the other end of this pipe is closed, however this process ends.
    _lifeline: ChildStdin,
}

/// A part of the cluster that can be stopped and started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    ApiServer,
}

/// What the cluster says when it is ready.
#[derive(Deserialize)]
struct Ready {
    kubeconfig: PathBuf,
    proxy: String,
}

#[derive(Deserialize)]
struct Process {
    container: String,
    pid: i32,
}

/// Requests to the API server take no longer on a busy machine.
const REQUEST_BOUND: Duration = Duration::from_secs(30);

static SHARED: OnceLock<Result<Cluster, String>> = OnceLock::new();

/// Ends the program when nobody holds the lifeline any more, and takes its folder away.
const KEEPER: &str = r#"
"$1" up --dir "$2/c" --images "$2/images.json" --nodes 2 <&- &
cluster=$!
cat >/dev/null
kill "$cluster" 2>/dev/null
wait "$cluster" 2>/dev/null
rm -rf "$2"
"#;

// === impl Cluster ===

impl Cluster {
    /// The one of this test binary; the first that asks starts it. It ends with the process.
    pub async fn shared() -> Result<&'static Self> {
        let started =
            tokio::task::spawn_blocking(|| SHARED.get_or_init(|| Self::start().map_err(|error| format!("{error:#}"))));
        match started.await.context("start the test cluster")? {
            Ok(cluster) => Ok(cluster),
            Err(reason) => bail!("{reason}"),
        }
    }

    /// One of its own, for a test that others would feel; ends when it is dropped. Blocks until it is ready.
    pub fn start() -> Result<Self> {
        let program = program()?;
        // Pods run as users of their own, and their volumes lie here.
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        let folder = tempfile::Builder::new()
            .prefix("haptic-cluster-")
            .permissions(everybody)
            .tempdir()
            .context("make a folder")?;
        images::write(&folder.path().join("images.json"))?;
        let said = folder.path().join("said.log");
        let log = fs::File::create(&said).with_context(|| format!("make {}", said.display()))?;
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .args([&program, folder.path()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("start the test cluster")?;
        let lifeline = keeper.stdin.take().context("it has a pipe")?;
        let ready = ready(&mut keeper).with_context(|| {
            format!("the test cluster did not start; it said:\n{}", fs::read_to_string(&said).unwrap_or_default())
        })?;
        let proxy = ready.proxy.strip_prefix("http://").unwrap_or(&ready.proxy).to_owned();
        Ok(Self { program, folder, kubeconfig: ready.kubeconfig, proxy, _lifeline: lifeline })
    }

    /// A client of the administrator's; it belongs to the runtime that makes it.
    pub async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).context("read the cluster's kubeconfig")?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .context("read the cluster's kubeconfig")?;
        config.connect_timeout = Some(REQUEST_BOUND);
        config.read_timeout = None;
        Client::try_from(config).context("make a client of the cluster")
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A local address that leads to one in the cluster, such as `10.88.0.7:8080` or `web.shop.svc:80`.
    pub async fn passage(&self, target: &str) -> Result<Passage> {
        Passage::open(&self.proxy, target).await
    }

    /// Ends a component at once, as `kill -9` does, and returns when it has ended.
    pub async fn kill(&self, component: Component) -> Result<()> {
        self.control(&["stop", component.name(), "KILL"]).await.map(|_| ())
    }

    /// Starts it again, with the same data and address.
    pub async fn start_again(&self, component: Component) -> Result<()> {
        self.control(&["start", component.name()]).await.map(|_| ())
    }

    /// The processes of a pod's containers, as this machine sees them; one that does not run is left out.
    pub async fn processes(&self, namespace: &str, pod: &str) -> Result<BTreeMap<String, i32>> {
        let said = self.control(&["pids", namespace, pod]).await?;
        let processes: Vec<Process> = serde_json::from_str(&said).with_context(|| format!("read `{said}`"))?;
        let running = processes.into_iter().filter(|process| process.pid > 1);
        Ok(running.map(|process| (process.container, process.pid)).collect())
    }

    /// Runs kubectl as a user would, and returns what it printed.
    pub async fn kubectl(&self, words: &[&str]) -> Result<String> {
        let mut command = self.kubectl_command();
        command.args(words);
        run(command.into(), &format!("kubectl {}", words.join(" "))).await
    }

    /// kubectl, for who looks at its exit code.
    pub fn kubectl_command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("kubectl").env("KUBECONFIG", &self.kubeconfig);
        command
    }

    /// Applies the documents of a text as they are.
    pub async fn apply_text(&self, manifests: &str) -> Result<()> {
        let file = tempfile::NamedTempFile::new().context("make a file")?;
        fs::write(file.path(), manifests).context("write manifests")?;
        let path = file.path().to_str().context("a path is text")?;
        self.kubectl(&["apply", "--server-side", "-f", path]).await.map(|_| ())
    }

    /// Where the logs of the components and of all pods lie.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().join("c")
    }

    async fn control(&self, words: &[&str]) -> Result<String> {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(["ctl", "--dir"]).arg(self.folder()).args(words);
        run(command, &format!("ctl {}", words.join(" "))).await
    }
}

// === impl Component ===

impl Component {
    fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "apiserver",
        }
    }
}

async fn run(mut command: tokio::process::Command, what: &str) -> Result<String> {
    let output = command.kill_on_drop(true).output().await.with_context(|| format!("run {what}"))?;
    ensure!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).with_context(|| format!("read what {what} printed"))
}

fn ready(keeper: &mut Child) -> Result<Ready> {
    let mut line = String::new();
    let output = keeper.stdout.take().context("it has a pipe")?;
    BufReader::new(output).read_line(&mut line).context("wait for the cluster")?;
    serde_json::from_str(&line).context("read what the cluster says when it is ready")
}

fn program() -> Result<PathBuf> {
    let folder = env::var_os("HAPTIC_REGISTRY_TOOLS_DIR")
        .map_or_else(|| env::home_dir().unwrap_or_default().join(".cache/haptic/go/bin"), PathBuf::from);
    let program = folder.join("haptic-cluster");
    ensure!(program.exists(), "`{}` is missing: run `make cluster-tools`", program.display());
    Ok(program)
}
