//! `haptic agent state` and `haptic agent health`: what an agent that runs says of itself, asked beside it.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use haptic_wire::AgentClient;

use crate::{cli, exit};

#[derive(Subcommand, Debug)]
pub(crate) enum Question {
    /// Print what a running agent has and what its HAProxy serves, as JSON
    State(Socket),
    /// Say whether a running agent's HAProxy serves: 0 = it does, 1 = it does not, 2 = the agent does not answer
    Health(Socket),
}

#[derive(Args, Debug)]
pub(crate) struct Socket {
    /// Where the agent serves on this machine
    #[arg(long, value_name = "PATH", default_value = "/run/haptic/agent.sock")]
    socket: PathBuf,
}

// === impl Question ===

impl Question {
    pub(crate) async fn ask(&self) -> anyhow::Result<ExitCode> {
        let (Self::State(Socket { socket }) | Self::Health(Socket { socket })) = self;
        let agent = AgentClient::unix(socket);
        let failed = || {
            format!(
                "asking the agent at {} (its socket is RUN_DIR/agent.sock, or what --socket says)",
                socket.display()
            )
        };
        match self {
            Self::State(_) => {
                let state = agent.state(false).await.with_context(failed)?;
                cli::print(&format!("{}\n", serde_json::to_string_pretty(&state)?));
                Ok(ExitCode::SUCCESS)
            }
            Self::Health(_) if agent.ready().await.with_context(failed)? => {
                cli::print("ready: HAProxy serves\n");
                Ok(ExitCode::SUCCESS)
            }
            Self::Health(_) => {
                cli::print(
                    "not ready: HAProxy does not serve what was applied, or drains; `haptic agent state` says more\n",
                );
                Ok(ExitCode::from(exit::REFUSED))
            }
        }
    }
}
