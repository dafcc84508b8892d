//! One pod: folders, certificates, addresses, and the agent's process.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use haptic_e2e::{
    Answer, Authority, HaproxyBuild, Network, SecretVolume, Subject, binary, builds, eventually, get,
    stop_processes_of, within,
};
use haptic_model::{Digest, FileKind, FilePath, PlanId};
use haptic_wire::{
    API_VERSION, AgentClient, ApplyManifest, ApplyMode, ApplyResult, BindAddress, ManifestFile, Token,
    tls::{ClientIdentity, Credentials},
};
use rustix::process::{Pid, Signal, kill_process};

/// Longer than any stop takes, drain included.
const STOP_BOUND: Duration = Duration::from_secs(40);

pub(crate) struct Pod {
    pub(crate) ca: Authority,
    pub(crate) volume: SecretVolume,
    pub(crate) identity: Arc<ClientIdentity>,
    pub(crate) haproxy: HaproxyBuild,
    network: Network,
    folder: tempfile::TempDir,
    child: Option<Child>,
    seq: u64,
}

// === impl Pod ===

impl Pod {
    /// Folders and certificates; no process yet.
    pub(crate) fn prepare() -> Result<Self> {
        // Short: a unix socket's path has at most 97 bytes.
        let folder = tempfile::Builder::new().prefix("h").tempdir_in("/tmp").context("make a folder")?;
        let ca = Authority::new("pod CA")?;
        let volume = SecretVolume::mount(&folder.path().join("tls"), &ca.issue(&Subject::agent())?, ca.pem())?;
        let identity = Arc::new(ClientIdentity::new(&controller(&ca)?)?);
        let haproxy = builds(&["3.4"]).remove(0);
        let network = Network::claim()?;
        Ok(Self { ca, volume, identity, haproxy, network, folder, child: None, seq: 0 })
    }

    /// A running agent that answers.
    pub(crate) async fn start(extra: &[&str]) -> Result<Self> {
        let mut pod = Self::prepare()?;
        let mut command = Command::new(binary());
        command.args(pod.arguments(&pod.haproxy.path.clone())).args(extra);
        pod.run(command)?;
        pod.until_alive().await;
        Ok(pod)
    }

    /// What `haptic` is called with.
    pub(crate) fn arguments(&self, haproxy: &Path) -> Vec<String> {
        let path = |path: PathBuf| path.to_string_lossy().into_owned();
        let arguments: [(&str, String); 10] = [
            ("--base-dir", path(self.path("data/base"))),
            ("--state-dir", path(self.path("data/state"))),
            ("--run-dir", path(self.path("data/run"))),
            ("--haproxy", path(haproxy.to_owned())),
            ("--listen", self.api().to_string()),
            ("--probe-listen", self.probes().to_string()),
            ("--tls-cert", path(self.volume.path("tls.crt"))),
            ("--tls-key", path(self.volume.path("tls.key"))),
            ("--client-ca", path(self.volume.path("ca.crt"))),
            ("--log-format", "json".to_owned()),
        ];
        let named = arguments.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        std::iter::once("agent".to_owned()).chain(named).collect()
    }

    pub(crate) fn run(&mut self, mut command: Command) -> Result<()> {
        let log = File::create(self.path("agent.log")).context("make the log")?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.child = Some(command.spawn().with_context(|| format!("start {command:?}"))?);
        Ok(())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn api(&self) -> SocketAddr {
        (self.network.address(1), 5555).into()
    }

    pub(crate) fn probes(&self) -> SocketAddr {
        (self.network.address(1), 5557).into()
    }

    pub(crate) fn traffic(&self) -> SocketAddr {
        (self.network.address(1), 8080).into()
    }

    /// Where a backend may listen.
    pub(crate) fn backend(&self) -> SocketAddr {
        (self.network.address(2), 9000).into()
    }

    pub(crate) fn client(&self) -> AgentClient {
        AgentClient::tls(self.api(), self.identity.clone())
    }

    pub(crate) async fn probe(&self, path: &str) -> Result<Answer> {
        get(self.probes(), "pod", path).await
    }

    pub(crate) async fn until_alive(&self) {
        eventually("the agent answers over TLS", async || self.client().serving().await.ok()).await;
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.as_ref().expect("the agent was started").id()).expect("a pid is an i32")
    }

    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let child = self.child.as_mut().expect("the agent was started");
        within(STOP_BOUND, "the end of the agent", async || child.try_wait().ok().flatten()).await.0
    }

    /// A configuration that sends everything to `backend`.
    pub(crate) fn config(&self, backend: SocketAddr) -> String {
        let traffic = self.traffic();
        format!(
            "global\n    default-path config\n\
             defaults web\n    mode http\n    timeout connect 2s\n    timeout client 1m\n    timeout server 1m\n\
             frontend http from web\n    bind {traffic}\n    default_backend be_shop\n\
             backend be_shop from web\n    server s1 {backend}\n"
        )
    }

    /// The manifest that brings this configuration, and its content.
    pub(crate) fn manifest(&mut self, config: &str, epoch: u64) -> (ApplyManifest, Vec<Bytes>) {
        self.seq += 1;
        let content = Bytes::from(config.to_owned());
        let digest = Digest::of(&content);
        let path = FilePath::new("haproxy.cfg").expect("a path");
        let file = ManifestFile {
            path: path.clone(),
            digest,
            size: content.len() as u64,
            kind: FileKind::Config,
            patch: None,
        };
        let manifest = ApplyManifest {
            api_version: API_VERSION,
            plan_id: PlanId(digest),
            token: Token { leader_epoch: epoch, render_seq: self.seq },
            expected_plan: None,
            expected_worker: None,
            validated_plan: None,
            mode: ApplyMode::Reload,
            files: vec![file],
            parts: vec![path],
            binds: vec![BindAddress { address: Some(self.traffic().ip()), port: self.traffic().port() }],
            ops: Vec::new(),
            in_place_ops: Vec::new(),
            reasons: Vec::new(),
            reload_interval_ms: None,
            correlation: None,
        };
        (manifest, vec![content])
    }

    pub(crate) async fn apply(&mut self, config: &str) -> Result<ApplyResult> {
        let (manifest, parts) = self.manifest(config, 1);
        Ok(self.client().apply(&manifest, &parts).await?)
    }

    pub(crate) fn log(&self) -> Vec<String> {
        File::open(self.path("agent.log"))
            .map(|file| BufReader::new(file).lines().map_while(Result::ok).collect())
            .unwrap_or_default()
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        #[allow(clippy::print_stderr, reason = "the log of a failed test is read where the test failed")]
        if thread::panicking() {
            for line in self.log() {
                eprintln!("agent: {line}");
            }
        }
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        stop_processes_of(self.folder.path());
    }
}

pub(crate) fn controller(ca: &Authority) -> Result<Credentials> {
    let pair = ca.issue(&Subject::controller())?;
    Ok(Credentials::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes(), ca.pem().as_bytes())?)
}

pub(crate) fn signal(pid: i32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(pid).context("a pid")?;
    kill_process(pid, signal).context("send a signal")
}
