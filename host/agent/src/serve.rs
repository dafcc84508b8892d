//! The doors of the agent: a unix socket, TLS, and on request loopback; each with the same API behind it. The probes
//! have a door of their own.
//!
//! Bounds: a handshake has [`HANDSHAKE_LIMIT`], a request's head [`IDLE_LIMIT`], an API door [`MAX_CONNECTIONS`]. Who
//! has not proved an identity yet can only displace others like himself: see [`Strangers`].

mod certificates;
mod complaints;
mod probe;
mod strangers;

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use axum::Router;
use haptic_wire::IDLE_LIMIT;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::{
    Agent,
    serve::{complaints::Complaints, strangers::Strangers},
};

pub use certificates::{Refreshed, ServerCertificates, TlsFiles, TlsFilesError};
pub use probe::Readiness;
pub(crate) use probe::healthz;

/// Connections of one API door; more are closed.
pub const MAX_CONNECTIONS: usize = 64;
/// How long a client may take to prove its identity.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// TLS clients at a time that have not proved their identity; one more displaces the oldest.
const MAX_HANDSHAKES: usize = 128;
/// How long a refused client gets to read why.
const LINGER: Duration = Duration::from_secs(1);
/// How much of what it sends meanwhile is thrown away.
const LINGER_BYTES: u64 = 1 << 20;
/// What is left of the machine's descriptors gets time to come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a door was not opened.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Without TLS anybody who reaches the address could write the configuration.
    #[error("{address} is not a loopback address, so it is served with TLS only; name the certificate files")]
    NotLoopback { address: SocketAddr },
    #[error("could not listen on {path}; look whether its folder is there and may be written")]
    Socket {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not read the address of a listener")]
    Listener(#[source] io::Error),
}

/// Where connections come from.
trait Door: Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// A connection, and who is at its other end.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, String)>> + Send;
}

/// How a door serves its connections.
#[derive(Clone)]
struct Service {
    router: Router,
    shutdown: CancellationToken,
    seats: Arc<Semaphore>,
}

// === impl Agent ===

impl Agent {
    /// Serves the API until `shutdown`, then finishes the requests under way. A stale socket file is replaced; the new
    /// one is open to the owner alone.
    pub async fn serve_unix(&self, socket: &Path, shutdown: CancellationToken) -> Result<(), ServeError> {
        let failed = |source| ServeError::Socket { path: socket.to_owned(), source };
        let listener = bind_owner_only(socket).map_err(failed)?;
        let service = Service::new(self.router(), shutdown);
        serve(listener, service.shutdown.clone(), |stream, _| service.clone().run(stream)).await;
        let _ = std::fs::remove_file(socket);
        Ok(())
    }

    /// Serves the API under TLS until `shutdown`, then finishes the requests under way. Follows the files of
    /// `certificates` meanwhile.
    pub async fn serve_tls(
        &self,
        listener: TcpListener,
        certificates: &ServerCertificates,
        shutdown: CancellationToken,
    ) {
        let service = Service::new(self.router(), shutdown.clone());
        let strangers = Strangers::new(MAX_HANDSHAKES);
        let complaints = Arc::new(Complaints::default());
        let greet = |stream: TcpStream, peer: String| {
            let (service, stranger, complaints) = (service.clone(), strangers.admit(), complaints.clone());
            let acceptor = TlsAcceptor::from(certificates.current());
            async move {
                let proved = tokio::select! {
                    proved = handshake(acceptor, stream, &peer, &complaints) => proved,
                    () = stranger.displaced() => {
                        debug!(%peer, "displaced a client that had not proved its identity");
                        None
                    }
                    () = service.shutdown.cancelled() => None,
                };
                drop(stranger);
                if let Some(stream) = proved {
                    service.run(stream).await;
                }
            }
        };
        tokio::join!(serve(listener, shutdown.clone(), greet), certificates.follow(&shutdown));
    }

    /// Serves the API without TLS, and only on loopback: for development, when asked for by name.
    pub async fn serve_loopback(&self, listener: TcpListener, shutdown: CancellationToken) -> Result<(), ServeError> {
        let address = listener.local_addr().map_err(ServeError::Listener)?;
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback { address });
        }
        let service = Service::new(self.router(), shutdown);
        serve(listener, service.shutdown.clone(), |stream, _| service.clone().run(stream)).await;
        Ok(())
    }
}

// === impl Service ===

impl Service {
    fn new(router: Router, shutdown: CancellationToken) -> Self {
        Self { router, shutdown, seats: Arc::new(Semaphore::new(MAX_CONNECTIONS)) }
    }

    async fn run<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(self, stream: S) {
        let Ok(_seat) = self.seats.try_acquire() else {
            warn!(limit = MAX_CONNECTIONS, "closed a connection: there are too many");
            return;
        };
        let mut server = http1::Builder::new();
        // hyper's bound on a head runs from the end of the answer before.
        server.timer(TokioTimer::new()).header_read_timeout(IDLE_LIMIT);
        http(&server, stream, self.router, &self.shutdown).await;
    }
}

// === impl UnixListener ===

impl Door for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, String)> {
        let (stream, _) = UnixListener::accept(self).await?;
        Ok((stream, "unix".to_owned()))
    }
}

// === impl TcpListener ===

impl Door for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, String)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        stream.set_nodelay(true)?;
        Ok((stream, peer.to_string()))
    }
}

/// Takes connections until `shutdown`, then waits for those that are there. Dropping the future closes them.
async fn serve<D: Door, F: Future<Output = ()> + Send + 'static>(
    door: D,
    shutdown: CancellationToken,
    greet: impl Fn(D::Stream, String) -> F,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = door.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                connections.spawn(greet(stream, peer));
            }
            Err(error) if is_the_peers(&error) => debug!(%error, "a connection ended before it was taken"),
            Err(error) => {
                warn!(%error, "could not take a connection; if there are too few descriptors, raise the limit");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // New clients are refused at once, and not left in the queue of a listener that nobody looks at.
    drop(door);
    while connections.join_next().await.is_some() {}
}

/// Serves one connection until its end; from `shutdown` on, only to the end of the request under way.
async fn http<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    server: &http1::Builder,
    stream: S,
    router: Router,
    shutdown: &CancellationToken,
) {
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended early");
    }
}

/// `None` = the client is gone, was too slow, or is nobody that may ask.
async fn handshake(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    peer: &str,
    complaints: &Complaints,
) -> Option<TlsStream<TcpStream>> {
    match timeout(HANDSHAKE_LIMIT, acceptor.accept(stream).into_fallible()).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err((error, stream))) => {
            let reason = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            if reason.is_some() {
                if let Some(withheld) = complaints.next() {
                    warn!(
                        %peer, %error, withheld,
                        "refused a TLS client; look at its certificate and the client CA file"
                    );
                }
                linger(stream).await;
            } else {
                debug!(%peer, %error, "a TLS client went away");
            }
            None
        }
        Err(_) => {
            debug!(%peer, limit = ?HANDSHAKE_LIMIT, "a TLS client was too slow");
            None
        }
    }
}

/// Closing at once, with the client's request unread, would reset the connection and lose the alert that says why.
async fn linger(mut stream: TcpStream) {
    let reading = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(LINGER_BYTES), &mut tokio::io::sink()).await
    };
    let _ = timeout(LINGER, reading).await;
}

fn is_the_peers(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidInput, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | InvalidInput | NotConnected)
}

/// Binds under another name, so that nobody can connect before the mode is set.
fn bind_owner_only(socket: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut fresh = socket.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&fresh)?;
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&fresh, socket)?;
    Ok(listener)
}
