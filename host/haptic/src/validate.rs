//! `haptic validate`: says the same as the controller would, offline.

mod report;

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use haptic_controller::{
    check::Cancellation,
    validation_tests::{TestResults, TestRun, TestSelection},
};
use haptic_model::{Finding, Severity};
use haptic_render::Memo;

use crate::{
    cli, exit,
    offline::{self, HaproxyChoice, Loaded, Manifests},
};

#[derive(Args, Debug)]
pub(crate) struct ValidateOptions {
    #[command(flatten)]
    manifests: Manifests,
    #[command(flatten)]
    haproxy: HaproxyChoice,
    /// Run only this validation test; may be given several times
    #[arg(long = "test", value_name = "NAME")]
    tests: Vec<String>,
    /// How results are printed
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
    /// Print what each test rendered, certificates left out
    #[arg(long)]
    dump_rendered: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    #[default]
    Text,
    Json,
    Yaml,
    Junit,
}

// === impl ValidateOptions ===

impl ValidateOptions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let loaded = match self.manifests.load()? {
            Ok(loaded) => loaded,
            Err(findings) => {
                offline::complain_all(&findings);
                return Ok(ExitCode::from(exit::REFUSED));
            }
        };
        let (results, findings) = self.judge(&loaded)?;
        match self.output {
            Output::Text => cli::print(&report::text(&results)),
            Output::Json => cli::print(&format!("{}\n", serde_json::to_string_pretty(&results)?)),
            Output::Yaml => cli::print(&serde_norway::to_string(&results)?),
            Output::Junit => cli::print(&report::junit(&results)),
        }
        if self.dump_rendered {
            cli::complain(&report::rendered(&results));
        }
        offline::complain_all(&findings);
        let refused = findings.iter().any(|finding| finding.severity == Severity::Error);
        Ok(if refused || results.failed_tests > 0 { ExitCode::from(exit::REFUSED) } else { ExitCode::SUCCESS })
    }

    /// The tests, and then the strict path over the objects that are in the folders.
    fn judge(&self, loaded: &Loaded) -> anyhow::Result<(TestResults, Vec<Finding>)> {
        let (binary, checkers) = self.haproxy.checkers()?;
        let haproxy = (binary.minor.major, binary.minor.minor);
        let loader = offline::plugin_loader()?;
        let prepared = match loaded.prepare(&loader) {
            Ok(prepared) => prepared,
            Err(findings) => return Ok((report::none(), findings)),
        };
        let cancelled = Cancellation::default();
        let selection = match self.tests.as_slice() {
            [] => TestSelection::All,
            names => TestSelection::Named(names.to_vec()),
        };
        let run = TestRun {
            candidate: &loaded.candidate,
            renderer: prepared.renderer.clone(),
            resources: &prepared.resources,
            plugins: prepared.plugins.clone(),
            check: &checkers,
            haproxy,
            now: offline::now(),
            cancelled: &cancelled,
        };
        let results = run.run(&selection);
        let snapshot = prepared.store.snapshot();
        let strict = prepared.pipeline().execute_strict(
            &snapshot,
            haproxy,
            &checkers,
            offline::now(),
            &mut Memo::default(),
            &cancelled,
        );
        let mut findings = match strict {
            Ok(output) => {
                let mut findings = output.findings;
                findings.extend(output.refused.into_iter().map(|refused| refused.finding));
                findings
            }
            Err(error) => error.findings,
        };
        findings.extend(prepared.store.findings());
        Ok((results, loaded.candidate.sources.all_in_manifests(findings)))
    }
}
