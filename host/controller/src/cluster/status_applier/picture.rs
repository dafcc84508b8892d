//! What is known, for all that is written: cheap to clone, and no more than two renders are held by it.

use std::sync::Arc;

use haptic_model::Finding;
use tokio::time::Instant;

use crate::{
    clock::Timestamp,
    cluster::{
        deployed::{Deployed, Standing},
        standing::ConfigStanding,
    },
    events::{Event, GateOutcome, GateVerdict},
    feed::ManifestFindings,
    pipeline::{PipelineError, Render},
    plugin_loader::PluginState,
};

#[derive(Clone, Debug, Default)]
pub(super) struct Picture {
    pub(super) standing: Arc<ConfigStanding>,
    pub(super) manifests: ManifestFindings,
    pub(super) plugins: Arc<Vec<PluginState>>,
    pub(super) deployed: Deployed,
    pub(super) newest: Option<Newest>,
    /// The newest render that every pod acknowledged.
    pub(super) settled: Option<Arc<Render>>,
    /// Why the newest input could not be rendered.
    pub(super) failed: Option<Arc<PipelineError>>,
    pub(super) judged: Option<Arc<GateOutcome>>,
    /// Counts up when everything is to be compared with the server again.
    pub(super) audit: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Newest {
    pub(super) render: Arc<Render>,
    /// Since when its plan is the newest.
    pub(super) since: Instant,
}

// === impl Picture ===

impl Picture {
    pub(super) fn take(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::HAProxyPodsDiscovered { pods, .. } => {
                self.deployed.discovered(&pods);
                self.settle(None);
            }
            Event::TemplateRendered { render, .. } => {
                let known = self.newest.as_ref().filter(|known| known.render.plan() == render.plan());
                let since = known.map_or_else(Instant::now, |known| known.since);
                self.newest = Some(Newest { render, since });
                self.failed = None;
                self.settle(None);
            }
            Event::ReconciliationFailed { error, .. } => self.failed = Some(error),
            // Verdicts wait in slots of their own, so that an older one may come late.
            Event::RenderGateCompleted { outcome, .. }
                if self.judged.as_ref().is_none_or(|known| known.seq <= outcome.seq) =>
            {
                self.judged = Some(outcome);
            }
            Event::DeploymentCompleted { render, reports, .. } => {
                reports.iter().for_each(|report| self.deployed.reported(report, now));
                self.settle(Some(&render));
            }
            Event::DriftPreventionTriggered { .. } => self.audit += 1,
            _ => {}
        }
    }

    /// Everything that is wrong with objects now.
    pub(super) fn findings(&self) -> impl Iterator<Item = &Finding> {
        let rendered = self.newest.iter().flat_map(|newest| &newest.render.output.findings);
        let failed = self.failed.iter().flat_map(|error| &error.findings);
        let refusal = self.judged.iter().flat_map(|outcome| match &outcome.verdict {
            GateVerdict::Refused { findings } => &findings[..],
            _ => &[],
        });
        let refused = self.standing.refused.iter().flat_map(|refused| refused.findings.iter());
        let credentials = self.standing.credentials.iter().chain(self.standing.certificates.iter());
        self.manifests.all().chain(rendered).chain(failed).chain(refusal).chain(refused).chain(credentials)
    }

    fn settle(&mut self, deployed: Option<&Arc<Render>>) {
        let newest = self.newest.as_ref().map(|newest| &newest.render);
        let settled = newest
            .into_iter()
            .chain(deployed)
            .find(|render| matches!(self.deployed.of(render.plan()), Standing::Settled { .. }));
        if let Some(settled) =
            settled.filter(|render| self.settled.as_ref().is_none_or(|known| known.seq <= render.seq))
        {
            self.settled = Some(settled.clone());
        }
    }
}

#[cfg(test)]
mod tests;
