//! `haptic plugin inspect`: what a component is, without running it.

use std::{fmt::Write as _, fs, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Args;
use haptic_plugins::Inspection;

use crate::{
    cli, exit,
    plugin::{self, Output},
};

#[derive(Args, Debug)]
pub(crate) struct InspectOptions {
    /// The component, a .wasm file
    file: PathBuf,
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

// === impl InspectOptions ===

impl InspectOptions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Self { file, output } = self;
        let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        // A module that was tested is compiled already; one in Python takes seconds.
        let host = plugin::host()?;
        let inspection = match host.inspect(&bytes) {
            Ok(inspection) => inspection,
            Err(reason) => {
                cli::complain(&format!("error: {} is not a plugin: {reason}", file.display()));
                return Ok(ExitCode::from(exit::REFUSED));
            }
        };
        match output {
            Output::Text => cli::print(&text(&inspection)),
            Output::Json => cli::print(&format!("{}\n", serde_json::to_string_pretty(&inspection)?)),
        }
        let loads = inspection.refused_imports.is_empty() && inspection.generation.is_some();
        Ok(if loads { ExitCode::SUCCESS } else { ExitCode::from(exit::REFUSED) })
    }
}

fn text(inspection: &Inspection) -> String {
    let mut text = format!("size        {} bytes\nsha256      {}\n", inspection.size, inspection.sha256);
    let generation = inspection.generation.as_deref().unwrap_or("none: it exports no contract of haptic:plugin");
    let _ = writeln!(text, "generation  {generation}");
    let contracts: Vec<String> = inspection.contracts.iter().map(ToString::to_string).collect();
    let _ = writeln!(text, "contracts   {}", contracts.join(", "));
    let purity = if inspection.pure { "yes: it imports only haptic:plugin/*" } else { "no: it imports WASI" };
    let _ = writeln!(text, "pure        {purity}");
    for (title, names) in [("imports", &inspection.imports), ("refused", &inspection.refused_imports)] {
        for name in names {
            let _ = writeln!(text, "{title:<11} {name}");
        }
    }
    for name in &inspection.functions {
        let _ = writeln!(text, "function    {name}");
    }
    text
}
