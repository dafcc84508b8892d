//! The agent beside a local HAProxy, over its unix socket.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use haptic_model::{Plan, PlanId};
use haptic_wire::{AgentClient, AgentState, ApplyError, ApplyManifest, Serving};

use crate::{
    agent_port::{Agent, AgentError, ApplyAnswer, BoxFuture, Connect, PlanDocument, PlanStored},
    pod::Endpoint,
};

struct UnixAgent {
    name: Arc<str>,
    /// State and applies.
    calls: AgentClient,
    /// Plan documents are large and must not stand before an apply in the same connection.
    documents: AgentClient,
}

/// Connects to agents over unix sockets.
pub fn connect() -> Connect {
    Arc::new(|endpoint: &Endpoint| {
        let Endpoint::Unix(socket) = endpoint;
        Arc::new(UnixAgent::new(socket)) as Arc<dyn Agent>
    })
}

// === impl UnixAgent ===

impl UnixAgent {
    fn new(socket: &Path) -> Self {
        Self {
            name: socket.to_string_lossy().into(),
            calls: AgentClient::unix(socket),
            documents: AgentClient::unix(socket),
        }
    }

    fn error(&self, doing: &'static str, source: impl std::error::Error + Send + Sync + 'static) -> AgentError {
        AgentError { doing, pod: self.name.clone(), source: Arc::new(source) }
    }
}

impl Agent for UnixAgent {
    fn state(&self, document: PlanDocument) -> BoxFuture<'_, Result<AgentState, AgentError>> {
        Box::pin(async move {
            let state = self.calls.state(document == PlanDocument::With).await;
            state.map_err(|error| self.error("reading the state", error))
        })
    }

    fn serving(&self) -> BoxFuture<'_, Result<Serving, AgentError>> {
        Box::pin(async move { self.calls.serving().await.map_err(|error| self.error("asking what it serves", error)) })
    }

    fn apply(&self, manifest: ApplyManifest, parts: Vec<Bytes>) -> BoxFuture<'_, Result<ApplyAnswer, AgentError>> {
        Box::pin(async move {
            match self.calls.apply(&manifest, &parts).await {
                Ok(result) => Ok(ApplyAnswer::Acted(Box::new(result))),
                Err(ApplyError::Conflict(conflict)) => Ok(ApplyAnswer::Conflict(conflict)),
                Err(error) => Err(self.error("applying a render", error)),
            }
        })
    }

    fn put_plan(&self, plan: Arc<Plan>) -> BoxFuture<'_, Result<PlanStored, AgentError>> {
        Box::pin(async move {
            let id: PlanId = plan.id;
            let written = tokio::task::spawn_blocking(move || serde_json::to_vec(&*plan)).await;
            let document = written
                .map_err(|error| self.error("writing a plan document", error))?
                .map_err(|error| self.error("writing a plan document", error))?;
            match self.documents.put_plan(id, Bytes::from(document)).await {
                Ok(true) => Ok(PlanStored::Stored),
                Ok(false) => Ok(PlanStored::MovedOn),
                Err(error) => Err(self.error("storing a plan document", error)),
            }
        })
    }
}
