//! A real HAProxy, a real agent behind its unix socket, and small sets to apply.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fmt::Write as _,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use haptic_agent::{Agent, AgentConfig, AgentError, FaultHook, ServeError};
use haptic_haproxy::{process::Launch, runtime::RuntimeClient, version::HaproxyBinary};
use haptic_model::{Digest, FileKind, FilePath, Op, PlanId};
use haptic_wire::{
    API_VERSION, AgentClient, AgentState, ApplyManifest, ApplyMode, ApplyResult, BindAddress, ManifestFile, Token,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

pub(crate) const VERSIONS: [&str; 3] = ["3.0", "3.2", "3.4"];
/// Bound of every wait for a condition.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn binary(version: &str) -> HaproxyBinary {
    let directory = std::env::var_os("HAPTIC_HAPROXY_DIR").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/haptic/haproxy/bin"),
        PathBuf::from,
    );
    let path = directory.join(format!("haproxy-{version}"));
    HaproxyBinary::probe(&path)
        .unwrap_or_else(|error| panic!("{error}: this test needs real HAProxy binaries; run `make haproxies`"))
}

/// A pod: directories, a HAProxy and an agent that can crash and come back.
pub(crate) struct Pod {
    directory: tempfile::TempDir,
    pub(crate) binary: HaproxyBinary,
    pub(crate) http_port: u16,
    pub(crate) https_port: u16,
    /// Dropped after HAProxy has ended.
    _ports: [TcpSocket; 2],
    interval: Duration,
    agent: Option<Running>,
    seq: u64,
}

struct Running {
    handle: Agent,
    task: JoinHandle<Result<(), AgentError>>,
    server: JoinHandle<Result<(), ServeError>>,
    shutdown: CancellationToken,
    client: Arc<AgentClient>,
}

impl Pod {
    /// A pod with an empty base directory and a running agent; reloads need no pause between them.
    pub(crate) async fn new(version: &str) -> Self {
        let mut pod = Self::stopped(version, Duration::ZERO);
        pod.open(None).await;
        pod
    }

    pub(crate) fn stopped(version: &str, interval: Duration) -> Self {
        let directory = tempfile::Builder::new().prefix("h").tempdir_in("/tmp").unwrap();
        let ((http, http_port), (https, https_port)) = (reserve_port(), reserve_port());
        Self {
            directory,
            binary: binary(version),
            http_port,
            https_port,
            _ports: [http, https],
            interval,
            agent: None,
            seq: 0,
        }
    }

    pub(crate) async fn open(&mut self, hook: Option<Arc<dyn FaultHook>>) {
        let (base, state, run) = (self.base(), self.path("state"), self.path("r"));
        let mut config = AgentConfig::new(&base, &state, &run, self.binary.clone());
        config.reload_interval_min = self.interval;
        config.fault_hook = hook;
        let (agent, task) = Agent::open(config).await.unwrap();
        let shutdown = CancellationToken::new();
        let socket = self.path("a.sock");
        let handle = agent.clone();
        let served = {
            let (socket, shutdown) = (socket.clone(), shutdown.clone());
            async move { agent.serve_unix(&socket, shutdown).await }
        };
        let server = tokio::spawn(served);
        let task = tokio::spawn(task.run(shutdown.clone()));
        let client = Arc::new(AgentClient::unix(&socket));
        self.agent = Some(Running { handle, task, server, shutdown, client });
        let client = self.client();
        until("the agent answers", async || client.state(false).await.is_ok()).await;
    }

    /// Waits for a crash that a hook asked for, and opens the agent again.
    pub(crate) async fn reopen_after_crash(&mut self) {
        let running = self.agent.take().unwrap();
        let ended = tokio::time::timeout(PATIENCE, running.task).await.expect("the agent crashes").unwrap();
        assert!(matches!(ended, Err(AgentError::Crashed)), "{ended:?}");
        running.server.abort();
        let _ = running.server.await;
        self.open(None).await;
    }

    /// Ends the agent and leaves HAProxy running.
    pub(crate) async fn close(&mut self) {
        let running = self.agent.take().unwrap();
        running.shutdown.cancel();
        running.task.await.unwrap().unwrap();
        running.server.abort();
        let _ = running.server.await;
    }

    pub(crate) fn client(&self) -> Arc<AgentClient> {
        self.agent.as_ref().unwrap().client.clone()
    }

    /// As the door of the probes tells it.
    pub(crate) fn metrics(&self) -> String {
        self.agent.as_ref().unwrap().handle.metrics().unwrap()
    }

    pub(crate) async fn state(&self) -> AgentState {
        self.client().state(false).await.unwrap()
    }

    /// Waits until the agent's state is as wanted; in vain, it says what the agent and HAProxy did instead.
    pub(crate) async fn until_state(&self, what: &str, holds: impl Fn(&AgentState) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut looks = looks();
        loop {
            let state = self.state().await;
            if holds(&state) {
                return;
            }
            let launch = self.launch();
            assert!(
                Instant::now() < deadline,
                "in vain: {what}\nstate: {state:#?}\nadoptable: {:?}\nprocesses: {:?}\nHAProxy said: {}",
                launch.adopt().await,
                launch.leftovers(),
                std::fs::read_to_string(launch.log()).unwrap_or_default()
            );
            looks.tick().await;
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn base(&self) -> PathBuf {
        self.path("base")
    }

    pub(crate) fn launch(&self) -> Launch {
        Launch {
            binary: self.binary.path.clone(),
            config: self.base().join("haproxy.cfg"),
            run_dir: self.path("r"),
            start_timeout: Duration::from_secs(10),
        }
    }

    /// Asks the worker that serves: right after a reload the old one may answer too.
    pub(crate) async fn ask(&self, command: &str) -> String {
        let serving = self.launch().adopt().await.expect("HAProxy runs");
        let mut runtime = RuntimeClient::new(&self.launch().worker_socket(), self.binary.minor, Duration::from_secs(5));
        runtime.bind_to(Some(serving.worker.pid));
        runtime.ask_one(command).await.unwrap().text
    }

    /// A manifest that brings `set` on top of what the agent has, with only the content that it lacks.
    pub(crate) async fn manifest(&mut self, set: &Set, mode: ApplyMode, ops: Vec<Op>) -> (ApplyManifest, Vec<Bytes>) {
        let state = self.state().await;
        self.seq += 1;
        let mut parts = Vec::new();
        let mut contents = Vec::new();
        let mut files = Vec::new();
        for (path, kind, content) in &set.files {
            let digest = Digest::of(content);
            if state.files.get(path) != Some(&digest) {
                parts.push(path.clone());
                contents.push(content.clone());
            }
            files.push(ManifestFile {
                path: path.clone(),
                digest,
                size: content.len() as u64,
                kind: *kind,
                patch: None,
            });
        }
        let bind = |port| BindAddress { address: Some(Ipv4Addr::LOCALHOST.into()), port };
        let manifest = ApplyManifest {
            api_version: API_VERSION,
            plan_id: set.plan(),
            token: Token { leader_epoch: 1, render_seq: self.seq },
            expected_plan: state.applied_plan,
            expected_worker: state.haproxy.map(|haproxy| haproxy.worker),
            validated_plan: None,
            mode,
            files,
            parts,
            binds: vec![bind(self.http_port), bind(self.https_port)],
            ops,
            in_place_ops: Vec::new(),
            reasons: Vec::new(),
            reload_interval_ms: None,
            correlation: None,
        };
        (manifest, contents)
    }

    pub(crate) async fn apply(&mut self, set: &Set, mode: ApplyMode, ops: Vec<Op>) -> ApplyResult {
        let (manifest, parts) = self.manifest(set, mode, ops).await;
        self.client().apply(&manifest, &parts).await.unwrap()
    }

    pub(crate) async fn reload(&mut self, set: &Set) -> ApplyResult {
        self.apply(set, ApplyMode::Reload, Vec::new()).await
    }

    pub(crate) async fn run(&mut self, set: &Set, ops: Vec<Op>) -> ApplyResult {
        self.apply(set, ApplyMode::Auto, ops).await
    }

    pub(crate) async fn get(&self, host: &str) -> String {
        get(self.http_port, host).await.unwrap_or_else(|error| format!("error: {error}"))
    }

    /// Every file of the base directory is byte for byte that of the set, and no other is there.
    pub(crate) fn assert_on_disk(&self, set: &Set) {
        let mut found = Vec::new();
        walk(&self.base(), &self.base(), &mut found);
        let mut expected: Vec<_> =
            set.files.iter().map(|(path, _, content)| (path.to_string(), content.to_vec())).collect();
        expected.sort();
        found.sort();
        let names = |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&found), names(&expected));
        assert!(found == expected, "the content of a file differs");
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        if let Some(running) = self.agent.take() {
            running.shutdown.cancel();
            running.task.abort();
            running.server.abort();
        }
        // HAProxy outlives its agent by design, so the test ends the processes of its own sockets.
        for pid in self.launch().leftovers() {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
}

/// A set of files.
#[derive(Clone)]
pub(crate) struct Set {
    pub(crate) files: Vec<(FilePath, FileKind, Bytes)>,
}

impl Set {
    /// A configuration whose frontends look up the host in `maps/hosts.map`, with a body of backends.
    pub(crate) fn new(pod: &Pod, backends: &str, hosts: &str) -> Self {
        let (http, https) = (pod.http_port, pod.https_port);
        let config = format!(
            "global\n    default-path config\n    hard-stop-after 5s\n\
             defaults web\n    mode http\n    balance roundrobin\n    timeout connect 2s\n    timeout client 10s\n    \
             timeout server 10s\n\
             frontend http from web\n    bind 127.0.0.1:{http}\n    option idle-close-on-response\n    \
             use_backend %[req.hdr(host),field(1,:),map(maps/hosts.map,be_none)]\n\
             frontend https from web\n    bind 127.0.0.1:{https} ssl crt-list lists/certs.list\n    \
             use_backend %[req.hdr(host),field(1,:),map(maps/hosts.map,be_none)]\n\
             backend be_none from web\n    http-request return status 404 content-type text/plain string none\n\
             {backends}"
        );
        let mut set = Self { files: Vec::new() };
        set.put("haproxy.cfg", FileKind::Config, config);
        set.put("maps/hosts.map", FileKind::Map, hosts.to_owned());
        set.put("ssl/default.pem", FileKind::Cert, certificate("default.test"));
        set.put("lists/certs.list", FileKind::CrtList, "ssl/default.pem\n".to_owned());
        set
    }

    #[must_use]
    pub(crate) fn with(&self, path: &str, kind: FileKind, content: impl Into<String>) -> Self {
        let mut set = self.clone();
        set.put(path, kind, content);
        set
    }

    pub(crate) fn put(&mut self, path: &str, kind: FileKind, content: impl Into<String>) {
        let path = FilePath::new(path).unwrap();
        self.files.retain(|(known, _, _)| *known != path);
        self.files.push((path, kind, Bytes::from(content.into())));
    }

    pub(crate) fn text(&self, path: &str) -> String {
        let (_, _, content) = self.files.iter().find(|(known, _, _)| known.as_str() == path).unwrap();
        String::from_utf8(content.to_vec()).unwrap()
    }

    /// Stands for the render's identity: another set has another one.
    pub(crate) fn plan(&self) -> PlanId {
        let mut all = Vec::new();
        for (path, _, content) in &self.files {
            all.extend_from_slice(path.as_str().as_bytes());
            all.extend_from_slice(Digest::of(content).as_bytes());
        }
        PlanId(Digest::of(&all))
    }
}

pub(crate) fn backend(name: &str, servers: &[(&str, SocketAddr)]) -> String {
    let mut text = format!("backend {name} from web\n");
    for (server, address) in servers {
        writeln!(text, "    server {server} {address} weight 1").unwrap();
    }
    text
}

/// A self-signed certificate with its key; every call gives another serial number.
pub(crate) fn certificate(name: &str) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
    format!("{}{}", certificate.pem(), key.serialize_pem())
}

/// A web server that answers every request with its name.
pub(crate) async fn echo(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut buffer).await {
                        Ok(read) if read > 0 => request.extend_from_slice(&buffer[..read]),
                        _ => return,
                    }
                }
                let answer =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{name}", name.len());
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    address
}

/// The body of `GET /` through HAProxy.
pub(crate) async fn get(port: u16, host: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.rsplit_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    let mut looks = looks();
    while !holds().await {
        assert!(Instant::now() < deadline, "in vain: {what}");
        looks.tick().await;
    }
}

/// When a condition that no event announces is looked at again.
fn looks() -> tokio::time::Interval {
    let mut looks = tokio::time::interval(Duration::from_millis(5));
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    looks
}

pub(crate) fn path(text: &str) -> FilePath {
    FilePath::new(text).unwrap()
}

/// A port that nobody else gets while the socket lives, also while HAProxy does not run.
///
/// It never listens, so it takes no connection. Without `SO_REUSEADDR` the system gives its port to no other socket that
/// asks for any port; with `SO_REUSEPORT` HAProxy still binds it.
fn reserve_port() -> (TcpSocket, u16) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseport(true).unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

fn walk(base: &Path, directory: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(base).unwrap().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            walk(base, &path, found);
        } else {
            found.push((name, std::fs::read(&path).unwrap()));
        }
    }
}
