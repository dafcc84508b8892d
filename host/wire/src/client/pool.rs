//! Connections to one agent: kept while they are fresh, made when there is none.

use std::{future::poll_fn, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::AlertDescription;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    sync::{Semaphore, SemaphorePermit},
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_rustls::TlsConnector;

use crate::{
    client::{AgentAddress, ClientError, HandshakeError, error::alert_in},
    tls::{ClientIdentity, Current, NotAfter},
};

/// Requests at a time; more wait for their turn.
const MAX_CONNECTIONS: usize = 4;
/// How long a connection is kept that nobody uses. Shorter than an agent's patience with one ([`IDLE_LIMIT`]), so that
/// no request is sent into a connection that the agent is about to close.
///
/// [`IDLE_LIMIT`]: crate::IDLE_LIMIT
const MAX_IDLE: Duration = Duration::from_secs(20);

/// How a connection is made.
#[derive(Debug)]
pub(super) enum Way {
    Unix(PathBuf),
    Tls(SocketAddr, Arc<ClientIdentity>),
}

#[derive(Debug)]
pub(super) struct Pool {
    way: Way,
    connect_limit: Duration,
    idle: Mutex<Vec<Link>>,
    turns: Semaphore,
}

/// One connection. Dropping it closes it, so that an answer that nobody waits for is read by nobody.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) sender: SendRequest<Full<Bytes>>,
    /// Moves the bytes; ends with the connection.
    drive: JoinHandle<Result<(), hyper::Error>>,
    /// Of the credentials that it was made with.
    generation: u64,
    own_end: Option<NotAfter>,
    /// The agent has answered on it, so it trusts this side.
    answered: bool,
    since: Instant,
}

/// Whether a connection may have been closed meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Fresh,
    Kept,
}

// === impl Pool ===

impl Pool {
    pub(super) fn new(way: Way, connect_limit: Duration) -> Self {
        Self { way, connect_limit, idle: Mutex::default(), turns: Semaphore::new(MAX_CONNECTIONS) }
    }

    pub(super) fn address(&self) -> AgentAddress {
        match &self.way {
            Way::Unix(socket) => AgentAddress::Unix(socket.clone()),
            Way::Tls(address, _) => AgentAddress::Tls(*address),
        }
    }

    /// Held during one request.
    pub(super) async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.acquire().await.expect("the semaphore is never closed")
    }

    /// A kept connection that still stands, or a new one.
    pub(super) async fn take(&self) -> Result<(Link, Age), ClientError> {
        while let Some(mut link) = self.pop() {
            if poll_fn(|cx| link.sender.poll_ready(cx)).await.is_ok() {
                return Ok((link, Age::Kept));
            }
        }
        Ok((self.connect().await?, Age::Fresh))
    }

    /// Keeps a connection whose answer was read to its end.
    pub(super) fn put(&self, mut link: Link) {
        link.since = Instant::now();
        link.answered = true;
        let mut idle = self.idle.lock();
        if link.generation == self.generation() && idle.len() < MAX_CONNECTIONS {
            idle.push(link);
        }
    }

    fn pop(&self) -> Option<Link> {
        let generation = self.generation();
        let mut idle = self.idle.lock();
        idle.retain(|link| {
            link.generation == generation && link.since.elapsed() < MAX_IDLE && !link.sender.is_closed()
        });
        idle.pop()
    }

    fn generation(&self) -> u64 {
        match &self.way {
            Way::Unix(_) => 0,
            Way::Tls(_, identity) => identity.current().generation,
        }
    }

    pub(super) async fn connect(&self) -> Result<Link, ClientError> {
        let expired = |_| {
            let words = format!("no connection within {:?}", self.connect_limit);
            self.unreachable(io::Error::new(io::ErrorKind::TimedOut, words))
        };
        timeout(self.connect_limit, self.dial()).await.map_err(expired)?
    }

    async fn dial(&self) -> Result<Link, ClientError> {
        match &self.way {
            Way::Tls(address, identity) => loop {
                let current = identity.current();
                let generation = current.generation;
                match self.dial_as(*address, identity, current).await {
                    // It was renewed while the two shook hands: what the other side shows may fit the newer one only.
                    Err(ClientError::Handshake { .. }) if identity.current().generation != generation => {}
                    dialled => return dialled,
                }
            },
            Way::Unix(socket) => {
                let stream = UnixStream::connect(socket).await.map_err(|error| self.unreachable(error))?;
                self.link(stream, 0, None).await
            }
        }
    }

    async fn dial_as(
        &self,
        address: SocketAddr,
        identity: &ClientIdentity,
        current: Current,
    ) -> Result<Link, ClientError> {
        let stream = TcpStream::connect(address).await.map_err(|error| self.unreachable(error))?;
        // An apply is one write and one answer: nothing is gained by waiting for more.
        stream.set_nodelay(true).map_err(|error| self.unreachable(error))?;
        let connector = TlsConnector::from(current.config);
        let stream = connector.connect(identity.agent_name().server_name(), stream).await;
        let stream = stream.map_err(|error| match HandshakeError::classify(error, current.not_after) {
            Ok(source) => ClientError::Handshake { agent: self.address(), source },
            Err(error) => self.unreachable(error),
        })?;
        self.link(stream, current.generation, Some(current.not_after)).await
    }

    async fn link<S>(&self, stream: S, generation: u64, own_end: Option<NotAfter>) -> Result<Link, ClientError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let made = handshake(TokioIo::new(stream)).await;
        let (sender, connection) = made.map_err(|source| ClientError::Exchange {
            request: "a connection".to_owned(),
            agent: self.address(),
            source,
        })?;
        let drive = tokio::spawn(connection);
        Ok(Link { sender, drive, generation, own_end, answered: false, since: Instant::now() })
    }

    fn unreachable(&self, source: io::Error) -> ClientError {
        ClientError::Connect { agent: self.address(), source }
    }
}

// === impl Link ===

impl Link {
    /// Whether the agent ended this connection because it does not trust this side. Under TLS 1.3 a client learns that
    /// only from the first answer, and not always before its own writing fails.
    pub(super) async fn refusal(mut self, failure: &hyper::Error) -> Option<HandshakeError> {
        let own_end = self.own_end.filter(|_| !self.answered)?;
        let alert = match alert_in(failure) {
            Some(alert) => Some(alert),
            None => self.last_words().await,
        };
        alert.map(|alert| HandshakeError::refused(alert, own_end))
    }

    async fn last_words(&mut self) -> Option<AlertDescription> {
        let ended = timeout(Duration::from_secs(1), &mut self.drive).await.ok()?;
        alert_in(&ended.ok()?.err()?)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.drive.abort();
    }
}
