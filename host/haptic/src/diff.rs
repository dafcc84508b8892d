//! `haptic diff`: will this reload?

use std::{collections::BTreeSet, fmt::Write as _, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use haptic_haproxy::plan::{Baseline, Diff, Inventory, diff};
use haptic_model::{FileKind, Plan, Rendered};
use haptic_wire::AgentClient;

use crate::{
    cli, exit,
    offline::{self, HaproxyChoice, Manifests},
};

#[derive(Args, Debug)]
pub(crate) struct DiffOptions {
    #[command(flatten)]
    manifests: Manifests,
    /// Compare with what these folders render to; may be given several times
    #[arg(long = "from", value_name = "DIR", conflicts_with = "state", required_unless_present = "state")]
    from: Vec<PathBuf>,
    /// Compare with what a running `haptic run --state DIR` serves
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(flatten)]
    haproxy: HaproxyChoice,
    /// Judge for this HAProxy version, e.g. 3.0; default: that of the HAProxy found, or of the running one
    #[arg(long, value_name = "MAJOR.MINOR", value_parser = minor_version)]
    haproxy_version: Option<(u16, u16)>,
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    #[default]
    Text,
    Json,
}

struct Running {
    plan: Option<Plan>,
    inventory: Inventory,
    haproxy: Option<(u16, u16)>,
    pending_deletes: BTreeSet<String>,
    reload_pending: bool,
}

// === impl DiffOptions ===

impl DiffOptions {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let running = match &self.state {
            Some(state) => Some(running(state).await?),
            None => None,
        };
        let known = self.haproxy_version.or_else(|| running.as_ref().and_then(|running| running.haproxy));
        let haproxy = match known {
            Some(known) => known,
            None => {
                let binary = self.haproxy.find()?;
                (binary.minor.major, binary.minor.minor)
            }
        };
        let next = match render(&self.manifests, haproxy)? {
            Ok(rendered) => rendered,
            Err(code) => return Ok(code),
        };
        let running = match running {
            Some(running) => running,
            None => match render(&Manifests { dirs: self.from.clone() }, haproxy)? {
                Ok(rendered) => loaded(&rendered),
                Err(code) => return Ok(code),
            },
        };
        let baseline = Baseline {
            plan: running.plan.as_ref(),
            haproxy,
            inventory: &running.inventory,
            pending_deletes: &running.pending_deletes,
            reload_pending: running.reload_pending,
        };
        let difference = diff(&next.plan, &baseline);
        match self.output {
            Output::Text => cli::print(&text(&difference)),
            Output::Json => cli::print(&format!("{}\n", serde_json::to_string_pretty(&json(&difference))?)),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn render(manifests: &Manifests, haproxy: (u16, u16)) -> anyhow::Result<Result<Rendered, ExitCode>> {
    let rendered = match manifests.load()? {
        Ok(loaded) => loaded.render(haproxy)?,
        Err(findings) => Err(findings),
    };
    Ok(rendered.map_err(|findings| {
        offline::complain_all(&findings);
        ExitCode::from(exit::REFUSED)
    }))
}

/// What a worker that loaded this render has.
fn loaded(rendered: &Rendered) -> Running {
    let of = |kind: FileKind| {
        rendered.files.values().filter(move |file| file.kind == kind).map(|file| file.path.clone()).collect()
    };
    Running {
        plan: Some(Plan::clone(&rendered.plan)),
        inventory: Inventory {
            maps: of(FileKind::Map),
            certificates: of(FileKind::Cert),
            ca_files: of(FileKind::Ca),
            crl_files: of(FileKind::Crl),
            crt_lists: of(FileKind::CrtList),
        },
        haproxy: None,
        pending_deletes: BTreeSet::new(),
        reload_pending: false,
    }
}

async fn running(state: &std::path::Path) -> anyhow::Result<Running> {
    let socket = state.join("run/agent.sock");
    let answer = AgentClient::unix(&socket)
        .state(true)
        .await
        .with_context(|| format!("asking the agent at {} for its state", socket.display()))?;
    let plan = answer.plan.map(serde_json::from_value::<Plan>).transpose();
    let inventory = answer.inventory;
    Ok(Running {
        plan: plan.context("reading the plan that the agent keeps")?,
        inventory: Inventory {
            maps: inventory.maps.into_iter().collect(),
            certificates: inventory.certificates.into_iter().collect(),
            ca_files: inventory.ca_files.into_iter().collect(),
            crl_files: inventory.crl_files.into_iter().collect(),
            crt_lists: inventory.crt_lists.into_iter().collect(),
        },
        haproxy: answer.haproxy.map(|haproxy| haproxy.minor),
        pending_deletes: answer.pending_deletes.into_iter().collect(),
        reload_pending: answer.reload_pending,
    })
}

/// First line the verdict, then reasons, commands and files.
fn text(difference: &Diff) -> String {
    let mut text = format!("{}\n", difference.verdict);
    for reason in difference.reasons.iter().chain(&difference.notes) {
        let _ = writeln!(text, "  because {reason}");
    }
    for op in &difference.ops {
        let op = serde_json::to_string(op).unwrap_or_default();
        let _ = writeln!(text, "  run {op}");
    }
    for path in &difference.changed_files {
        let _ = writeln!(text, "  write {path}");
    }
    for path in &difference.removed_files {
        let _ = writeln!(text, "  remove {path}");
    }
    text
}

fn json(difference: &Diff) -> serde_json::Value {
    serde_json::json!({
        "verdict": difference.verdict,
        "reasons": difference.reasons,
        "notes": difference.notes,
        "ops": difference.ops,
        "changedFiles": difference.changed_files,
        "removedFiles": difference.removed_files,
    })
}

fn minor_version(text: &str) -> Result<(u16, u16), String> {
    let numbers = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    numbers.ok_or_else(|| "write MAJOR.MINOR, e.g. 3.4".to_owned())
}
