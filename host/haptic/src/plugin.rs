//! `haptic plugin …`.

mod bench;
mod build;
mod inspect;
mod new;
mod push;
mod serve;
mod snippet;
mod test;

use std::{env, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use haptic_plugins::{CompileLimits, Compiler, CompilerProcess, HostError, PluginHost};

use crate::cli;

#[derive(Subcommand, Debug)]
pub(crate) enum PluginCommand {
    /// Write a new plugin whose build and test pass at once
    New(new::NewOptions),
    /// Make the component of a project, and print what pins and loads it
    Build(build::BuildOptions),
    /// Show what a component is: contracts, imports, generation, digest to pin
    Inspect(inspect::InspectOptions),
    /// Run a plugin's cases and the contract's own checks
    Test(test::TestOptions),
    /// Print what a plugin costs
    Bench(bench::BenchOptions),
    /// Push a component to an OCI registry, and print what pins and loads it
    Push(push::PushOptions),
    /// Install the pinned tools that build plugins in Python and JavaScript, which build does by itself
    Toolchain(build::ToolchainOptions),
    /// Offer a validator plugin on a unix socket, to callers that speak protocol v1
    Serve(serve::ServeOptions),
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Output {
    #[default]
    Text,
    Json,
}

// === impl PluginCommand ===

impl PluginCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::New(options) => options.run(),
            Self::Build(options) => options.run(),
            Self::Inspect(options) => options.run(),
            Self::Test(options) => options.run(),
            Self::Bench(options) => options.run(),
            Self::Push(options) => crate::blocking(options.run()),
            Self::Toolchain(options) => options.run(),
            Self::Serve(options) => crate::blocking(options.run()),
        }
    }
}

/// The plugin host of a command that ends soon: what was compiled before is compiled no more. Without a folder for it,
/// e.g. in a container with no home, it is compiled each time.
pub(crate) fn host() -> anyhow::Result<PluginHost> {
    let host = match PluginHost::with_compiler(cache_dir(), compiler()) {
        Err(HostError::Cache(error)) => {
            cli::complain(&format!("warning: compiled plugins are not kept: {:#}", anyhow::Error::from(error)));
            PluginHost::with_compiler(None, compiler())
        }
        host => host,
    };
    host.context("setting up the plugin host")
}

/// Has plugins compiled by this program again, whatever has become of its file since it was started.
pub(crate) fn compiler() -> Compiler {
    let program = PathBuf::from("/proc/self/exe");
    Compiler::Process(CompilerProcess::new(program, vec!["compile-plugin".into()], CompileLimits::default()))
}

/// Where compiled modules are kept between runs; `None` without a home.
fn cache_dir() -> Option<PathBuf> {
    Some(user_cache()?.join("plugin-cache"))
}

/// Where the tools that build plugins are kept; `None` without a home. `HAPTIC_CACHE` moves them.
fn tools_dir() -> Option<PathBuf> {
    env::var_os("HAPTIC_CACHE").map(PathBuf::from).or_else(user_cache)
}

fn user_cache() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("haptic"))
}
