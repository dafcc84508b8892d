//! HTTPS for API servers: HTTP/1.1 over TLS 1.2 or 1.3, without client certificates, and a bound on everything.
//!
//! Bounds: [`CONNECTIONS`]; one more displaces the oldest that is idle. A handshake has [`HANDSHAKE`]. An idle
//! connection stays for [`IDLE`], which is longer than the 90 s for which an API server keeps one: who ends it first
//! must not be the one who answers.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Router, extract::Request, middleware::Next};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::cluster::{probes::ServeError, webhook::certificate::WebhookCertificate};

/// At a time.
const CONNECTIONS: usize = 512;
/// How long a client may take to become one.
const HANDSHAKE: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_mins(2);
/// How long new requests are still taken after the end: whoever sends them hears of it late.
const LINGER: Duration = Duration::from_secs(5);
/// How long requests under way are then waited for.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// What is left of the machine's descriptors gets time to come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The most of a request's head that is kept, in bytes.
const HEAD_BYTES: usize = 32 << 10;

pub(super) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    certificate: WebhookCertificate,
    router: Router,
}

/// A connection as the bound on all sees it.
struct Seat {
    connection: AbortHandle,
    busy: Arc<AtomicBool>,
}

// === impl Server ===

impl Server {
    pub(super) async fn bind(
        address: SocketAddr,
        certificate: WebhookCertificate,
        router: Router,
    ) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, certificate, router })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Until `end` and a while longer.
    pub(super) async fn run(self, end: CancellationToken) {
        tracing::info!(address = %self.address, "the admission webhook listens");
        let closed = CancellationToken::new();
        let mut connections = JoinSet::new();
        tokio::select! {
            () = async { tokio::join!(self.certificate.follow(&closed), self.accept(&mut connections, &closed)); } => {}
            () = async { end.cancelled().await; sleep(LINGER).await } => {}
        }
        closed.cancel();
        let _ = timeout(LAST_ANSWERS, async { while connections.join_next().await.is_some() {} }).await;
    }

    async fn accept(&self, connections: &mut JoinSet<()>, closed: &CancellationToken) {
        let mut seats: VecDeque<Seat> = VecDeque::new();
        loop {
            let accepted = tokio::select! {
                biased;
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "the webhook could not take a connection");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // Nobody could prove who we are: a refused connection is an answer at once.
            let Some(acceptor) = self.certificate.acceptor() else { continue };
            seats.retain(|seat| !seat.connection.is_finished());
            if seats.len() >= CONNECTIONS && !displace(&mut seats) {
                continue;
            }
            let busy = Arc::new(AtomicBool::new(false));
            let served = answer(stream, acceptor, self.router.clone(), busy.clone(), closed.clone());
            seats.push_back(Seat { connection: connections.spawn(served), busy });
        }
    }
}

/// Ends the oldest connection on which nobody waits for an answer. Says whether there was one.
fn displace(seats: &mut VecDeque<Seat>) -> bool {
    let idle = seats.iter().position(|seat| !seat.busy.load(Ordering::Relaxed));
    let Some(seat) = idle.and_then(|index| seats.remove(index)) else {
        tracing::warn!(limit = CONNECTIONS, "the webhook closed a connection: there are too many");
        return false;
    };
    seat.connection.abort();
    true
}

/// One connection.
async fn answer(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    router: Router,
    busy: Arc<AtomicBool>,
    closed: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let stream = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a handshake with the webhook failed"),
        Err(_) => return tracing::debug!("a handshake with the webhook took too long"),
    };
    let router = router.layer(axum::middleware::from_fn(move |request: Request, next: Next| {
        let busy = busy.clone();
        async move {
            busy.store(true, Ordering::Relaxed);
            let response = next.run(request).await;
            busy.store(false, Ordering::Relaxed);
            response
        }
    }));
    let mut server = http1::Builder::new();
    // hyper's bound on a head runs from the end of the answer before.
    server.timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(HEAD_BYTES);
    let connection = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closed.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the webhook ended early");
    }
}

#[cfg(test)]
mod tests;
