use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use haptic_model::PlanId;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, StatusCode,
    client::conn::http1::{SendRequest, handshake},
    header::{CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::{net::UnixStream, sync::Mutex, time::timeout};

use crate::{
    APPLY_CONTENT_TYPE, AgentState, ApplyBody, ApplyManifest, ApplyResult, Conflict, ErrorBody, MalformedBody, Serving,
};

/// A client of one agent. Requests go one after the other over one kept-alive connection, which is made anew when
/// the agent closed it. Dropping a request's future drops its connection: no later request reads its answer.
#[derive(Debug)]
pub struct AgentClient {
    socket: PathBuf,
    timeouts: ClientTimeouts,
    connection: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

/// How long each request may take, connecting included.
#[derive(Clone, Copy, Debug)]
pub struct ClientTimeouts {
    /// `GET /v1/state`, `PUT /v1/plan`, probes.
    pub read: Duration,
    /// `POST /v1/apply`: must outlast a reload.
    pub apply: Duration,
}

/// An apply that was not acted on.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// The fence did not hold; nothing was written.
    #[error("the agent refused the apply: {}", .0.message)]
    Conflict(Box<Conflict>),
    /// The request is not valid, too big, or the agent is not ready; nothing was written.
    #[error("the agent rejected the apply with status {status}: {error}")]
    Rejected {
        /// HTTP status.
        status: u16,
        /// The agent's words.
        error: String,
    },
    /// Whether it was acted on is not known: read the state.
    #[error(transparent)]
    Unreachable(#[from] ClientError),
}

/// The agent could not be asked, or did not answer as this API says.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No connection.
    #[error("could not connect to the agent at {socket}")]
    Connect {
        /// The agent's socket.
        socket: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The connection failed under a request.
    #[error("could not exchange {request} with the agent at {socket}")]
    Exchange {
        /// Method and path.
        request: String,
        /// The agent's socket.
        socket: PathBuf,
        /// Why.
        #[source]
        source: hyper::Error,
    },
    /// No answer in time.
    #[error("the agent at {socket} did not answer {request} within {limit:?}")]
    Timeout {
        /// Method and path.
        request: String,
        /// The agent's socket.
        socket: PathBuf,
        /// The bound.
        limit: Duration,
    },
    /// An answer with an unexpected status.
    #[error("the agent answered {request} with status {status}: {error}")]
    Status {
        /// Method and path.
        request: String,
        /// HTTP status.
        status: u16,
        /// The agent's words.
        error: String,
    },
    /// An answer that is not what this API says.
    #[error("the agent's answer to {request} is not valid")]
    Decode {
        /// Method and path.
        request: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The manifest could not be written.
    #[error("the apply could not be encoded: {0}")]
    Encode(MalformedBody),
}

impl Default for ClientTimeouts {
    /// 10 s to read, 90 s to apply.
    fn default() -> Self {
        Self { read: Duration::from_secs(10), apply: Duration::from_secs(90) }
    }
}

// === impl AgentClient ===

impl AgentClient {
    /// A client with the default time-outs; connects on the first request.
    pub fn unix(socket: &Path) -> Self {
        Self::with_timeouts(socket, ClientTimeouts::default())
    }

    /// A client with time-outs of the caller's.
    pub fn with_timeouts(socket: &Path, timeouts: ClientTimeouts) -> Self {
        Self { socket: socket.to_owned(), timeouts, connection: Mutex::new(None) }
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
        let shown = format!("{method} {path}");
        let expired = |_| ClientError::Timeout { request: shown.clone(), socket: self.socket.clone(), limit };
        timeout(limit, async {
            let mut kept = self.connection.lock().await;
            // Taken out: if this future is dropped half-way, so is the connection.
            let mut sender = match kept.take().filter(|sender| !sender.is_closed()) {
                Some(sender) => sender,
                None => self.connect(&shown).await?,
            };
            if sender.ready().await.is_err() {
                sender = self.connect(&shown).await?;
            }
            let mut request = Request::builder().method(method).uri(path).header(HOST, "agent");
            if !content_type.is_empty() {
                request = request.header(CONTENT_TYPE, content_type);
            }
            let request = request.body(Full::new(body)).expect("the method, path and headers above are valid");
            let failed = |source| ClientError::Exchange { request: shown.clone(), socket: self.socket.clone(), source };
            let response = sender.send_request(request).await.map_err(failed)?;
            let status = response.status();
            let answer = response.into_body().collect().await.map_err(failed)?.to_bytes();
            *kept = Some(sender);
            Ok((status, answer))
        })
        .await
        .map_err(expired)?
    }

    async fn connect(&self, request: &str) -> Result<SendRequest<Full<Bytes>>, ClientError> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|source| ClientError::Connect { socket: self.socket.clone(), source })?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|source| ClientError::Exchange {
            request: request.to_owned(),
            socket: self.socket.clone(),
            source,
        })?;
        // Drives the socket and ends with it; requests see its errors, and it owns nothing that outlives the sender.
        drop(tokio::spawn(connection));
        Ok(sender)
    }
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
