//! The admission webhook: HTTPS for API servers, which ask about a write before they store it.
//!
//! It lives as long as the process and asks the iteration that serves. During a hand-over the predecessor judges until
//! its successor serves. Followers judge, too: every replica has the objects and a warm render.
//!
//! A denial means that the write would break something. Where nothing can be said (no iteration serves, time ran out,
//! too many wait), the answer is HTTP 500 with the cause and the next step, and the `failurePolicy` decides.
//!
//! ```text
//! API server ─TLS─▶ server ─▶ Desk (queue) ─▶ clerks, half as many as cores ─▶ Admission of the serving iteration
//! ```

mod certificate;
mod configuration;
mod desk;
mod handler;
mod metrics;
mod registered;
mod review;
mod server;

use std::{net::SocketAddr, num::NonZero, path::PathBuf, sync::Arc, thread};

use haptic_kubernetes::Api;
use haptic_store::WatchedResource;
use tokio::{
    sync::watch,
    task::{JoinSet, spawn_blocking},
};
use tokio_util::sync::CancellationToken;

use crate::{
    admission::{Admission, Opinion, Pinned},
    check::{CancelOnDrop, ConfigCheck},
    clock::WallClock,
    cluster::{
        probes::{Health, ServeError, SharedRegistry},
        schema::Resolution,
        webhook::{
            certificate::WebhookCertificate,
            desk::{Desk, Ticket},
            handler::Handler,
            metrics::WebhookMetrics,
            registered::Registered,
            server::Server,
        },
    },
};

pub use configuration::{FailurePolicy, WebhookConfiguration, WebhookNames};

/// The webhook of the process: a door for API servers, and a desk behind it.
pub struct WebhookServer {
    server: Server,
    desk: Arc<Desk>,
    serving: watch::Receiver<Option<Arc<Judge>>>,
    door: WebhookDoor,
}

/// Where iterations say who judges. Cheap to clone.
#[derive(Clone)]
pub struct WebhookDoor {
    judge: Arc<watch::Sender<Option<Arc<Judge>>>>,
    metrics: WebhookMetrics,
}

/// What judges for one iteration.
pub(crate) struct Judge {
    iteration: u64,
    registered: Registered,
    admission: Admission,
    api: Api,
}

// === impl WebhookServer ===

impl WebhookServer {
    /// Listens; `tls` is the folder of a mounted Secret with `tls.crt` and `tls.key`, which need not be there yet.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn bind(
        address: SocketAddr,
        tls: PathBuf,
        health: Health,
        clock: WallClock,
        registry: &SharedRegistry,
    ) -> Result<Self, ServeError> {
        let metrics = WebhookMetrics::register(&mut registry.write());
        let (judge, serving) = watch::channel(None);
        let desk = Desk::new(metrics.clone());
        let certificate = WebhookCertificate::new(tls, health, clock);
        let handler = Handler::new(desk.clone(), serving.clone(), metrics.clone());
        let server = Server::bind(address, certificate, handler.router()).await?;
        Ok(Self { server, desk, serving, door: WebhookDoor { judge: Arc::new(judge), metrics } })
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// For the iterations.
    pub fn door(&self) -> WebhookDoor {
        self.door.clone()
    }

    /// Serves until `end`, and then a while longer: API servers hear late that a replica is gone.
    pub async fn run(self, end: CancellationToken) {
        let mut clerks = JoinSet::new();
        for _ in 0..slots() {
            clerks.spawn(work(self.desk.clone(), self.serving.clone()));
        }
        self.server.run(end).await;
        clerks.shutdown().await;
    }
}

// === impl WebhookDoor ===

impl WebhookDoor {
    /// From now on this one judges.
    pub(crate) fn install(&self, judge: Judge) {
        self.judge.send_replace(Some(Arc::new(judge)));
    }

    /// For who judges: the time that the check takes is told.
    pub(crate) fn timed(&self, check: Arc<dyn ConfigCheck>) -> Arc<dyn ConfigCheck> {
        self.metrics.timed(check)
    }

    /// The iteration is gone; whoever took its place stays.
    pub(crate) fn withdraw(&self, iteration: u64) {
        self.judge.send_if_modified(|judge| {
            let gone = judge.as_ref().is_some_and(|judge| judge.iteration == iteration);
            if gone {
                *judge = None;
            }
            gone
        });
    }
}

// === impl Judge ===

impl Judge {
    pub(crate) fn new(iteration: u64, resources: Vec<Pinned>, admission: Admission, api: Api) -> Self {
        Self { iteration, registered: Registered::new(resources), admission, api }
    }
}

/// The watched resources in the versions in which they are read.
pub(crate) fn pinned(resources: &[WatchedResource], resolution: &Resolution) -> Vec<Pinned> {
    let pinned = |resource: &WatchedResource| Pinned {
        resource: resource.clone(),
        api_version: resolution.version(resource).into(),
    };
    resources.iter().map(pinned).collect()
}

/// Half of the cores, as far as the cgroup lets the process have them.
fn slots() -> usize {
    (thread::available_parallelism().map_or(1, NonZero::get) / 2).max(1)
}

/// A clerk: judges everybody who waits, again and again.
async fn work(desk: Arc<Desk>, serving: watch::Receiver<Option<Arc<Judge>>>) {
    loop {
        let tickets = desk.next().await;
        let judge = serving.borrow().clone();
        // Without a judge the answers are dropped, and whoever waits says why.
        if let Some(judge) = judge {
            judge_all(judge, tickets).await;
        }
    }
}

async fn judge_all(judge: Arc<Judge>, mut tickets: Vec<Ticket>) {
    let proposals: Vec<_> = tickets.iter().map(|ticket| ticket.proposal.clone()).collect();
    let guard = CancelOnDrop::default();
    let cancelled = guard.cancellation();
    let mut judging = spawn_blocking(move || judge.admission.judge(&proposals, &cancelled));
    let opinions = tokio::select! {
        opinions = &mut judging => opinions,
        () = nobody_waits(&mut tickets) => {
            // The slot is free when the work has ended.
            drop(guard);
            judging.await
        }
    };
    match opinions {
        Ok(opinions) => tickets.into_iter().zip(opinions).for_each(|(ticket, opinion)| answer(ticket, opinion)),
        Err(error) => tracing::error!(%error, "judging stopped unexpectedly"),
    }
}

async fn nobody_waits(tickets: &mut [Ticket]) {
    futures_util::future::join_all(tickets.iter_mut().map(|ticket| ticket.answer.closed())).await;
}

fn answer(ticket: Ticket, opinion: Opinion) {
    // Whoever does not wait any more has answered for himself.
    let _ = ticket.answer.send(opinion);
}
