//! A thin client of the agent's API, over a unix socket or over TLS.

mod error;
mod pool;

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use haptic_model::PlanId;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, StatusCode,
    header::{CONTENT_TYPE, HOST},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::{
    APPLY_CONTENT_TYPE, AgentState, ApplyBody, ApplyManifest, ApplyResult, ErrorBody, Serving,
    client::pool::{Age, Link, Pool, Way},
    tls::ClientIdentity,
};

pub use error::{AgentAddress, ApplyError, ClientError, HandshakeError};

/// A client of one agent. A few connections are kept alive, and made anew when the agent closed them or the credentials
/// were swapped; each carries one request at a time. Dropping a request's future drops its connection: no later request
/// reads its answer.
#[derive(Debug)]
pub struct AgentClient {
    pool: Pool,
    timeouts: ClientTimeouts,
}

/// How long each request may take, connecting included.
#[derive(Clone, Copy, Debug)]
pub struct ClientTimeouts {
    /// Until a connection stands, its TLS handshake included.
    pub connect: Duration,
    /// `GET /v1/state`, `PUT /v1/plan`, probes.
    pub read: Duration,
    /// `POST /v1/apply`: must outlast a reload.
    pub apply: Duration,
}

impl Default for ClientTimeouts {
    /// 5 s to connect, 10 s to read, 90 s to apply.
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), read: Duration::from_secs(10), apply: Duration::from_secs(90) }
    }
}

// === impl AgentClient ===

impl AgentClient {
    /// A client over a unix socket with the default time-outs; connects on the first request.
    pub fn unix(socket: &Path) -> Self {
        Self::with_timeouts(socket, ClientTimeouts::default())
    }

    /// A client over a unix socket with time-outs of the caller's.
    pub fn with_timeouts(socket: &Path, timeouts: ClientTimeouts) -> Self {
        Self { pool: Pool::new(Way::Unix(socket.to_owned()), timeouts.connect), timeouts }
    }

    /// A client over TLS with the default time-outs; connects on the first request. The agent's identity is in its
    /// certificate and has nothing to do with `address`.
    pub fn tls(address: SocketAddr, identity: Arc<ClientIdentity>) -> Self {
        Self::tls_with_timeouts(address, identity, ClientTimeouts::default())
    }

    /// A client over TLS with time-outs of the caller's.
    pub fn tls_with_timeouts(address: SocketAddr, identity: Arc<ClientIdentity>, timeouts: ClientTimeouts) -> Self {
        Self { pool: Pool::new(Way::Tls(address, identity), timeouts.connect), timeouts }
    }

    /// Where the agent is.
    pub fn address(&self) -> AgentAddress {
        self.pool.address()
    }

    /// `GET /v1/state`; with the stored plan document if `with_plan`.
    ///
    /// # Errors
    /// When the agent cannot be reached or answers something else.
    pub async fn state(&self, with_plan: bool) -> Result<AgentState, ClientError> {
        let path = if with_plan { "/v1/state" } else { "/v1/state?plan=0" };
        self.read(path).await
    }

    /// `GET /v1/state?verify=1`: the agent hashes its tree again and asks the worker again. Without the plan document.
    ///
    /// # Errors
    /// When the agent cannot be reached or answers something else.
    pub async fn verified_state(&self) -> Result<AgentState, ClientError> {
        self.read("/v1/state?plan=0&verify=1").await
    }

    /// `GET /v1/serving`.
    ///
    /// # Errors
    /// When the agent cannot be reached or answers something else.
    pub async fn serving(&self) -> Result<Serving, ClientError> {
        self.read("/v1/serving").await
    }

    /// Whether `GET /readyz` answers 200.
    ///
    /// # Errors
    /// When the agent cannot be reached.
    pub async fn ready(&self) -> Result<bool, ClientError> {
        let (status, _) = self.request(&Method::GET, "/readyz", "", Bytes::new(), self.timeouts.read).await?;
        Ok(status == StatusCode::OK)
    }

    /// `POST /v1/apply`; `parts` are the contents of `manifest.parts`, in that order.
    ///
    /// # Errors
    /// [`ApplyError::Conflict`] and [`ApplyError::Rejected`] mean that nothing was written.
    pub async fn apply(&self, manifest: &ApplyManifest, parts: &[Bytes]) -> Result<ApplyResult, ApplyError> {
        let body = ApplyBody::encode(manifest, parts).map_err(ClientError::Encode)?;
        let path = "/v1/apply";
        let (status, answer) = self.request(&Method::POST, path, APPLY_CONTENT_TYPE, body, self.timeouts.apply).await?;
        match status {
            StatusCode::OK => Ok(decode("POST", path, &answer)?),
            StatusCode::CONFLICT => Err(ApplyError::Conflict(Box::new(decode("POST", path, &answer)?))),
            status => Err(ApplyError::Rejected { status: status.as_u16(), error: said(&answer) }),
        }
    }

    /// `PUT /v1/plan`: stores the document of the applied plan. `false` = another plan is applied by now.
    ///
    /// # Errors
    /// When the agent cannot be reached or refuses the document.
    pub async fn put_plan(&self, plan_id: PlanId, document: Bytes) -> Result<bool, ClientError> {
        let path = format!("/v1/plan?plan_id={plan_id}");
        let (status, answer) =
            self.request(&Method::PUT, &path, "application/json", document, self.timeouts.read).await?;
        match status {
            StatusCode::OK | StatusCode::NO_CONTENT => Ok(true),
            StatusCode::CONFLICT => Ok(false),
            status => Err(unexpected("PUT", &path, status, &answer)),
        }
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let (status, answer) = self.request(&Method::GET, path, "", Bytes::new(), self.timeouts.read).await?;
        if status != StatusCode::OK {
            return Err(unexpected("GET", path, status, &answer));
        }
        decode("GET", path, &answer)
    }

    async fn request(
        &self,
        method: &Method,
        path: &str,
        content_type: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, "agent");
        if !content_type.is_empty() {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let request = request.body(Full::new(body)).expect("the method, path and headers above are valid");
        let answer = timeout(limit, async {
            let _turn = self.pool.turn().await;
            let (link, age) = self.pool.take().await?;
            // The agent may have closed a kept connection just now: once more over a new one, if the request was not
            // sent or may be repeated.
            let again = (age == Age::Kept).then(|| request.clone());
            match self.exchange(link, request).await {
                Err(Unanswered { unsent, .. }) if again.is_some() && (unsent || *method == Method::GET) => {
                    let again = again.expect("looked at above");
                    let link = self.pool.connect().await?;
                    self.exchange(link, again).await.map_err(|unanswered| unanswered.error)
                }
                answer => answer.map_err(|unanswered| unanswered.error),
            }
        });
        let shown = || format!("{method} {path}");
        let expired = |_| ClientError::Timeout { request: shown(), agent: self.address(), limit };
        answer.await.map_err(expired)?
    }

    async fn exchange(&self, mut link: Link, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), Unanswered> {
        let shown = format!("{} {}", request.method(), request.uri());
        let mut unsent = false;
        let exchanged = async {
            let response = link.sender.try_send_request(request).await.map_err(|mut error| {
                unsent = error.take_message().is_some();
                error.into_error()
            })?;
            let status = response.status();
            Ok((status, response.into_body().collect().await?.to_bytes()))
        };
        let failure: hyper::Error = match exchanged.await {
            Ok(answer) => {
                self.pool.put(link);
                return Ok(answer);
            }
            Err(failure) => failure,
        };
        let agent = self.address();
        let error = match link.refusal(&failure).await {
            Some(source) => ClientError::Handshake { agent, source },
            None => ClientError::Exchange { request: shown, agent, source: failure },
        };
        Err(Unanswered { unsent, error })
    }
}

/// A request without an answer.
struct Unanswered {
    /// It did not leave this process.
    unsent: bool,
    error: ClientError,
}

fn decode<T: DeserializeOwned>(method: &str, path: &str, answer: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(answer).map_err(|source| ClientError::Decode { request: format!("{method} {path}"), source })
}

fn unexpected(method: &str, path: &str, status: StatusCode, answer: &[u8]) -> ClientError {
    ClientError::Status { request: format!("{method} {path}"), status: status.as_u16(), error: said(answer) }
}

fn said(answer: &[u8]) -> String {
    match serde_json::from_slice::<ErrorBody>(answer) {
        Ok(body) => body.error,
        Err(_) => String::from_utf8_lossy(answer).chars().take(500).collect(),
    }
}
