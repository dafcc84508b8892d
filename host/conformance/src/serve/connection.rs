//! One client.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    task,
    time::{Instant, sleep_until, timeout},
};

use crate::{
    serve::{Shared, service::Answer},
    v1::{self, Frames, MAX_FRAME_BYTES, Refusal},
};

/// An idle connection of this age gives way to a client that waits.
const GIVES_WAY_AFTER: Duration = Duration::from_secs(1);

/// What is read of a client that sent nonsense, so that it can finish sending and see the answer.
const MAX_DISCARDED_BYTES: usize = 2 * MAX_FRAME_BYTES;

pub(super) struct Connection {
    stream: UnixStream,
    frames: Frames,
    shared: Arc<Shared>,
}

/// What comes next from a client.
enum Next {
    Body(Bytes),
    Refused(Refusal),
    End(End),
}

/// Why a connection ended.
#[derive(Debug)]
enum End {
    /// Between two requests, by the client.
    Closed,
    /// Between two requests, by the server.
    Idle,
    Stopping,
    /// After a refusal that closes.
    Refused,
    /// In the middle of a request, by the client.
    Truncated,
    /// A request did not come whole, or its answer was not taken, in time.
    Slow,
    Broken(io::Error),
}

// === impl Connection ===

impl Connection {
    pub(super) fn new(stream: UnixStream, shared: Arc<Shared>) -> Self {
        shared.tally.connected();
        Self { stream, frames: Frames::default(), shared }
    }

    pub(super) async fn run(mut self) {
        let end = self.serve().await;
        if matches!(end, End::Truncated | End::Slow | End::Broken(_)) {
            self.shared.tally.broken();
        }
        match end {
            End::Broken(error) => tracing::debug!(%error, "connection ended"),
            end => tracing::debug!(?end, "connection ended"),
        }
    }

    async fn serve(&mut self) -> End {
        loop {
            let answer = match self.next().await {
                Next::Body(body) => self.answer(body).await,
                Next::Refused(refusal) => self.shared.service.refuse(&refusal, &self.shared.tally),
                Next::End(end) => return end,
            };
            match timeout(self.shared.patience.transfer, self.stream.write_all(&answer.frame)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return End::Broken(error),
                Err(_) => return End::Slow,
            }
            if answer.connection == v1::Connection::Closed {
                self.let_finish().await;
                return End::Refused;
            }
        }
    }

    /// Waits for a whole request, as long as patience lasts. What has come whole is served before a stop is heeded; nothing
    /// more is read then.
    async fn next(&mut self) -> Next {
        let Shared { patience, stop, crowded, .. } = &*self.shared;
        let mut crowded = crowded.clone();
        let idle_since = Instant::now();
        let mut begun = None;
        loop {
            match self.frames.next_body() {
                Ok(Some(body)) => return Next::Body(body),
                Ok(None) => {}
                Err(too_large) => return Next::Refused(too_large.into()),
            }
            let idle = self.frames.is_empty();
            let deadline = if idle {
                idle_since + patience.idle
            } else {
                *begun.get_or_insert_with(Instant::now) + patience.transfer
            };
            let gives_way = async {
                // Its sender lives as long as connections are taken; after that, stopping is what ends this one.
                if crowded.wait_for(|crowded| *crowded).await.is_err() {
                    std::future::pending::<()>().await;
                }
                sleep_until(idle_since + GIVES_WAY_AFTER).await;
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return Next::End(End::Stopping),
                read = self.stream.read_buf(self.frames.buffer()) => match read {
                    Ok(0) => return Next::End(if idle { End::Closed } else { End::Truncated }),
                    Ok(_) => {}
                    Err(error) => return Next::End(End::Broken(error)),
                },
                () = gives_way, if idle => return Next::End(End::Idle),
                () = sleep_until(deadline) => return Next::End(if idle { End::Idle } else { End::Slow }),
            }
        }
    }

    /// Has a request answered on a thread where it may block, once one is free.
    async fn answer(&self, body: Bytes) -> Answer {
        let permit = Arc::clone(&self.shared.in_flight).acquire_owned().await.expect("the semaphore is never closed");
        let shared = Arc::clone(&self.shared);
        let answered = task::spawn_blocking(move || {
            tracing::debug!(bytes = body.len(), "answering a request");
            let _permit = permit;
            shared.service.answer(body, &shared.tally)
        });
        answered.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a request was not answered by a fault of the server");
            self.shared.service.lost(&self.shared.tally)
        })
    }

    /// Reads and discards what the client still sends. A connection that is closed with bytes unread breaks the client's
    /// writing before it looks at the answer.
    async fn let_finish(&mut self) {
        if self.stream.shutdown().await.is_err() {
            return;
        }
        let mut left = MAX_DISCARDED_BYTES;
        let mut buffer = vec![0; 64 << 10];
        let discard = async {
            while left > 0 {
                match self.stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => return,
                    Ok(count) => left = left.saturating_sub(count),
                }
            }
        };
        tokio::select! {
            () = self.shared.stop.cancelled() => {}
            _ = timeout(self.shared.patience.transfer, discard) => {}
        }
    }
}
