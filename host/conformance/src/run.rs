//! A run of the harness from start to report.

use std::{fs, io, path::PathBuf};

use haptic_plugins::HostError;
use thiserror::Error;

use crate::{
    CHECKS, Project,
    case::{CaseError, Expectations},
    checks::Context,
    probe::{self, Probe},
    report::{CheckResult, Group, ModuleFacts, Report, Summary},
};

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Runs only the cases and checks whose name has this in it.
    pub filter: Option<String>,
    pub pace: Pace,
    /// Writes what comes out of the cases as what they expect. The checks do not run.
    pub bless: bool,
    /// A folder for compiled modules, so that a large one is compiled once and not in every run.
    pub cache_dir: Option<PathBuf>,
}

/// How much is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    #[default]
    Full,
    /// A fifth of the variants: for every save of a file.
    Quick,
}

/// The harness could not run, which says nothing about the plugin.
#[derive(Debug, Error)]
pub enum RunError {
    #[error("reading the component {path}; build it with `haptic plugin build`, or name another with --module FILE")]
    Module { path: PathBuf, source: io::Error },
    #[error("starting the plugin host")]
    Host(#[from] HostError),
    #[error("writing an expectation")]
    Case(#[from] CaseError),
    #[error("`{filter}` is in the name of no case and no check; cases: {cases}; checks: {checks}")]
    NothingToRun { filter: String, cases: String, checks: String },
}

/// Runs every case and every check. Blocks, for seconds to minutes. What is wrong with the plugin is in the report.
pub fn run(project: &Project, options: &Options) -> Result<Report, RunError> {
    let chosen = |name: &str| options.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    let cases: Vec<_> = project.cases.iter().filter(|case| chosen(&case.name)).collect();
    let checks: Vec<_> = CHECKS.iter().filter(|check| !options.bless && chosen(check.name)).collect();
    if let Some(filter) = &options.filter
        && cases.is_empty()
        && checks.is_empty()
    {
        let cases = project.cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>().join(", ");
        let checks = CHECKS.iter().map(|check| check.name).collect::<Vec<_>>().join(", ");
        return Err(RunError::NothingToRun { filter: filter.clone(), cases, checks });
    }
    let bytes =
        fs::read(&project.module).map_err(|source| RunError::Module { path: project.module.clone(), source })?;
    let probe = Probe::new(project, bytes, options.cache_dir.clone())?;
    let mut results = Vec::new();
    let mut costs = Vec::new();
    let expectations = if options.bless { Expectations::Write } else { Expectations::Compare };
    for case in cases {
        let (ran, elapsed) = probe::time(|| case.run(&probe, expectations));
        let ran = ran?;
        costs.extend(ran.cost);
        let (status, says) = (ran.said.status, ran.said.says);
        results.push(CheckResult { group: Group::Case, name: case.name.clone(), status, says, elapsed });
    }
    if !checks.is_empty() {
        let ctx = Context::new(&probe, options.pace, &costs);
        for check in checks {
            let (said, elapsed) = probe::time(|| check.run(&ctx));
            let (status, says) = (said.status, said.says);
            results.push(CheckResult { group: Group::Check, name: check.name.to_owned(), status, says, elapsed });
        }
    }
    Ok(Report {
        plugin: project.name.clone(),
        haptic: env!("CARGO_PKG_VERSION"),
        module: probe.inspection.as_ref().ok().map(ModuleFacts::from),
        summary: Summary::of(&results),
        results,
        costs,
    })
}
