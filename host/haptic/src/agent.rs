//! `haptic agent`.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::Args;
use haptic_agent::{Agent, AgentConfig};

use crate::{
    logging::{self, LogFormat},
    offline::HaproxyChoice,
    stop,
};

/// The service beside HAProxy that owns its files, process and sockets.
///
/// Its HTTP API (/v1/state, /v1/apply, /v1/plan, /healthz, /readyz) is served over a unix socket. SIGTERM drains
/// traffic and ends with 0. Serving over TCP with TLS is not there yet.
#[derive(Args, Debug)]
pub(crate) struct AgentOptions {
    /// The file set; everything in it belongs to the agent
    #[arg(long, value_name = "DIR")]
    base_dir: PathBuf,
    /// The agent's record
    #[arg(long, value_name = "DIR")]
    state_dir: PathBuf,
    /// Sockets of HAProxy and the agent; a short path, since a unix socket's path has at most 97 bytes
    #[arg(long, value_name = "DIR")]
    run_dir: PathBuf,
    /// Where to serve; default: RUN_DIR/agent.sock
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    haproxy: HaproxyChoice,
    /// Shortest time between two reloads, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    reload_interval_min: u64,
    /// How log lines are written
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

// === impl AgentOptions ===

impl AgentOptions {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        logging::start(self.log_format);
        let stop = stop::on_signal()?;
        let binary = self.haproxy.find()?;
        let mut config = AgentConfig::new(&self.base_dir, &self.state_dir, &self.run_dir, binary);
        config.reload_interval_min = Duration::from_millis(self.reload_interval_min);
        let socket = self.socket.unwrap_or_else(|| self.run_dir.join("agent.sock"));
        let (agent, task) = Agent::open(config).await.context("starting the agent")?;
        let shutdown = tokio_util::sync::CancellationToken::new();
        let mut work = tokio::spawn(task.run(shutdown.clone()));
        tokio::select! {
            served = agent.serve_unix(&socket, shutdown.clone()) => {
                served.with_context(|| format!("serving {}", socket.display()))?;
            }
            ended = &mut work => {
                ended??;
                anyhow::bail!("the agent stopped by itself");
            }
            () = stop.cancelled() => {}
        }
        agent.stop_haproxy(Duration::from_mins(1)).await.context("stopping HAProxy")?;
        shutdown.cancel();
        work.await??;
        Ok(ExitCode::SUCCESS)
    }
}
