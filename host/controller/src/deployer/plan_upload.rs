//! Plan documents travel to the agent after the apply and off its path: latest wins, one at a time, and only when the
//! pod has been quiet for a moment, because writing the plan of a large fleet costs more than most changes.

use std::{sync::Arc, time::Duration};

use haptic_model::{Plan, PlanId};
use tokio::{task::JoinSet, time::Instant};

use crate::agent_port::{Agent, AgentError, PlanStored};

/// How long the pod must be quiet.
const QUIET: Duration = Duration::from_millis(200);
/// Before a failed upload is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// How long the end of an actor waits for the last document.
const LAST: Duration = Duration::from_secs(5);

pub(super) struct PlanUpload {
    agent: Arc<dyn Agent>,
    next: Option<(Arc<Plan>, Instant)>,
    stored: Option<PlanId>,
    /// At most one.
    running: JoinSet<(Arc<Plan>, Result<PlanStored, AgentError>)>,
}

// === impl PlanUpload ===

impl PlanUpload {
    pub(super) fn new(agent: Arc<dyn Agent>) -> Self {
        Self { agent, next: None, stored: None, running: JoinSet::new() }
    }

    pub(super) fn offer(&mut self, plan: &Arc<Plan>) {
        self.next = (self.stored != Some(plan.id)).then(|| (plan.clone(), Instant::now() + QUIET));
    }

    /// When [`Self::start`] has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next.as_ref().filter(|_| self.running.is_empty()).map(|(_, due)| *due)
    }

    pub(super) fn start(&mut self) {
        if self.due().is_none_or(|due| due > Instant::now()) {
            return;
        }
        let Some((plan, _)) = self.next.take() else { return };
        let agent = self.agent.clone();
        self.running.spawn(async move {
            let stored = agent.put_plan(plan.clone()).await;
            (plan, stored)
        });
    }

    /// Ends when an upload has ended; waits for ever when none runs. Safe to cancel.
    pub(super) async fn ended(&mut self) {
        match self.running.join_next().await {
            Some(Ok((plan, stored))) => self.judge(plan, stored),
            Some(Err(error)) => tracing::error!(%error, "the upload of a plan document ended early"),
            None => std::future::pending().await,
        }
    }

    /// Brings the newest document away, within a bound: the next leader's first diff needs it.
    pub(super) async fn finish(mut self) {
        let flush = async {
            loop {
                while let Some(Ok((plan, stored))) = self.running.join_next().await {
                    if let Err(error) = &stored {
                        tracing::warn!(%error, plan = %plan.id, "the plan document was not stored; the next start reloads");
                        return;
                    }
                    self.judge(plan, stored);
                }
                let Some((plan, _)) = self.next.take() else { return };
                self.next = Some((plan, Instant::now()));
                self.start();
            }
        };
        if tokio::time::timeout(LAST, flush).await.is_err() {
            tracing::warn!("the plan document was not stored in time; the next start reloads");
        }
    }

    fn judge(&mut self, plan: Arc<Plan>, stored: Result<PlanStored, AgentError>) {
        match stored {
            Ok(PlanStored::Stored) => self.stored = Some(plan.id),
            Ok(PlanStored::MovedOn) => {}
            Err(error) => {
                tracing::warn!(%error, "the plan document was not stored and is tried again");
                self.next.get_or_insert((plan, Instant::now() + AGAIN));
            }
        }
    }
}
