//! `haptic run --config`: the controller in a cluster.

use std::{
    env,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use clap::Args;
use haptic_controller::{
    clock::WallClock,
    cluster::{
        ClusterOptions, ConfigName, DebugServer, Debugged, HandOverFault, Health, MetricsServer, ProbeServer,
        SharedRegistry, WebhookServer, run_cluster,
    },
    commentator::History,
};
use haptic_haproxy::version::HaproxyBinary;
use haptic_kubernetes::{Access, Api, InCluster, Limits, connect};
use haptic_plugins::PluginHost;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    builtin,
    certificates::CertificateOptions,
    offline::{self, HaproxyChoice},
    plugin, process_metrics,
    run::{lifetimes::LifetimeArgs, tracing_to},
};

/// How long making a connection to the API server may take.
const CONNECT: Duration = Duration::from_secs(10);

#[derive(Args, Debug)]
pub(super) struct ClusterArgs {
    /// Run in a cluster with the HAProxyTemplateConfig of this name
    #[arg(long, value_name = "NAME")]
    pub(super) config: Option<String>,
    /// Its namespace, in which the HAProxy pods are, too; default: $POD_NAMESPACE
    #[arg(long, requires = "config", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// How to reach the API server from outside of the cluster; default: the pod's service account
    #[arg(long, requires = "config", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; default: its current one
    #[arg(long, requires = "kubeconfig", value_name = "NAME")]
    context: Option<String>,
    /// Port of the agents in the HAProxy pods
    #[arg(long, requires = "config", value_name = "PORT", default_value_t = 5555)]
    agent_port: u16,
    /// Serve /healthz, /readyz and /livez
    #[arg(long, requires = "config", value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8080")]
    probe_listen: SocketAddr,
    /// Serve /metrics alone, for a Prometheus that comes from elsewhere; default: not at all
    #[arg(long, requires = "config", value_name = "ADDRESS:PORT")]
    metrics_listen: Option<SocketAddr>,
    /// Judge writes for the API server, with the certificate of --webhook-tls; default: not at all
    #[arg(long, requires_all = ["config", "webhook_tls"], value_name = "ADDRESS:PORT")]
    webhook_listen: Option<SocketAddr>,
    /// Folder with tls.crt and tls.key of the webhook, such as a mounted Secret; may be filled and change at any time
    #[arg(long, requires = "webhook_listen", value_name = "DIR")]
    webhook_tls: Option<PathBuf>,
    #[command(flatten)]
    certificates: CertificateOptions,
    #[command(flatten)]
    lifetimes: LifetimeArgs,
}

// === impl ClusterArgs ===

impl ClusterArgs {
    pub(super) async fn run(
        self,
        haproxy: &[PathBuf],
        debug_listen: SocketAddr,
        state: &Path,
        otlp_endpoint: Option<String>,
        stop: CancellationToken,
    ) -> anyhow::Result<ExitCode> {
        let config = self.config.as_deref().context("--config is missing")?;
        let namespace = self.namespace.clone().or_else(|| env::var("POD_NAMESPACE").ok());
        let namespace = namespace.context("which namespace? give --namespace, or set POD_NAMESPACE in the pod")?;
        let access = self.access()?;
        let certificates = self.certificates.settings(&namespace, self.lifetimes.get()?)?;
        let identity = identity()?;
        let binaries = checkers_of(haproxy)?;
        let mut checkers = Vec::new();
        for binary in &binaries {
            tracing::info!(version = %binary.version, path = %binary.path.display(), "HAProxy for checks");
            checkers.push(offline::checker(&binary.path)?);
        }
        let newest = binaries.last().context("no HAProxy is there")?.minor;
        let client = connect(&access, CONNECT).await.context("connecting to the API server")?;
        let host = PluginHost::with_compiler(Some(state.join("plugin-cache")), plugin::compiler())
            .context("setting up the plugin host")?;
        let (health, debugged, history) = (Health::default(), Debugged::default(), History::default());
        let registry = SharedRegistry::default();
        process_metrics::register(&mut registry.write());
        let (traces, exporter) = tracing_to::traces(otlp_endpoint.as_deref(), &identity, &mut registry.write())?;

        // They answer before anything is loaded, and to the last.
        let probes = ProbeServer::bind(self.probe_listen, health.clone()).await?;
        let debug =
            DebugServer::bind(debug_listen, health.clone(), history.clone(), debugged.clone(), registry.clone())
                .await?;
        let ended = CancellationToken::new();
        let mut servers = JoinSet::new();
        servers.spawn(probes.run(ended.clone()));
        servers.spawn(debug.run(ended.clone()));
        if let Some(address) = self.metrics_listen {
            let metrics = MetricsServer::bind(address, registry.clone()).await?;
            servers.spawn(metrics.run(ended.clone()));
        }

        let webhook = match self.webhook_listen.zip(self.webhook_tls.clone()) {
            Some((address, folder)) => {
                let clock = WallClock::system();
                let webhook = WebhookServer::bind(address, folder, health.clone(), clock, &registry).await?;
                let door = webhook.door();
                servers.spawn(webhook.run(ended.clone()));
                Some(door)
            }
            None => None,
        };
        if let Some(exporter) = exporter {
            servers.spawn(exporter.run(ended.clone()));
        }

        let options = ClusterOptions {
            config: ConfigName { namespace: namespace.into(), name: config.into() },
            identity: identity.into(),
            api: Api::new(client, Limits::default()),
            state_dir: state.to_owned(),
            checkers,
            haproxy: (newest.major, newest.minor),
            agent_port: self.agent_port,
            certificates,
            plugin_host: Arc::new(host),
            builtin_plugins: builtin::modules()
                .into_iter()
                .map(|(name, bytes)| (name, Bytes::from_static(bytes)))
                .collect(),
            clock: WallClock::system(),
            history,
            health,
            debugged,
            webhook,
            fault: fault()?,
            traces,
            stop,
        };
        let outcome = Box::pin(run_cluster(options, &registry)).await;
        ended.cancel();
        while servers.join_next().await.is_some() {}
        outcome?;
        tracing::info!("stopped");
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn issues_certificates(&self) -> bool {
        self.certificates.is_wanted()
    }

    fn access(&self) -> anyhow::Result<Access> {
        if let Some(path) = &self.kubeconfig {
            return Ok(Access::Kubeconfig { path: path.clone(), context: self.context.clone() });
        }
        let host = env::var("KUBERNETES_SERVICE_HOST")
            .context("this is no pod: KUBERNETES_SERVICE_HOST is not set; give --kubeconfig")?;
        let port = env::var("KUBERNETES_SERVICE_PORT").context("KUBERNETES_SERVICE_PORT is not set")?;
        let port = port.parse().with_context(|| format!("KUBERNETES_SERVICE_PORT `{port}` is no port"))?;
        Ok(Access::InCluster(InCluster { host, port, folder: InCluster::FOLDER.into() }))
    }
}

/// Set by tests.
fn fault() -> anyhow::Result<Option<HandOverFault>> {
    let Some(fault) = env::var_os("HAPTIC_FAULT") else { return Ok(None) };
    let fault = fault.to_string_lossy().parse().context("reading HAPTIC_FAULT")?;
    tracing::warn!("HAPTIC_FAULT is set: a hand-over will fail on purpose");
    Ok(Some(fault))
}

/// Unique among the replicas: a second process of this name would take the Lease over.
fn identity() -> anyhow::Result<String> {
    let from_pod = env::var("POD_NAME").ok().filter(|name| !name.is_empty());
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
    from_pod.or_else(host).context("who is this process in the Lease? set POD_NAME from the pod's metadata.name")
}

/// The builds that judge renders, one for each minor version, oldest first.
fn checkers_of(given: &[PathBuf]) -> anyhow::Result<Vec<HaproxyBinary>> {
    let mut binaries: Vec<HaproxyBinary> = if given.is_empty() {
        offline::haproxy_directory().map(|directory| HaproxyBinary::all_in(&directory)).unwrap_or_default()
    } else {
        given.iter().map(|path| HaproxyBinary::probe(path)).collect::<Result<_, _>>()?
    };
    if binaries.is_empty() {
        // One in PATH is better than none; one that is missing is told with what to do.
        binaries.push(HaproxyChoice::any().find()?);
    }
    binaries.sort_by_key(|binary| binary.minor);
    if let Some([a, b]) = binaries.array_windows().find(|[a, b]| a.minor == b.minor) {
        bail!("{} and {} are both HAProxy {}; name one of them", a.path.display(), b.path.display(), a.minor);
    }
    Ok(binaries)
}
