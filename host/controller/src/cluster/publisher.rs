//! The ConfigPublisher (leader-only): what the pods serve, as objects that people read.
//!
//! After a deployment that at least one pod serves, the render is published as one `HAProxyCfg`, named by the plan, and
//! an object for each file that may be published, named by its content: an unchanged file keeps its object. All of
//! them are owned by the `HAProxyTemplateConfig`, because several `HAProxyCfg` share files: an owner that goes must not
//! take away what another one still refers to. What no pod reports any more and is not the newest is deleted, once the
//! newest is complete.
//!
//! Latest wins, at most one publication a [`PublisherSettings::pace`], and nothing of it is on the path of a change.
//! When the bus or its scope is closed the stage ends at once and writes nothing more.

mod encode;
mod output;
mod shelf;
mod shown;

use std::{convert::Infallible, sync::Arc, time::Duration};

use haptic_kubernetes::{Api, Backoff, Failures, Jitter, Trouble};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    bus::{EventBus, Subscription},
    clock::{Timestamp, WallClock},
    cluster::{
        deployed::Deployed,
        publisher::shelf::Shelf,
        standing::{ConfigOwner, ConfigStanding},
    },
    core::Reporting,
    events::{Event, EventKind},
    pipeline::Render,
    pod::PodOutcome,
};

/// How output is published.
#[derive(Clone, Debug)]
pub struct PublisherSettings {
    /// Text of more bytes is compressed. Default: 1 MiB.
    pub compression_threshold: usize,
    /// Text of more bytes, as JSON, is put into several objects. Default: 1 MiB, because etcd takes 1.5 MiB.
    pub object_limit: usize,
    /// The least time between two publications. Default: 1 s.
    pub pace: Duration,
    pub backoff: Backoff,
    pub jitter: Jitter,
}

pub struct ConfigPublisher {
    events: Subscription,
    api: Api,
    standing: watch::Receiver<Arc<ConfigStanding>>,
    clock: WallClock,
    settings: PublisherSettings,
}

/// What is to be published.
#[derive(Clone, Debug, Default)]
struct Wanted {
    /// The newest render that a pod serves.
    render: Option<Arc<Render>>,
    deployed: Deployed,
    owner: Option<ConfigOwner>,
    /// Counts up when what is there is to be read again.
    audit: u64,
}

// === impl PublisherSettings ===

impl PublisherSettings {
    /// The defaults, and what the configuration says.
    pub fn new(reporting: &Reporting, jitter: Jitter) -> Self {
        let threshold =
            reporting.compression_threshold.map_or(MIB, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let pace = Duration::from_secs(1);
        Self { compression_threshold: threshold, object_limit: MIB, pace, backoff: Backoff::default(), jitter }
    }

    /// How long nothing is published after a publication that took so long.
    fn pause_after(&self, took: Duration) -> Duration {
        self.pace.max(took.saturating_mul(SHARE).min(LONGEST_PAUSE))
    }
}

const MIB: usize = 1 << 20;
/// A publication writes the whole text, whatever changed: it may take this part of the time, one in so many.
const SHARE: u32 = 20;
/// However long a publication took.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

// === impl ConfigPublisher ===

impl ConfigPublisher {
    pub fn new(
        bus: &Arc<EventBus>,
        api: &Api,
        standing: watch::Receiver<Arc<ConfigStanding>>,
        clock: WallClock,
        settings: PublisherSettings,
    ) -> Self {
        let kinds =
            [EventKind::HAProxyPodsDiscovered, EventKind::DeploymentCompleted, EventKind::DriftPreventionTriggered];
        Self { events: bus.subscribe("ConfigPublisher", &kinds), api: api.clone(), standing, clock, settings }
    }

    /// Ends when the bus, or the scope of it that this subscribed to, is closed.
    pub async fn run(self) {
        let Self { mut events, api, mut standing, clock, settings } = self;
        let wanted = watch::Sender::new(Wanted::default());
        let publisher = publish(api, wanted.subscribe(), clock.clone(), settings);
        let collector = async {
            let mut standing_open = true;
            loop {
                let owner = standing.borrow_and_update().owner.clone();
                wanted.send_if_modified(|wanted| {
                    let differs = wanted.owner != owner;
                    wanted.owner = owner;
                    differs
                });
                tokio::select! {
                    event = events.next() => match event {
                        Some(event) => wanted.send_modify(|wanted| wanted.take(event, clock.timestamp())),
                        None => return,
                    },
                    changed = standing.changed(), if standing_open => standing_open = changed.is_ok(),
                }
            }
        };
        tokio::select! {
            // First, so that nothing is written any more once the term has ended.
            biased;
            () = collector => {}
            never = publisher => match never {},
        }
    }
}

// === impl Wanted ===

impl Wanted {
    fn take(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::HAProxyPodsDiscovered { pods, .. } => self.deployed.discovered(&pods),
            Event::DeploymentCompleted { render, reports, .. } => {
                reports.iter().for_each(|report| self.deployed.reported(report, now));
                let plan = render.plan();
                let served = reports.iter().any(|report| report.outcome == PodOutcome::Serving && report.plan == plan);
                if served && self.render.as_ref().is_none_or(|known| known.seq <= render.seq) {
                    self.render = Some(render);
                }
            }
            Event::DriftPreventionTriggered { .. } => self.audit += 1,
            _ => {}
        }
    }
}

async fn publish(
    api: Api,
    mut wanted: watch::Receiver<Wanted>,
    clock: WallClock,
    settings: PublisherSettings,
) -> Infallible {
    let mut failures = Failures::new(settings.backoff, settings.jitter.clone());
    let mut shelf: Option<Shelf> = None;
    loop {
        let newest = wanted.borrow_and_update().clone();
        let began = Instant::now();
        match round(&api, &mut shelf, &newest, &settings, clock.timestamp()).await {
            Ok(()) => {
                failures.reset();
                sleep(settings.pause_after(began.elapsed())).await;
                if wanted.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
            Err(trouble) => {
                let pause = failures.pause(Some(&trouble));
                tracing::warn!(%trouble, ?pause, "the output could not be published; it is tried again");
                // What is there may be other than what is believed.
                shelf = None;
                sleep(pause.max(settings.pace)).await;
            }
        }
    }
}

/// One publication: files, configuration, status, and then what is left over.
async fn round(
    api: &Api,
    shelf: &mut Option<Shelf>,
    wanted: &Wanted,
    settings: &PublisherSettings,
    now: Timestamp,
) -> Result<(), Trouble> {
    let Some(owner) = &wanted.owner else { return Ok(()) };
    if shelf.as_ref().is_none_or(|shelf| shelf.owner() != owner) {
        *shelf = Some(Shelf::read(api, owner, wanted.audit).await?);
    }
    let shelf = shelf.as_mut().expect("it was read above, if not before");
    shelf.audit(wanted.audit).await?;
    let Some(render) = &wanted.render else {
        // Nobody serves anything of this term yet; how it fails is told on what was published before.
        return shelf.tell(&wanted.deployed, now).await;
    };
    shelf.put(render, settings).await?;
    shelf.tell(&wanted.deployed, now).await?;
    shelf.sweep(&wanted.deployed).await
}

#[cfg(test)]
mod tests;
