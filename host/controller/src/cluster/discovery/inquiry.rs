//! Asks one pod's agent, again and again until it has answered, and once more whenever a new round is wanted.

use std::{sync::Arc, time::Duration};

use thiserror::Error;
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

use crate::agent_port::{Agent, AgentError, PlanDocument};

/// How long one question may take, connecting included.
pub(super) const ASK_LIMIT: Duration = Duration::from_secs(5);
/// The first pause after a failure; pauses double up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The questions to one pod.
pub(super) struct Inquiry {
    pub(super) pod: Arc<str>,
    /// Of all inquiries of this discovery.
    pub(super) number: u64,
    pub(super) agent: Arc<dyn Agent>,
    /// Grows when all pods are to be asked again.
    pub(super) wanted: watch::Receiver<u64>,
    pub(super) answers: mpsc::Sender<Answer>,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) pod: Arc<str>,
    pub(super) inquiry: u64,
    /// The round that was wanted when the question was asked.
    pub(super) round: u64,
    pub(super) said: Result<Said, Silence>,
}

/// What discovery wants to know of an agent's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) api_version: u32,
    pub(super) leader_epoch: u64,
    /// `None` while no HAProxy runs: the first apply starts it.
    pub(super) haproxy: Option<HaproxyVersion>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HaproxyVersion {
    pub(super) minor: (u16, u16),
    /// E.g. `3.2.26-1`.
    pub(super) full: String,
}

#[derive(Clone, Debug, Error)]
pub(super) enum Silence {
    #[error(transparent)]
    Failed(AgentError),
    #[error("the agent did not answer within {ASK_LIMIT:?}")]
    TimedOut,
}

// === impl Inquiry ===

impl Inquiry {
    /// Ends when nobody wants answers any more.
    pub(super) async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let round = *self.wanted.borrow_and_update();
            let said = self.ask().await;
            let complete = said.as_ref().is_ok_and(Said::is_complete);
            let answer = Answer { pod: self.pod.clone(), inquiry: self.number, round, said };
            if self.answers.send(answer).await.is_err() {
                return;
            }
            let wanted = if complete {
                pause = FIRST_PAUSE;
                self.wanted.changed().await
            } else {
                tokio::select! {
                    wanted = self.wanted.changed() => wanted,
                    () = sleep(pause) => {
                        pause = (pause * 2).min(LONGEST_PAUSE);
                        Ok(())
                    }
                }
            };
            if wanted.is_err() {
                return;
            }
        }
    }

    async fn ask(&self) -> Result<Said, Silence> {
        let state = timeout(ASK_LIMIT, self.agent.state(PlanDocument::Without)).await;
        let state = state.map_err(|_| Silence::TimedOut)?.map_err(Silence::Failed)?;
        Ok(Said {
            api_version: state.api_version,
            leader_epoch: state.token.leader_epoch,
            haproxy: state.haproxy.map(|haproxy| HaproxyVersion { minor: haproxy.minor, full: haproxy.version }),
        })
    }
}

// === impl Said ===

impl Said {
    fn is_complete(&self) -> bool {
        self.haproxy.is_some()
    }
}
