//! `haptic explain`: the status page's searches for manifests in folders.

use std::process::ExitCode;

use clap::{ArgGroup, Args, ValueEnum};
use haptic_controller::explain::{Explained, RouteQuery};

use crate::{
    cli, exit,
    offline::{self, HaproxyChoice, Manifests},
};

/// Say who made a line of the configuration, or where a request goes.
///
/// `haptic explain --standalone DIR --line 42` names the object and the template line that made line 42 of haproxy.cfg;
/// `--line maps/path-prefix.map:3` does so for another file, and `--line TEXT` for every line with this text.
/// `haptic explain --standalone DIR --host shop.example --path /cart` asks the route maps as the frontend would and names
/// the entry that decides, its object and the servers. Passwords are masked, and files with keys are not looked at.
/// A running controller gives the same answers on its status page and under /debug/explain.
///
/// Exit codes: 0 = there is an answer, 1 = no line has it, no route leads there, or the manifests do not render, 2 = it
/// could not run.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("question").required(true).multiple(true).args(["line", "host", "path"]))]
pub(crate) struct ExplainOptions {
    #[command(flatten)]
    manifests: Manifests,
    #[command(flatten)]
    haproxy: HaproxyChoice,
    /// A line number of haproxy.cfg, FILE:LINE, or text of the configuration, a map or a crt-list
    #[arg(long, value_name = "LINE|TEXT", conflicts_with_all = ["host", "path"])]
    line: Option<String>,
    /// Host of a request, or its URL; without it any host
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Path of a request; default: that of the URL, else /
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// How the answer is written
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
}

// === impl ExplainOptions ===

impl ExplainOptions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let binary = self.haproxy.find()?;
        let minor = (binary.minor.major, binary.minor.minor);
        let loaded = match self.manifests.load()? {
            Ok(loaded) => loaded,
            Err(findings) => return Ok(refused(&findings)),
        };
        let (rendered, prepared) = match loaded.render_and_keep(minor)? {
            Ok(rendered) => rendered,
            Err(findings) => return Ok(refused(&findings)),
        };
        let snapshot = prepared.store.snapshot();
        let explained = Explained {
            rendered: &rendered,
            snapshot: &snapshot,
            renderer: &prepared.renderer,
            sources: &loaded.candidate.sources,
        };
        let (found, text, json) = if let Some(line) = &self.line {
            let answer = explained.lines(line);
            (answer.total > 0, answer.to_string(), serde_json::to_string_pretty(&answer)?)
        } else {
            let host = self.host.as_deref().unwrap_or_default();
            let answer = explained.route(&RouteQuery::new(host, self.path.as_deref().unwrap_or_default()));
            (answer.entry.is_some(), answer.to_string(), serde_json::to_string_pretty(&answer)?)
        };
        match self.output {
            Format::Text => cli::print(&text),
            Format::Json => cli::print(&format!("{json}\n")),
        }
        // An object that is left out is often why something is not found.
        if !found {
            offline::complain_all(&rendered.findings);
            return Ok(ExitCode::from(exit::REFUSED));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn refused(findings: &[haptic_model::Finding]) -> ExitCode {
    offline::complain_all(findings);
    ExitCode::from(exit::REFUSED)
}
