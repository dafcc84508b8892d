//! The StatusApplier of standalone mode: what a cluster keeps in the status of objects, as YAML files a person reads.
//!
//! `config.yaml` (conditions, last reconciliation), `pods.yaml` (what each pod runs and why it reloaded),
//! `objects.yaml` (what is wrong with which object, where, and what to do), `plugins.yaml` (what each plugin is and
//! costs). Files are replaced as a whole, only when their text changes, and off the path of a change. No secret is in
//! them: findings and reports carry none.

pub(crate) mod document;
mod files;
pub(crate) mod plugins;

use std::{collections::BTreeMap, convert::Infallible, path::PathBuf, sync::Arc, time::Duration};

use haptic_model::Finding;
use tokio::{sync::watch, time::Instant};

use crate::{
    bus::{EventBus, Subscription},
    clock::{WallClock, until},
    core::ActiveCore,
    events::{Event, EventKind, GateVerdict},
    feed::ManifestFindings,
    plugin_loader::PluginState,
    pod::{PodOutcome, PodReport},
    status::{
        document::{Condition, ConfigStatus, LastReconciliation, ObjectsStatus, PodStatus},
        files::StatusFiles,
        plugins::PluginStatuses,
    },
};

/// Writes of a burst of changes come together.
const GATHER: Duration = Duration::from_millis(100);

pub struct StatusApplier {
    events: Subscription,
    manifests: watch::Receiver<ManifestFindings>,
    plugins: watch::Receiver<Arc<Vec<PluginState>>>,
    plugin_statuses: PluginStatuses,
    core: ActiveCore,
    clock: WallClock,
    files: StatusFiles,
    config: ConfigStatus,
    pods: BTreeMap<Arc<str>, PodStatus>,
    render_findings: Vec<Finding>,
    refusal: Vec<Finding>,
    due: Option<Instant>,
}

// === impl StatusApplier ===

impl StatusApplier {
    pub fn new(
        bus: &Arc<EventBus>,
        core: ActiveCore,
        manifests: watch::Receiver<ManifestFindings>,
        plugins: watch::Receiver<Arc<Vec<PluginState>>>,
        clock: WallClock,
        folder: PathBuf,
    ) -> Self {
        let kinds = [
            EventKind::ConfigValidated,
            EventKind::ConfigInvalid,
            EventKind::TemplateRendered,
            EventKind::ReconciliationFailed,
            EventKind::ReconciliationCompleted,
            EventKind::RenderGateCompleted,
            EventKind::InstanceDeploymentFailed,
            EventKind::DeploymentCompleted,
        ];
        let config = ConfigStatus::new(core.get().name.clone(), clock.timestamp());
        Self {
            events: bus.subscribe("StatusApplier", &kinds),
            manifests,
            plugins,
            plugin_statuses: PluginStatuses::default(),
            core,
            clock,
            files: StatusFiles::new(folder),
            config,
            pods: BTreeMap::new(),
            render_findings: Vec::new(),
            refusal: Vec::new(),
            due: Some(Instant::now()),
        }
    }

    /// Ends when the bus is closed and the last state is written.
    pub async fn run(mut self) {
        let (mut manifests_open, mut plugins_open) = (true, true);
        loop {
            let due = self.due;
            tokio::select! {
                event = self.events.next() => match event {
                    Some(event) => self.take(event),
                    None => break,
                },
                changed = self.manifests.changed(), if manifests_open => manifests_open = changed.is_ok(),
                changed = self.plugins.changed(), if plugins_open => plugins_open = changed.is_ok(),
                () = until(due) => {
                    self.write().await;
                    continue;
                }
            }
            self.due.get_or_insert_with(|| Instant::now() + GATHER);
        }
        self.write().await;
    }

    fn take(&mut self, event: Event) {
        let now = self.clock.timestamp();
        match event {
            Event::ConfigValidated { name, warnings, .. } => {
                self.config.config = name;
                self.config.accepted = Condition::accepted(&warnings, &self.config.accepted, now);
            }
            Event::ConfigInvalid { findings, .. } => {
                self.config.accepted = Condition::rejected(&findings, &self.config.accepted, now);
            }
            Event::TemplateRendered { render, .. } => {
                self.config.observed_plan = Some(render.plan());
                self.render_findings.clone_from(&render.output.findings);
                self.config.render_error = None;
            }
            Event::ReconciliationFailed { correlation, error, trigger } => {
                self.config.render_error = Some(document::RenderError {
                    phase: error.phase,
                    since: self.config.render_error.as_ref().map_or(now, |known| known.since),
                    findings: error.findings.iter().map(ToString::to_string).collect(),
                });
                self.config.last_reconciliation =
                    Some(LastReconciliation::failed(correlation, &trigger, error.phase, now));
            }
            Event::ReconciliationCompleted { correlation, duration, render } => {
                self.config.last_reconciliation =
                    Some(LastReconciliation::completed(correlation, &render, duration, now));
            }
            Event::RenderGateCompleted { outcome, .. } => {
                self.refusal = match &outcome.verdict {
                    GateVerdict::Refused { findings } => findings.clone(),
                    _ => Vec::new(),
                };
                self.config.validated = Condition::judged(&outcome, &self.refusal, &self.config.validated, now);
            }
            Event::InstanceDeploymentFailed { report, .. } => self.pod(&report),
            Event::DeploymentCompleted { reports, .. } => reports.iter().for_each(|report| self.pod(report)),
            _ => {}
        }
    }

    fn pod(&mut self, report: &PodReport) {
        let now = self.clock.timestamp();
        let status = self.pods.entry(report.pod.clone()).or_insert_with(|| PodStatus::new(now));
        match report.outcome {
            PodOutcome::Failed => status.failed(report, now),
            PodOutcome::Serving | PodOutcome::Scheduled => status.succeeded(report, now),
        }
    }

    async fn write(&mut self) {
        self.due = None;
        let manifests = self.manifests.borrow_and_update().clone();
        let findings = manifests.all().chain(&self.render_findings).chain(&self.refusal);
        let objects = ObjectsStatus::of(findings);
        let core = self.core.get();
        let states = self.plugins.borrow_and_update().clone();
        let plugins = self.plugin_statuses.list(&states, Some(&core.plugins), self.clock.timestamp());
        self.files.write("config.yaml", &self.config).await;
        self.files.write("pods.yaml", &self.pods).await;
        self.files.write("objects.yaml", &objects).await;
        self.files.write("plugins.yaml", &plugins).await;
    }
}

/// Writes what is known about plugins as long as no configuration serves: why one is waited for stands there.
pub async fn tell_of_plugins(
    mut plugins: watch::Receiver<Arc<Vec<PluginState>>>,
    clock: WallClock,
    folder: PathBuf,
) -> Infallible {
    let mut files = StatusFiles::new(folder);
    let mut statuses = PluginStatuses::default();
    loop {
        let states = plugins.borrow_and_update().clone();
        if !states.is_empty() {
            files.write("plugins.yaml", &statuses.list(&states, None, clock.timestamp())).await;
        }
        if plugins.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests;
