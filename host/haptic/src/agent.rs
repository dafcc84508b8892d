//! `haptic agent`.

mod doors;
mod first_process;
mod question;

use std::{fs::DirBuilder, os::unix::fs::DirBuilderExt as _, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::Args;
use haptic_agent::{Agent, AgentConfig, AgentMetrics};
use prometheus_client::registry::Registry;
use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{doors::DoorOptions, question::Question},
    logging::{self, LogFormat},
    offline::HaproxyChoice,
    process_metrics, stop,
};

/// How long requests that are under way at a stop may take to end.
const LAST_REQUESTS: Duration = Duration::from_secs(10);

/// The service beside HAProxy that owns its files, process and sockets.
///
/// Its HTTP API (/v1/state, /v1/serving, /v1/apply, /v1/plan) is served over a unix socket and, with --listen, over
/// TLS 1.3: agent and controller show each other certificates of one CA, with different names and key usages. The
/// certificate files are read again when they change. SIGTERM stops taking requests, drains traffic and ends with 0. As
/// process 1 of a container it also reaps orphans.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct AgentOptions {
    #[command(subcommand)]
    question: Option<Question>,
    /// The file set; everything in it belongs to the agent
    #[arg(long, required = true, value_name = "DIR")]
    base_dir: Option<PathBuf>,
    /// The agent's record
    #[arg(long, required = true, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Sockets of HAProxy and the agent; a short path, since a unix socket's path has at most 97 bytes
    #[arg(long, required = true, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Where to serve on this machine; default: RUN_DIR/agent.sock
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    doors: DoorOptions,
    #[command(flatten)]
    haproxy: HaproxyChoice,
    /// Shortest time between two reloads, in milliseconds, where the controller does not say one
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    reload_interval_min: u64,
    /// How long HAProxy may finish its connections after SIGTERM, in seconds; a pod's termination grace period must be
    /// longer by the 10 s that the last requests may take
    #[arg(long, value_name = "S", default_value_t = 30)]
    drain: u64,
    /// How log lines are written
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

// === impl AgentOptions ===

impl AgentOptions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(question) = self.question {
            return crate::blocking(async move { question.ask().await });
        }
        if first_process::is_first() {
            return first_process::run_as_child();
        }
        crate::blocking(self.serve())
    }

    async fn serve(self) -> anyhow::Result<ExitCode> {
        logging::start(self.log_format);
        let stop = stop::on_signal()?;
        let doors = self.doors.open().await?;
        let binary = self.haproxy.find()?;
        let base = self.base_dir.context("--base-dir is missing")?;
        let state = self.state_dir.context("--state-dir is missing")?;
        let run = self.run_dir.context("--run-dir is missing")?;
        let mut config = AgentConfig::new(&base, &state, &run, binary);
        config.reload_interval_min = Duration::from_millis(self.reload_interval_min);
        // The socket of the API lies there before HAProxy's do.
        let mut folder = DirBuilder::new();
        let made = folder.recursive(true).mode(0o700).create(&run);
        made.with_context(|| format!("making {}", run.display()))?;
        let socket = self.socket.unwrap_or_else(|| run.join("agent.sock"));
        let mut registry = Registry::default();
        process_metrics::register(&mut registry);
        config.metrics = AgentMetrics::new(registry);
        let (agent, task) = Agent::open(config).await.context("starting the agent")?;
        let shutdown = CancellationToken::new();
        let mut work = tokio::spawn(task.run(shutdown.clone()));
        let (mut api, mut probes) = (JoinSet::new(), JoinSet::new());
        let (local, ends) = (agent.clone(), stop.clone());
        api.spawn(async move { Ok(local.serve_unix(&socket, ends).await?) });
        doors.serve(&agent, &mut api, &mut probes, &stop, &shutdown);
        tokio::select! {
            ended = &mut work => {
                ended??;
                anyhow::bail!("the agent stopped by itself");
            }
            ended = any_end(&mut api, &mut probes) => ended?,
            () = stop.cancelled() => {}
        }
        // First the requests, so that nothing is applied to a HAProxy that ends; probes are answered to the last.
        tracing::info!(
            drain = self.drain,
            "stopping: no more requests are taken, and HAProxy finishes its connections"
        );
        if timeout(LAST_REQUESTS, all_ends(&mut api)).await.is_err() {
            tracing::warn!(limit = ?LAST_REQUESTS, "requests under way do not end; leaving them");
            api.abort_all();
        }
        agent.stop_haproxy(Duration::from_secs(self.drain)).await.context("stopping HAProxy")?;
        shutdown.cancel();
        work.await??;
        Ok(ExitCode::SUCCESS)
    }
}

/// The first that ends by itself, which none of them should.
async fn any_end(
    api: &mut JoinSet<anyhow::Result<()>>,
    probes: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    tokio::select! {
        Some(ended) = api.join_next() => ended?.context("serving the API"),
        Some(ended) = probes.join_next() => ended?.context("serving probes"),
    }
}

async fn all_ends(doors: &mut JoinSet<anyhow::Result<()>>) {
    while let Some(ended) = doors.join_next().await {
        if let Err(error) = ended.map_err(anyhow::Error::new).and_then(|ended| ended) {
            tracing::warn!(%error, "a listener ended badly");
        }
    }
}
