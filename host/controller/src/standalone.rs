//! Standalone mode: the same stages with directories as the source and one local HAProxy behind an agent's socket. It
//! publishes HAProxyPodsDiscovered and BecameLeader itself, so scheduler and gate run unchanged.

mod epoch;
mod once;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use haptic_haproxy::check::Checker;
use haptic_model::Finding;
use haptic_modules::{Limits, Modules};
use haptic_plugins::PluginHost;
use haptic_store::OpenDirectoryError;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    agent_port::{AgentError, Connect, PlanDocument},
    agents,
    bus::{BusTotals, EventBus},
    check::Checkers,
    clock::WallClock,
    cluster::{Debugged, Health, SharedRegistry},
    commentator::History,
    core::{ActiveCore, fingerprint},
    events::{Correlation, Event},
    feed::{FeedError, FirstLoad, GateParts, Patience, SourceFindings},
    iteration::{Parts, wire},
    metrics::Metrics,
    overview::{IterationFacts, ProcessFacts},
    plugin_loader::{FETCH_PATIENCE, FetchingError, PluginLoader, fetching},
    pod::{Endpoint, Pod},
    quarantine::Quarantine,
    source::Directories,
    standalone::once::{OncePass, OnceReport},
    status::tell_of_plugins,
    supervisor::{IterationError, Supervisor},
    traces::Traces,
};

pub use epoch::EpochError;
pub use once::{OnceError, OnceReport as StandaloneReport};

/// The number of the one iteration, for health.
const ITERATION: u64 = 1;
/// The name of the one pod.
const POD: &str = "local";

pub struct StandaloneOptions {
    /// In order of importance: of an object that several declare, the first counts.
    pub dirs: Vec<PathBuf>,
    /// Holds `epoch` and `status/`.
    pub state_dir: PathBuf,
    /// One for each HAProxy minor version that is to judge renders.
    pub checkers: Vec<Checker>,
    /// Version of the HAProxy that the agent runs.
    pub haproxy: (u16, u16),
    /// Where the agent listens.
    pub agent_socket: PathBuf,
    pub plugin_host: Arc<PluginHost>,
    /// Plugin modules that come with the binary, by the name that manifests use.
    pub builtin_plugins: BTreeMap<String, Bytes>,
    pub run: RunMode,
    pub clock: WallClock,
    pub history: History,
    pub health: Health,
    pub debugged: Debugged,
    pub traces: Traces,
    /// Ends the run cleanly.
    pub stop: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunMode {
    /// Until it is told to stop.
    Serve,
    /// One full pass: render, validate, deploy, the acknowledgement and the gate's verdict.
    Once,
}

#[derive(Debug, Error)]
pub enum StandaloneError {
    #[error(transparent)]
    Directories(#[from] OpenDirectoryError),
    #[error("reading the manifests failed")]
    Feed(#[from] FeedError),
    /// Only with [`RunMode::Once`]; a serving run waits for a better configuration.
    #[error("the configuration is not accepted: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    ConfigInvalid(Vec<Finding>),
    #[error("asking the local agent for its state failed")]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Modules(#[from] FetchingError),
    #[error(transparent)]
    Epoch(#[from] EpochError),
    #[error(transparent)]
    Iteration(#[from] IterationError),
    #[error(transparent)]
    Once(#[from] OnceError),
    #[error("it was stopped before its pass was complete")]
    Stopped,
}

/// Runs until `stop` is cancelled, or for one pass.
///
/// # Errors
/// When the iteration cannot start, a stage ends early, or the one pass did not succeed.
pub async fn run_standalone(
    options: StandaloneOptions,
    registry: &SharedRegistry,
) -> Result<Option<OnceReport>, StandaloneError> {
    let totals = BusTotals::default();
    let bus = EventBus::counted(&totals);
    let metrics = {
        let mut registry = registry.write();
        registry.register_collector(Box::new(options.plugin_host.metrics()));
        registry.register_collector(Box::new(totals.clone()));
        Metrics::register(&mut registry)
    };
    // Who is alone leads.
    metrics.set_leads(true);
    let findings = Arc::new(watch::Sender::default());
    let modules = fetching(&options.state_dir)?;
    let gate = GateParts {
        check: Arc::new(Checkers::new(options.checkers)),
        loader: PluginLoader::new(options.plugin_host, options.builtin_plugins, modules.clone()),
        haproxy: options.haproxy,
        clock: options.clock.clone(),
        fetch_patience: match options.run {
            RunMode::Serve => FETCH_PATIENCE,
            RunMode::Once => Limits::default().total,
        },
        plugins: Arc::default(),
    };
    let status_folder = options.state_dir.join("status");
    let stop = options.stop.child_token();
    let mut supervisor = Supervisor::default();
    supervisor.spawn("ModuleFetcher", fetch_until(stop.clone(), modules));

    let overview = options.debugged.overview().clone();
    overview.begin(ProcessFacts {
        identity: "standalone".into(),
        clock: options.clock.clone(),
        manifests: findings.subscribe(),
        plugins: gate.plugins.subscribe(),
        standing: None,
    });
    let health = options.health.iteration(ITERATION);
    let rejected = |mistakes: &[Finding]| {
        overview.waits(mistakes);
        rejected(mistakes, options.run)
    };
    let first = first_load(&options.dirs, rejected, &gate, &findings, &status_folder, &mut supervisor, &stop).await?;
    let Some(FirstLoad { start, accepted }) = first else { return stopped_early(options.run) };
    tracing::info!(target: "haptic::config", "{} is accepted and serves", accepted.core.name);

    // Leadership and discovery, which a cluster decides, are facts here.
    let connect = agents::connect(None);
    let pod = Pod {
        name: POD.into(),
        uid: "".into(),
        endpoint: Endpoint::Unix(options.agent_socket.clone()),
        haproxy: Some(options.haproxy),
    };
    let epoch = take_epoch(&connect, &pod, &options.state_dir).await?;

    let quarantine = Arc::new(Quarantine::default());
    let snapshot = accepted.core.store.lock().snapshot();
    quarantine.add(accepted.refused, |object| fingerprint(&snapshot, object));
    let core = ActiveCore::new(Arc::new(accepted.core));
    let warnings = accepted.warnings;
    let observer = overview.observe(&bus, options.clock.clone());
    supervisor.spawn("Overview", observer.run());
    overview.serves(IterationFacts { number: ITERATION, core: core.clone(), cluster: None });
    let parts = Parts {
        start,
        core: core.clone(),
        quarantine,
        gate,
        connect,
        clock: options.clock,
        findings,
        status_folder,
        history: options.history,
        metrics,
        traces: options.traces,
        stop: stop.clone(),
    };
    wire(parts, &bus, &mut supervisor);
    let once = (options.run == RunMode::Once).then(|| OncePass::observe(&bus));
    publish_facts(&bus, pod, epoch);
    health.serving();
    if !warnings.is_empty() {
        let (correlation, name) = (bus.correlate(), core.get().name.clone());
        bus.publish(Event::ConfigValidated { correlation, name, warnings: warnings.into() });
    }
    bus.start();

    let outcome = tokio::select! {
        // First, because stages end by themselves once they are told to stop.
        biased;
        () = options.stop.cancelled() => Ok(None),
        ended = supervisor.ended_early() => Err(ended.into()),
        failure = bus.failed() => Err(IterationError::from(failure).into()),
        report = pass(once) => report.map(Some).map_err(StandaloneError::from),
    };
    stop.cancel();
    bus.close();
    let stopped = supervisor.stopped().await;
    match outcome {
        Ok(None) if options.run == RunMode::Once => Err(StandaloneError::Stopped),
        Ok(report) => stopped.map(|()| report).map_err(StandaloneError::from),
        Err(error) => Err(error),
    }
}

/// The first configuration passes the load gate before any stage runs; HAProxy serves its last known good meanwhile.
/// `None` = it was told to stop.
async fn first_load(
    dirs: &[PathBuf],
    rejected: impl Fn(&[Finding]) -> Patience,
    gate: &GateParts,
    findings: &SourceFindings,
    status_folder: &Path,
    supervisor: &mut Supervisor,
    stop: &CancellationToken,
) -> Result<Option<FirstLoad>, StandaloneError> {
    let source = Box::new(Directories::open(dirs)?);
    let plugins = tell_of_plugins(gate.plugins.subscribe(), gate.clock.clone(), status_folder.to_owned());
    tokio::select! {
        // First, because the fetcher ends by itself once it is told to stop.
        biased;
        () = stop.cancelled() => Ok(None),
        ended = supervisor.ended_early() => Err(ended.into()),
        never = plugins => match never {},
        first = FirstLoad::wait(source, gate, findings, rejected) => {
            first?.map(Some).map_err(StandaloneError::ConfigInvalid)
        }
    }
}

async fn fetch_until(stop: CancellationToken, modules: Arc<Modules>) {
    tokio::select! {
        () = modules.run() => {}
        () = stop.cancelled() => {}
    }
}

fn publish_facts(bus: &EventBus, pod: Pod, epoch: u64) {
    let correlation: Correlation = bus.correlate();
    bus.publish(Event::BecameLeader { correlation, epoch });
    bus.publish(Event::HAProxyPodsDiscovered { correlation, pods: [pod].into() });
    bus.publish(Event::IndexSynchronized { correlation });
}

async fn take_epoch(connect: &Connect, pod: &Pod, state_dir: &Path) -> Result<u64, StandaloneError> {
    let agent = connect(&pod.endpoint);
    let seen = agent.state(PlanDocument::Without).await?.token.leader_epoch;
    Ok(epoch::take(state_dir, seen).await?)
}

fn rejected(mistakes: &[Finding], run: RunMode) -> Patience {
    if run == RunMode::Once {
        return Patience::GiveUp;
    }
    for mistake in mistakes {
        tracing::error!(target: "haptic::config", code = %mistake.code, "{mistake}");
    }
    tracing::error!(target: "haptic::config", "waiting for a configuration that is accepted");
    Patience::WaitForChange
}

fn stopped_early(run: RunMode) -> Result<Option<OnceReport>, StandaloneError> {
    match run {
        RunMode::Serve => Ok(None),
        RunMode::Once => Err(StandaloneError::Stopped),
    }
}

async fn pass(once: Option<OncePass>) -> Result<OnceReport, OnceError> {
    match once {
        Some(once) => once.complete().await,
        None => std::future::pending().await,
    }
}
