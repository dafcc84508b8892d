//! A validator plugin as a protocol-v1 server on a unix socket.
//!
//! What: [`Socket`] is a path that is ours and no one else's; [`serve()`] answers on it until it is told to stop. What
//! not: loading the plugin, signals, the command line. Called by `haptic plugin serve`.
//!
//! Each connection has one request at a time: what follows waits in the kernel, so answers keep their order and memory
//! is bounded by one frame a connection. Nobody holds a connection for ever: see [`Patience`].

mod connection;
mod service;
mod socket;
mod tally;

use std::{num::NonZero, sync::Arc, time::Duration};

use tokio::{
    net::{UnixListener, UnixStream},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use self::{connection::Connection, tally::Tally};
pub use self::{
    service::{Clock, Service},
    socket::{Socket, SocketError},
};

/// Connections that are served at once. One more is taken and waits until another ends; the others wait in the kernel.
pub const MAX_CONNECTIONS: usize = 32;

/// After a failure to take a connection, e.g. for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a client is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Between two requests. When all connections are taken and another client waits, one second is enough: clients of
    /// this protocol connect again by themselves.
    pub idle: Duration,
    /// From the first byte of a request to its last, and for the client to take its answer.
    pub transfer: Duration,
}

/// What the connections of a server share.
struct Shared {
    service: Service,
    patience: Patience,
    /// Requests that are being answered; each has a thread of its own meanwhile.
    in_flight: Arc<Semaphore>,
    /// All connections are taken and a client waits.
    crowded: watch::Receiver<bool>,
    stop: CancellationToken,
    tally: Tally,
}

/// Answers until `stop`. Then the socket file goes at once, requests that were read whole get their answers, and all
/// other connections are closed, and what was done goes to the log. `workers` requests are answered at the same time.
pub async fn serve(
    socket: Socket,
    service: Service,
    patience: Patience,
    workers: NonZero<usize>,
    stop: CancellationToken,
) -> Result<(), SocketError> {
    let (listener, socket) = socket.listen()?;
    let (crowd, crowded) = watch::channel(false);
    let in_flight = Arc::new(Semaphore::new(workers.get()));
    let shared = Arc::new(Shared { service, patience, in_flight, crowded, stop, tally: Tally::default() });
    let mut connections = JoinSet::new();
    accept(&listener, &shared, &crowd, &mut connections).await;
    drop(listener);
    drop(socket);
    while let Some(ended) = connections.join_next().await {
        note_end(ended);
    }
    shared.tally.log();
    Ok(())
}

async fn accept(
    listener: &UnixListener,
    shared: &Arc<Shared>,
    crowd: &watch::Sender<bool>,
    connections: &mut JoinSet<()>,
) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let stream = tokio::select! {
            biased;
            () = shared.stop.cancelled() => return,
            Some(ended) = connections.join_next() => {
                note_end(ended);
                continue;
            }
            accepted = take(listener) => accepted,
        };
        let slot = if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            slot
        } else {
            crowd.send_replace(true);
            let slot = tokio::select! {
                () = shared.stop.cancelled() => return,
                slot = Arc::clone(&slots).acquire_owned() => slot.expect("the semaphore is never closed"),
            };
            crowd.send_replace(false);
            slot
        };
        let connection = Connection::new(stream, Arc::clone(shared));
        connections.spawn(async move {
            connection.run().await;
            drop(slot);
        });
    }
}

/// The next client.
async fn take(listener: &UnixListener) -> UnixStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "cannot take a connection; trying again");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn note_end(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection ended by a fault of the server");
    }
}

// === impl Patience ===

impl Default for Patience {
    /// A minute between requests, ten seconds for each transfer.
    fn default() -> Self {
        Self { idle: Duration::from_mins(1), transfer: Duration::from_secs(10) }
    }
}
