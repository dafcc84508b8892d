//! Agents over the wire: beside a local HAProxy over a unix socket, in a pod over TLS.

use std::sync::Arc;

use bytes::Bytes;
use haptic_model::{Plan, PlanId};
use haptic_wire::{AgentClient, AgentState, ApplyError, ApplyManifest, Serving, tls::ClientIdentity};
use thiserror::Error;

use crate::{
    agent_port::{Agent, AgentError, ApplyAnswer, BoxFuture, Connect, PlanDocument, PlanStored},
    pod::Endpoint,
};

struct WireAgent {
    name: Arc<str>,
    clients: Result<Clients, NoIdentity>,
}

struct Clients {
    /// State and applies.
    calls: AgentClient,
    /// Plan documents are large and must not stand before an apply in the same connection.
    documents: AgentClient,
}

#[derive(Clone, Copy, Debug, Error)]
#[error("an agent in a pod is asked over TLS only; set spec.credentialsSecretRef")]
struct NoIdentity;

/// Connects to agents; to those in pods as `identity`, without which they cannot be asked.
pub fn connect(identity: Option<Arc<ClientIdentity>>) -> Connect {
    Arc::new(move |endpoint: &Endpoint| Arc::new(WireAgent::new(endpoint, identity.as_ref())) as Arc<dyn Agent>)
}

// === impl WireAgent ===

impl WireAgent {
    fn new(endpoint: &Endpoint, identity: Option<&Arc<ClientIdentity>>) -> Self {
        let client = || match endpoint {
            Endpoint::Unix(socket) => Ok(AgentClient::unix(socket)),
            Endpoint::Tls(address) => Ok(AgentClient::tls(*address, identity.ok_or(NoIdentity)?.clone())),
        };
        let clients = client().and_then(|calls| Ok(Clients { calls, documents: client()? }));
        Self { name: endpoint.to_string().into(), clients }
    }

    fn clients(&self, doing: &'static str) -> Result<&Clients, AgentError> {
        self.clients.as_ref().map_err(|error| self.error(doing, *error))
    }

    fn error(&self, doing: &'static str, source: impl std::error::Error + Send + Sync + 'static) -> AgentError {
        AgentError { doing, pod: self.name.clone(), source: Arc::new(source) }
    }
}

impl Agent for WireAgent {
    fn state(&self, document: PlanDocument) -> BoxFuture<'_, Result<AgentState, AgentError>> {
        const DOING: &str = "reading the state";
        Box::pin(async move {
            let state = self.clients(DOING)?.calls.state(document == PlanDocument::With).await;
            state.map_err(|error| self.error(DOING, error))
        })
    }

    fn serving(&self) -> BoxFuture<'_, Result<Serving, AgentError>> {
        const DOING: &str = "asking what it serves";
        Box::pin(async move { self.clients(DOING)?.calls.serving().await.map_err(|error| self.error(DOING, error)) })
    }

    fn apply(&self, manifest: ApplyManifest, parts: Vec<Bytes>) -> BoxFuture<'_, Result<ApplyAnswer, AgentError>> {
        const DOING: &str = "applying a render";
        Box::pin(async move {
            match self.clients(DOING)?.calls.apply(&manifest, &parts).await {
                Ok(result) => Ok(ApplyAnswer::Acted(Box::new(result))),
                Err(ApplyError::Conflict(conflict)) => Ok(ApplyAnswer::Conflict(conflict)),
                Err(error) => Err(self.error(DOING, error)),
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
            let doing = "storing a plan document";
            match self.clients(doing)?.documents.put_plan(id, Bytes::from(document)).await {
                Ok(true) => Ok(PlanStored::Stored),
                Ok(false) => Ok(PlanStored::MovedOn),
                Err(error) => Err(self.error(doing, error)),
            }
        })
    }
}
