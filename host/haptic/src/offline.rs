//! What `validate`, `render`, `diff` and `explain` share: manifests from directories, judged as the controller would.

use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use bytes::Bytes;
use clap::Args;
use haptic_controller::{
    check::{CheckBounds, Checkers},
    config::{Candidate, ConfigObjects},
    pipeline::Pipeline,
    plugin_loader::PluginLoader,
    quarantine::LeftOut,
};
use haptic_haproxy::{
    check::{CheckLimits, Checker, Starter},
    version::{HaproxyBinary, Search},
};
use haptic_model::{Finding, FindingCode, Rendered, ports::Now};
use haptic_modules::{Backoff, Fetcher, Limits, Modules, Transport};
use haptic_plugins::PluginSet;
use haptic_render::{Memo, Renderer};
use haptic_store::{DirectorySource, RawChange, Store, WatchedResource};

use crate::{builtin, cli, plugin};

#[derive(Args, Debug)]
pub(crate) struct Manifests {
    /// Folder of manifests; may be given several times, of an object in several the first counts
    #[arg(long = "standalone", required = true, value_name = "DIR")]
    pub(crate) dirs: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct HaproxyChoice {
    /// The HAProxy to use; default: the one in PATH, else the newest in HAPTIC_HAPROXY_DIR
    #[arg(long, value_name = "PATH")]
    haproxy: Option<PathBuf>,
}

/// Everything that directories hold, and the configuration that its objects make.
pub(crate) struct Loaded {
    pub(crate) objects: Vec<RawChange>,
    pub(crate) candidate: Candidate,
}

/// Compiled and filled.
pub(crate) struct Prepared {
    pub(crate) renderer: Arc<Renderer>,
    pub(crate) plugins: Arc<PluginSet>,
    pub(crate) resources: Vec<WatchedResource>,
    pub(crate) store: Store,
    check: CheckBounds,
}

// === impl Manifests ===

impl Manifests {
    /// Reads the folders. Mistakes in manifests are printed; those of the configuration end it.
    pub(crate) fn load(&self) -> anyhow::Result<Result<Loaded, Vec<Finding>>> {
        let mut source = DirectorySource::open(self.dirs.iter().cloned())?;
        let scan = source.scan();
        for finding in &scan.findings {
            cli::complain(&format!("{finding}"));
        }
        let objects = scan.changes.iter().filter_map(|change| match change {
            RawChange::Upsert(object) => Some(Arc::clone(object)),
            RawChange::Delete(_) => None,
        });
        let candidate = ConfigObjects::pick(objects).candidate();
        Ok(candidate.map(|candidate| Loaded { objects: scan.changes, candidate }))
    }
}

// === impl Loaded ===

impl Loaded {
    /// Compiles and fills a store: what a render of these manifests needs.
    pub(crate) fn prepare(&self, loader: &PluginLoader) -> Result<Prepared, Vec<Finding>> {
        let candidate = &self.candidate;
        let located = |findings| candidate.sources.all_in_manifests(findings);
        let basics = candidate.check_basics();
        if !basics.is_empty() {
            return Err(located(basics));
        }
        fetch_once(loader, candidate).map_err(|error| {
            vec![Finding::error(FindingCode::PluginFailed, format!("fetching plugin modules: {error:#}"))]
        })?;
        let loading = loader.load(candidate);
        complain_all(&loading.warnings);
        let plugins = loading.set?;
        let renderer = Renderer::compile(candidate.templates.clone(), plugins.clone()).map_err(located)?;
        let resources = candidate.resources().map_err(located)?;
        let mut store = Store::new(resources.clone());
        store.sync(&self.objects);
        let check = candidate.settings.check;
        Ok(Prepared { renderer: Arc::new(renderer), plugins, resources, store, check })
    }

    /// The render, every validator included, but not `haproxy -c`.
    pub(crate) fn render(&self, haproxy: (u16, u16)) -> anyhow::Result<Result<Rendered, Vec<Finding>>> {
        Ok(self.render_and_keep(haproxy)?.map(|(rendered, _)| rendered))
    }

    /// As [`Self::render`], with what it was rendered from.
    pub(crate) fn render_and_keep(
        &self,
        haproxy: (u16, u16),
    ) -> anyhow::Result<Result<(Rendered, Prepared), Vec<Finding>>> {
        let loader = plugin_loader()?;
        Ok(self.prepare(&loader).and_then(|prepared| {
            let snapshot = prepared.store.snapshot();
            let mut memo = Memo::default();
            let output = prepared.pipeline().execute(&snapshot, haproxy, LeftOut::default(), &mut memo, now());
            let output = output.map_err(|error| self.candidate.sources.all_in_manifests(error.findings))?;
            let mut rendered = output.rendered;
            rendered.findings = self.candidate.sources.all_in_manifests(output.findings);
            rendered.findings.extend(prepared.store.findings());
            Ok((rendered, prepared))
        }))
    }
}

// === impl Prepared ===

impl Prepared {
    pub(crate) fn pipeline(&self) -> Pipeline {
        Pipeline { renderer: Arc::clone(&self.renderer), validators: self.plugins.clone(), check: self.check }
    }
}

// === impl HaproxyChoice ===

impl HaproxyChoice {
    pub(crate) fn any() -> Self {
        Self { haproxy: None }
    }

    pub(crate) fn of(haproxy: PathBuf) -> Self {
        Self { haproxy: Some(haproxy) }
    }

    pub(crate) fn find(&self) -> anyhow::Result<HaproxyBinary> {
        let path = env::var_os("PATH");
        let directory = haproxy_directory();
        let search =
            Search { explicit: self.haproxy.as_deref(), search_path: path.as_deref(), directory: directory.as_deref() };
        Ok(HaproxyBinary::find(search)?)
    }

    pub(crate) fn checkers(&self) -> anyhow::Result<(HaproxyBinary, Checkers)> {
        let binary = self.find()?;
        let checker = checker(&binary.path)?;
        Ok((binary, Checkers::new([checker])))
    }
}

/// Has checks started by this program again, whatever has become of its file since it was started.
pub(crate) fn checker(binary: &Path) -> anyhow::Result<Checker> {
    let checker = Checker::new(binary, CheckLimits::STANDARD)
        .with_context(|| format!("setting up the check by {}", binary.display()))?;
    let program = PathBuf::from("/proc/self/exe");
    Ok(checker.with_starter(Starter::Process { program, arguments: vec!["check-jail".to_owned()] }))
}

pub(crate) fn plugin_loader() -> anyhow::Result<PluginLoader> {
    let host = plugin::host()?;
    let modules = builtin::modules().into_iter().map(|(name, bytes)| (name, Bytes::from_static(bytes))).collect();
    let fetcher = Fetcher::new(Transport::new(Limits::default())?, None);
    Ok(PluginLoader::new(Arc::new(host), modules, Modules::new(fetcher, Backoff::default())))
}

/// On a thread with a runtime of its own, which also ends there: who calls this may be in a runtime, or in none.
fn fetch_once(loader: &PluginLoader, candidate: &Candidate) -> anyhow::Result<()> {
    let fetch = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("starting a runtime").map(|runtime| runtime.block_on(loader.fetch_once(candidate)))
    };
    thread::scope(|scope| scope.spawn(fetch).join()).map_err(|_| anyhow::anyhow!("the work ended early"))?
}

pub(crate) fn now() -> Now {
    Now(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Prints findings, one a line, errors last.
pub(crate) fn complain_all(findings: &[Finding]) {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort();
    for finding in sorted {
        let severity = format!("{:?}", finding.severity).to_lowercase();
        cli::complain(&format!("{severity}: {finding}"));
    }
}

pub(crate) fn haproxy_directory() -> Option<PathBuf> {
    env::var_os("HAPTIC_HAPROXY_DIR").map(PathBuf::from).or_else(|| {
        let home = env::var_os("HOME")?;
        Some(Path::new(&home).join(".cache/haptic/haproxy/bin"))
    })
}
