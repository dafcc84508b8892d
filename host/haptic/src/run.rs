//! `haptic run`: the controller, in a cluster or over directories.

mod cluster;
mod lifetimes;
mod standalone;
mod tracing_to;

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::Args;

use crate::{
    logging::{self, LogFormat},
    run::{cluster::ClusterArgs, standalone::StandaloneArgs},
    stop,
};

/// Where a controller in a pod tells how it stands.
const DEBUG_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);

/// Serve objects through HAProxy, and follow their changes: in a cluster (--config), or manifests in folders through a
/// local HAProxy (--standalone).
///
/// Every change goes through render, validators, `haproxy -c`, plan and deploy, and one line tells what became of it.
/// In a cluster the configuration is the HAProxyTemplateConfig of that name, and statuses are in the objects. With
/// --standalone the folders are watched and statuses are files under STATE/status. SIGTERM or SIGINT ends it with 0:
/// in a cluster another replica leads at once, standalone traffic drains first.
#[derive(Args, Debug)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    standalone: StandaloneArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The HAProxy that serves with --standalone, where one is given at most (default: the one in PATH, else the newest
    /// in HAPTIC_HAPROXY_DIR); in a cluster the builds that judge renders, one for each minor version of the pods, by
    /// default all of HAPTIC_HAPROXY_DIR
    #[arg(long, value_name = "PATH")]
    haproxy: Vec<PathBuf>,
    /// Where state lives: with --standalone the file set, statuses and sockets (keep it short: a unix socket's path has
    /// at most 97 bytes), in a cluster caches only
    #[arg(long, value_name = "DIR", default_value = "haptic-state")]
    state: PathBuf,
    /// Serve the status page and /debug/status, /debug/explain, /debug/events, /debug/vars and /metrics; a loopback address
    /// [default: 127.0.0.1:8081 in a cluster, not at all with --standalone]
    #[arg(long, value_name = "ADDRESS:PORT")]
    debug_listen: Option<SocketAddr>,
    /// Send a trace of each change to this receiver of OTLP over HTTP, e.g. http://collector:4318; default: none
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// How log lines are written
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

// === impl RunOptions ===

impl RunOptions {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        logging::start(self.log_format);
        let stop = stop::on_signal()?;
        // A volume belongs to somebody else, but what is in it does not.
        let state = if self.cluster.config.is_some() { self.state.join("controller") } else { self.state };
        private_folder(&state)?;
        // HAProxy's working directory is not ours, so every path it hears must be absolute.
        let state = fs::canonicalize(&state).with_context(|| format!("resolving {}", state.display()))?;
        match self.cluster.config {
            Some(_) => {
                let debug = self.debug_listen.unwrap_or(DEBUG_LISTEN);
                Box::pin(self.cluster.run(&self.haproxy, debug, &state, self.otlp_endpoint, stop)).await
            }
            None if self.cluster.issues_certificates() => {
                bail!("--issue-certificates is for a controller in a cluster; name its configuration with --config")
            }
            None => self.standalone.run(self.haproxy, self.debug_listen, &state, self.otlp_endpoint, stop).await,
        }
    }
}

/// Keys lie below it.
fn private_folder(path: &Path) -> anyhow::Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("making {}", path.display()))?;
    let permissions = fs::Permissions::from_mode(0o700);
    fs::set_permissions(path, permissions).with_context(|| format!("making {} private", path.display()))
}
