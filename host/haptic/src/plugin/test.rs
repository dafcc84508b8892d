//! `haptic plugin test`: the conformance harness on a project.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use haptic_conformance::{Options, Pace, Project, Report, junit, run, text};

use crate::{cli, exit, plugin::cache_dir};

#[derive(Args, Debug)]
pub(crate) struct TestOptions {
    /// The project: a folder with plugin.yaml, or with cases/ and --module
    #[arg(default_value = ".", value_name = "DIR")]
    project: PathBuf,
    /// The component, instead of the one that plugin.yaml names
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    output: TestOutput,
    /// Write the output to this file, and the text to the terminal
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Run only the cases and checks with this in their name
    #[arg(long, value_name = "NAME")]
    filter: Option<String>,
    /// Try a fifth of the variants
    #[arg(long)]
    quick: bool,
    /// Write what comes out of the cases as what they expect; the checks do not run
    #[arg(long, conflicts_with_all = ["quick", "report"])]
    bless: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum TestOutput {
    #[default]
    Text,
    Json,
    Junit,
}

// === impl TestOptions ===

impl TestOptions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let project = open(&self.project, self.module.as_deref())?;
        let options = Options {
            filter: self.filter,
            pace: if self.quick { Pace::Quick } else { Pace::Full },
            bless: self.bless,
            cache_dir: cache_dir(),
        };
        let report = run(&project, &options)?;
        let output = self.output.write(&report)?;
        match &self.report {
            Some(file) => {
                fs::write(file, output).with_context(|| format!("writing {}", file.display()))?;
                cli::print(&text(&report));
            }
            None => cli::print(&output),
        }
        Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::from(exit::REFUSED) })
    }
}

// === impl TestOutput ===

impl TestOutput {
    fn write(self, report: &Report) -> anyhow::Result<String> {
        Ok(match self {
            Self::Text => text(report),
            Self::Json => serde_json::to_string_pretty(report)? + "\n",
            Self::Junit => junit(report)?,
        })
    }
}

/// The project in `folder`, with another component if one is named.
pub(super) fn open(folder: &Path, module: Option<&Path>) -> anyhow::Result<Project> {
    Ok(match module {
        Some(module) => Project::open_with_module(folder, module)?,
        None => Project::open(folder)?,
    })
}
