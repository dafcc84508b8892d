//! `haptic preflight`: what a release or manifests would make of the objects that are there, before they are installed.

mod live;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::{ArgGroup, Args};
use haptic_controller::{check::Cancellation, pipeline::Output};
use haptic_model::{CONFIG_PATH, Finding, Severity};
use haptic_render::Memo;
use haptic_store::{DirectorySource, RawChange};

use crate::{
    cli, exit,
    offline::{self, HaproxyChoice, Loaded},
    preflight::live::{Live, ResourceLine},
    rbac::ConfigManifests,
};

/// Say what a configuration would make of the objects that are there, before it is installed.
///
/// `helm template haptic charts/haptic --values mine.yaml > release.yaml`, then
/// `haptic preflight --config-file release.yaml --kubeconfig ~/.kube/config` reads what the configuration watches as the
/// user of the kubeconfig (nothing is written), renders it, and asks every validator and `haproxy -c`.
/// `--resources DIR` takes a dump instead: `kubectl get ingresses,services,endpointslices,secrets -A -o yaml > DIR/all.yaml`.
///
/// Exit codes: 0 = it would serve every object, 1 = the configuration would be refused, or an object left out, 2 = it
/// could not run.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("objects").required(true).args(["resources", "kubeconfig"]))]
pub(crate) struct PreflightOptions {
    #[command(flatten)]
    manifests: ConfigManifests,
    /// Folder or file of dumped objects; may be given several times
    #[arg(long, value_name = "DIR", num_args = 1..)]
    resources: Vec<PathBuf>,
    /// Read the objects from this cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; default: its current one
    #[arg(long, requires = "kubeconfig", value_name = "NAME")]
    context: Option<String>,
    /// Seconds that reading the objects from the cluster may take
    #[arg(long, requires = "kubeconfig", value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    #[command(flatten)]
    haproxy: HaproxyChoice,
}

// === impl PreflightOptions ===

impl PreflightOptions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Some(objects) = self.manifests.read()? else { return Ok(ExitCode::from(exit::REFUSED)) };
        let candidate = match objects.candidate() {
            Ok(candidate) => candidate,
            Err(findings) => return Ok(refused(&findings)),
        };
        let (binary, checkers) = self.haproxy.checkers()?;
        let haproxy = (binary.minor.major, binary.minor.minor);
        let loaded = Loaded { objects: dumped(&self.resources)?, candidate };
        let mut prepared = match loaded.prepare(&offline::plugin_loader()?) {
            Ok(prepared) => prepared,
            Err(findings) => return Ok(refused(&findings)),
        };
        let mut missing = Vec::new();
        let lines = match self.kubeconfig {
            Some(kubeconfig) => {
                let live = Live { kubeconfig, context: self.context, patience: Duration::from_secs(self.patience) };
                let (lines, findings) = live.read(&prepared.resources, &mut prepared.store)?;
                missing = findings;
                lines
            }
            None => prepared.resources.iter().map(|spec| ResourceLine::of_dump(spec, &prepared.store)).collect(),
        };
        cli::print(&format!(
            "HAProxy {} checks\n{}",
            binary.version,
            lines.iter().map(ToString::to_string).collect::<String>()
        ));
        if !missing.is_empty() {
            return Ok(refused(&missing));
        }
        let located = |findings| loaded.candidate.sources.all_in_manifests(findings);
        let strict = prepared.pipeline().execute_strict(
            &prepared.store.snapshot(),
            haproxy,
            &checkers,
            offline::now(),
            &mut Memo::default(),
            &Cancellation::default(),
        );
        match strict {
            Err(error) => Ok(refused(&located(error.findings))),
            Ok(output) => {
                cli::print(&summary(&output));
                let mut findings = output.findings;
                findings.extend(output.refused.into_iter().map(|refused| refused.finding));
                findings.extend(prepared.store.findings());
                Ok(told(&located(findings)))
            }
        }
    }
}

/// What a dump holds; nothing without one.
fn dumped(resources: &[PathBuf]) -> anyhow::Result<Vec<RawChange>> {
    if resources.is_empty() {
        return Ok(Vec::new());
    }
    let mut source = DirectorySource::open_files(resources.iter().cloned()).context("opening the dumped objects")?;
    let scan = source.scan();
    offline::complain_all(&scan.findings);
    Ok(scan.objects.values().map(|object| RawChange::Upsert(Arc::clone(object))).collect())
}

fn summary(output: &Output) -> String {
    let rendered = &output.rendered;
    let size = rendered.files.get(CONFIG_PATH).map_or(0, |config| config.content.len());
    let left_out = rendered.failed_units.len() + output.refused.len();
    format!(
        "output: {} backends, {} files, {size} bytes of haproxy.cfg; {left_out} units left out\n",
        rendered.plan.backends.len(),
        rendered.files.len() - 1,
    )
}

/// Warnings alone are no refusal.
fn told(findings: &[Finding]) -> ExitCode {
    offline::complain_all(findings);
    let wrong = findings.iter().any(|finding| finding.severity == Severity::Error);
    if wrong { ExitCode::from(exit::REFUSED) } else { ExitCode::SUCCESS }
}

fn refused(findings: &[Finding]) -> ExitCode {
    offline::complain_all(findings);
    ExitCode::from(exit::REFUSED)
}
