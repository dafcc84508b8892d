//! `haptic run --standalone`.

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
use haptic_agent::{Agent, AgentConfig, AgentTask, ScriptedFault};
use haptic_controller::{
    RunMode, StandaloneOptions,
    clock::WallClock,
    cluster::{DebugServer, Debugged, Health, SharedRegistry},
    commentator::History,
    run_standalone,
    traces::Traces,
};
use haptic_haproxy::version::HaproxyBinary;
use haptic_plugins::PluginHost;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    builtin, cli, exit,
    offline::{self, HaproxyChoice},
    plugin, process_metrics,
    run::{private_folder, tracing_to},
};

/// How long traffic may drain on a clean stop.
const DRAIN: Duration = Duration::from_secs(10);

#[derive(Args, Debug)]
pub(super) struct StandaloneArgs {
    /// Folder of manifests (YAML or JSON, any kind); may be given several times, of an object in several the first
    /// counts
    #[arg(long = "standalone", required_unless_present = "config", conflicts_with = "config", value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// With --standalone: render, validate and deploy once, wait for the acknowledgement, and leave HAProxy running
    #[arg(long, conflicts_with = "config")]
    once: bool,
}

/// The in-process agent and its server.
struct LocalAgent {
    agent: Agent,
    tasks: JoinSet<anyhow::Result<()>>,
    shutdown: CancellationToken,
    socket: PathBuf,
}

// === impl StandaloneArgs ===

impl StandaloneArgs {
    pub(super) async fn run(
        self,
        haproxy: Vec<PathBuf>,
        debug_listen: Option<SocketAddr>,
        state: &Path,
        otlp_endpoint: Option<String>,
        stop: CancellationToken,
    ) -> anyhow::Result<ExitCode> {
        let choice = match haproxy.as_slice() {
            [] => HaproxyChoice::any(),
            [one] => HaproxyChoice::of(one.clone()),
            _ => bail!("--haproxy is given several times; with --standalone one HAProxy serves, so name one"),
        };
        let binary = choice.find()?;
        tracing::info!(version = %binary.version, path = %binary.path.display(), "HAProxy");
        let mut local = LocalAgent::start(state, binary.clone()).await?;
        let registry = SharedRegistry::default();
        process_metrics::register(&mut registry.write());
        let (traces, exporter) = tracing_to::traces(otlp_endpoint.as_deref(), "standalone", &mut registry.write())?;
        let options = self.options(state, &binary, &local.socket, traces, stop.clone())?;
        let ended = CancellationToken::new();
        let mut servers = JoinSet::new();
        if let Some(address) = debug_listen {
            let (health, history) = (options.health.clone(), options.history.clone());
            let server =
                DebugServer::bind(address, health, history, options.debugged.clone(), registry.clone()).await?;
            tracing::info!("status page: http://{}/", server.address());
            servers.spawn(server.run(ended.clone()));
        }
        if let Some(exporter) = exporter {
            servers.spawn(exporter.run(ended.clone()));
        }
        let outcome = tokio::select! {
            outcome = run_standalone(options, &registry) => outcome,
            ended = local.ended() => return Err(ended.context("the local agent ended")),
        };
        ended.cancel();
        while servers.join_next().await.is_some() {}
        let code = match outcome {
            Ok(Some(report)) => {
                for pod in &report.pods {
                    cli::print(&format!("{pod}\n"));
                }
                ExitCode::SUCCESS
            }
            Ok(None) => {
                tracing::info!("stopping: traffic drains");
                local.agent.stop_haproxy(DRAIN).await.context("stopping HAProxy")?;
                ExitCode::SUCCESS
            }
            Err(error) => {
                let error = anyhow::Error::new(error);
                tracing::error!("{error:#}");
                ExitCode::from(exit::REFUSED)
            }
        };
        local.stop().await?;
        Ok(code)
    }

    fn options(
        &self,
        state: &Path,
        binary: &HaproxyBinary,
        agent_socket: &Path,
        traces: Traces,
        stop: CancellationToken,
    ) -> anyhow::Result<StandaloneOptions> {
        let host = PluginHost::with_compiler(Some(state.join("plugin-cache")), plugin::compiler())
            .context("setting up the plugin host")?;
        Ok(StandaloneOptions {
            dirs: self.dirs.clone(),
            state_dir: state.to_owned(),
            checkers: vec![offline::checker(&binary.path)?],
            haproxy: (binary.minor.major, binary.minor.minor),
            agent_socket: agent_socket.to_owned(),
            plugin_host: Arc::new(host),
            builtin_plugins: builtin::modules()
                .into_iter()
                .map(|(name, bytes)| (name, Bytes::from_static(bytes)))
                .collect(),
            run: if self.once { RunMode::Once } else { RunMode::Serve },
            clock: WallClock::system(),
            history: History::default(),
            health: Health::default(),
            debugged: Debugged::default(),
            traces,
            stop,
        })
    }
}

// === impl LocalAgent ===

impl LocalAgent {
    async fn start(state: &Path, binary: HaproxyBinary) -> anyhow::Result<Self> {
        let run = state.join("run");
        let mut config = AgentConfig::new(&state.join("haproxy"), &state.join("agent"), &run, binary);
        // For tests of recovery: kills a process at a named step of an apply.
        if let Some(fault) = env::var_os("HAPTIC_FAULT") {
            let fault: ScriptedFault = fault.to_string_lossy().parse().context("reading HAPTIC_FAULT")?;
            tracing::warn!("HAPTIC_FAULT is set: a process will be killed on purpose");
            config.fault_hook = Some(Arc::new(fault));
        }
        private_folder(&run)?;
        let (agent, task) = Agent::open(config).await.context("starting the local agent")?;
        let shutdown = CancellationToken::new();
        let socket = run.join("agent.sock");
        let mut tasks = JoinSet::new();
        tasks.spawn(work(task, shutdown.clone()));
        let (server, path, ends) = (agent.clone(), socket.clone(), shutdown.clone());
        tasks.spawn(async move {
            server.serve_unix(&path, ends).await.with_context(|| format!("serving {}", path.display()))
        });
        Ok(Self { agent, tasks, shutdown, socket })
    }

    /// Why a task of the agent ended early.
    async fn ended(&mut self) -> anyhow::Error {
        match self.tasks.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => anyhow::Error::new(error),
            Some(Ok(Ok(()))) | None => anyhow::anyhow!("it stopped by itself"),
        }
    }

    async fn stop(mut self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.context("the local agent stopped unexpectedly")??;
        }
        Ok(())
    }
}

async fn work(task: AgentTask, shutdown: CancellationToken) -> anyhow::Result<()> {
    Ok(task.run(shutdown).await?)
}
