//! What the deployer asks of an agent, so that faults can be injected where a real agent would have to be broken.

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use haptic_model::Plan;
use haptic_wire::{AgentState, ApplyManifest, ApplyResult, Conflict, Serving};
use thiserror::Error;

use crate::pod::Endpoint;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One agent.
pub trait Agent: Send + Sync {
    fn state(&self, document: PlanDocument) -> BoxFuture<'_, Result<AgentState, AgentError>>;

    /// Cheap, whatever the size of the set.
    fn serving(&self) -> BoxFuture<'_, Result<Serving, AgentError>>;

    /// `parts` are in the order of `manifest.parts`.
    fn apply(&self, manifest: ApplyManifest, parts: Vec<Bytes>) -> BoxFuture<'_, Result<ApplyAnswer, AgentError>>;

    /// Stores the plan document beside the applied plan, so that a later leader has a baseline.
    fn put_plan(&self, plan: Arc<Plan>) -> BoxFuture<'_, Result<PlanStored, AgentError>>;
}

/// Makes the client of an agent from where it listens.
pub type Connect = Arc<dyn Fn(&Endpoint) -> Arc<dyn Agent> + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanDocument {
    With,
    Without,
}

#[derive(Clone, Debug)]
pub enum ApplyAnswer {
    /// Acted on; [`ApplyResult::ok`] says how it went.
    Acted(Box<ApplyResult>),
    /// The fence did not hold; nothing was written.
    Conflict(Box<Conflict>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanStored {
    Stored,
    /// Another plan is applied by now.
    MovedOn,
}

/// The agent did not answer as its API says.
#[derive(Clone, Debug, Error)]
#[error("{doing} at the agent of pod {pod} failed: {source}")]
pub struct AgentError {
    pub doing: &'static str,
    pub pod: Arc<str>,
    #[source]
    pub source: Arc<dyn std::error::Error + Send + Sync>,
}
