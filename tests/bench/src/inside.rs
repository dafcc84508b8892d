//! Clients in the network of a pod. The tests' way into the cluster passes each request through two processes, which would
//! take the processors from those that are measured, and be measured with them.

use std::{
    fs::File,
    net::{IpAddr, SocketAddr},
    os::fd::AsFd as _,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use haptic_e2e::{
    Connection, Load, Target,
    cluster::{PodState, Room, served::HTTP},
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    time::sleep,
};

const BOUND: Duration = Duration::from_secs(30);
/// Between two looks of the client that waits for an answer. Who asks without a pause takes the processors from those that
/// are measured; who asks more seldom measures his own pauses.
const RESOLUTION: Duration = Duration::from_millis(1);

/// A runtime of which every thread is in the network of one pod.
pub(crate) struct Inside {
    /// `None` = it ends.
    runtime: Option<Runtime>,
    http: SocketAddr,
}

/// One client that asks again and again over one connection.
pub(crate) struct Client {
    inside: Handle,
    visitor: Visitor,
}

#[derive(Clone)]
struct Visitor {
    address: SocketAddr,
    connection: Arc<tokio::sync::Mutex<Option<Connection>>>,
}

// === impl Inside ===

impl Inside {
    pub(crate) async fn of(room: &Room, pod: &PodState) -> Result<Self> {
        let processes = room.cluster().processes(room.system(), &pod.name).await?;
        let pid = processes.get("haproxy").context("HAProxy's container runs")?;
        let network = File::open(format!("/proc/{pid}/ns/net")).context("open the network of a pod")?;
        let enter = move || {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root may enter the network of a process");
        };
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().on_thread_start(enter).build()?;
        let ip: IpAddr = pod.ip.context("the pod has an address")?;
        Ok(Self { runtime: Some(runtime), http: SocketAddr::new(ip, HTTP) })
    }

    pub(crate) fn client(&self) -> Client {
        let visitor = Visitor { address: self.http, connection: Arc::default() };
        Client { inside: self.handle(), visitor }
    }

    pub(crate) fn load(&self, targets: &[Target]) -> Load {
        let handle = self.handle();
        let _here = handle.enter();
        Load::start(self.http, targets)
    }

    fn handle(&self) -> Handle {
        self.runtime.as_ref().expect("it runs until it is dropped").handle().clone()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

// === impl Client ===

impl Client {
    /// The pod that answers for the host; `None` = nobody does.
    pub(crate) async fn ask(&self, host: &str) -> Result<Option<String>> {
        let (visitor, host) = (self.visitor.clone(), host.to_owned());
        self.inside.spawn(async move { visitor.ask(&host).await }).await?
    }

    /// When the host was first answered by a pod other than `old`.
    pub(crate) async fn until_other(&self, host: &str, old: Option<&str>) -> Result<Instant> {
        let (visitor, host, old) = (self.visitor.clone(), host.to_owned(), old.map(str::to_owned));
        self.inside.spawn(async move { visitor.until_other(&host, old.as_deref()).await }).await?
    }
}

// === impl Visitor ===

impl Visitor {
    async fn ask(&self, host: &str) -> Result<Option<String>> {
        let mut kept = self.connection.lock().await;
        let mut connection = match kept.take() {
            Some(connection) if !connection.closed_while_idle() => connection,
            _ => Connection::open(self.address).await?,
        };
        let answer = connection.request(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).await?;
        if !answer.wants_close() {
            *kept = Some(connection);
        }
        Ok(answer.pod())
    }

    async fn until_other(&self, host: &str, old: Option<&str>) -> Result<Instant> {
        let began = Instant::now();
        while began.elapsed() < BOUND {
            let pod = self.ask(host).await?;
            if pod.is_some() && pod.as_deref() != old {
                return Ok(Instant::now());
            }
            sleep(RESOLUTION).await;
        }
        bail!("{host} was not served as it should be within {BOUND:?}")
    }
}
