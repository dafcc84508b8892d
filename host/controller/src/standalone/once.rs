//! `--once`: follows one full pass until the acknowledgement and the gate's verdict are both there.

use std::{sync::Arc, time::Duration};

use haptic_model::{Finding, PlanId};
use thiserror::Error;

use crate::{
    bus::{EventBus, Subscription},
    events::{Event, EventKind, GateVerdict},
    pipeline::{PipelineError, Render},
    pod::{PodOutcome, PodReport},
};

/// What a pass did.
#[derive(Clone, Debug)]
pub struct OnceReport {
    pub render: Arc<Render>,
    pub pods: Vec<PodReport>,
    pub duration: Duration,
}

/// Why a pass did not succeed. What served before goes on serving.
#[derive(Debug, Error)]
pub enum OnceError {
    #[error("the pipeline stopped")]
    Pipeline(#[source] Arc<PipelineError>),
    #[error("HAProxy refuses the render: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Refused(Vec<Finding>),
    #[error("the deployment to pod {pod} failed: {message}")]
    Deployment { pod: Arc<str>, message: String },
    #[error("the event bus was closed before the pass was complete")]
    Closed,
}

pub(super) struct OncePass {
    events: Subscription,
    began: tokio::time::Instant,
    judged: Option<PlanId>,
    served: Option<(Arc<Render>, Vec<PodReport>)>,
}

// === impl OncePass ===

impl OncePass {
    pub(super) fn observe(bus: &EventBus) -> Self {
        let kinds = [EventKind::ReconciliationFailed, EventKind::RenderGateCompleted, EventKind::DeploymentCompleted];
        let events = bus.observe("Once", &kinds);
        Self { events, began: tokio::time::Instant::now(), judged: None, served: None }
    }

    /// Ends when one plan is both served and judged.
    pub(super) async fn complete(mut self) -> Result<OnceReport, OnceError> {
        while let Some(event) = self.events.next().await {
            match event {
                Event::ReconciliationFailed { error, .. } => return Err(OnceError::Pipeline(error)),
                Event::RenderGateCompleted { outcome, .. } => match &outcome.verdict {
                    // The render that follows leaves the refused units out.
                    GateVerdict::Refused { .. } if outcome.quarantined > 0 => {}
                    GateVerdict::Refused { findings } => return Err(OnceError::Refused(findings.clone())),
                    GateVerdict::Passed | GateVerdict::Unknown { .. } => self.judged = Some(outcome.plan),
                },
                Event::DeploymentCompleted { render, reports, .. } => self.deployed(render, &reports)?,
                _ => {}
            }
            if let Some((render, pods)) = self.served.take_if(|(render, _)| self.judged == Some(render.plan())) {
                return Ok(OnceReport { render, pods, duration: self.began.elapsed() });
            }
        }
        Err(OnceError::Closed)
    }

    fn deployed(&mut self, render: Arc<Render>, reports: &[PodReport]) -> Result<(), OnceError> {
        if let Some(failed) = reports.iter().find(|report| report.outcome == PodOutcome::Failed) {
            let message = failed.error.clone().unwrap_or_default();
            return Err(OnceError::Deployment { pod: failed.pod.clone(), message });
        }
        // A scheduled reload is reported again when it is done.
        if reports.iter().all(|report| report.outcome == PodOutcome::Serving) {
            self.served = Some((render, reports.to_vec()));
        }
        Ok(())
    }
}
