//! `haptic plugin bench`: what a plugin costs.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Args;
use haptic_conformance::{BenchOptions as Settings, Project, bench};

use crate::{
    cli,
    plugin::{Output, test::open},
};

#[derive(Args, Debug)]
pub(crate) struct BenchOptions {
    /// The project, or a component alone
    #[arg(default_value = ".", value_name = "DIR|FILE")]
    plugin: PathBuf,
    /// The component, instead of the one that plugin.yaml names
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// Measure the check of this content, instead of content of several sizes made from the cases
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

// === impl BenchOptions ===

impl BenchOptions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let project = if self.plugin.is_file() {
            Project::of_module(&self.plugin)
        } else {
            open(&self.plugin, self.module.as_deref())?
        };
        let scratch = tempfile::tempdir().context("making a folder for compiled modules")?;
        let costs = bench(&project, &Settings { input: self.input, scratch: scratch.path().to_owned() })?;
        match self.output {
            Output::Text => cli::print(&costs.text()),
            Output::Json => cli::print(&format!("{}\n", serde_json::to_string_pretty(&costs)?)),
        }
        Ok(ExitCode::SUCCESS)
    }
}
