//! The binary: command line to values, tracing set-up, one module a subcommand. Everything it does is done by the
//! rooms it calls.

mod agent;
mod builtin;
mod certificates;
mod cli;
mod crds;
mod demo_secret;
mod diff;
mod echo;
mod explain;
mod logging;
mod offline;
mod plugin;
mod preflight;
mod probe;
mod process_metrics;
mod rbac;
mod render;
mod run;
mod stop;
mod validate;
mod webhook_configuration;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser as _};

use crate::cli::{Cli, Command};

/// Objects come and go in bursts. This allocator gives what they leave behind back to the system; `.cargo/config.toml` says
/// how soon.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Exit codes, as `--help` documents them.
pub(crate) mod exit {
    /// A check said no: a test failed, a manifest is wrong, a diff cannot be made.
    pub(crate) const REFUSED: u8 = 1;
    /// It could not run: a missing file, HAProxy or socket.
    pub(crate) const FAILED: u8 = 2;
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            // A person reads this whether or not tracing runs.
            cli::complain(&format!("error: {error:#}"));
            ExitCode::from(exit::FAILED)
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(options) => blocking(options.run()),
        Command::Agent(options) => options.run(),
        Command::Echo(options) => {
            logging::start(logging::LogFormat::Text);
            blocking(async {
                echo::serve(options.backends, stop::on_signal()?).await?;
                Ok(ExitCode::SUCCESS)
            })
        }
        Command::Probe(options) => blocking(options.run()),
        Command::Validate(options) => options.run(),
        Command::Render(options) => options.run(),
        Command::Diff(options) => blocking(options.run()),
        Command::Explain(options) => options.run(),
        Command::Preflight(options) => options.run(),
        Command::Crds(options) => options.run(),
        Command::Rbac(options) => options.run(),
        Command::WebhookConfiguration(options) => options.run(),
        Command::Plugin(command) => command.run(),
        Command::DemoSecret(options) => {
            cli::print(&options.manifest()?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Functions => {
            for (title, entries) in [("functions", haptic_render::functions()), ("filters", haptic_render::filters())] {
                cli::print(&format!("{title}:\n"));
                for (name, line) in entries {
                    cli::print(&format!("  {name:<16} {line}\n"));
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "haptic", &mut script);
            cli::print(&String::from_utf8_lossy(&script));
            Ok(ExitCode::SUCCESS)
        }
        Command::CompilePlugin => {
            haptic_plugins::compile_for_parent().context("talking to the process that wants a plugin compiled")?;
            Ok(ExitCode::SUCCESS)
        }
        Command::CheckJail { order } => {
            haptic_haproxy::check::start_for_parent(&order).context("telling the process that wants a check")
        }
        Command::Version => {
            cli::print(&format!("haptic {}\n", env!("CARGO_PKG_VERSION")));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn blocking(future: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(future)
}
