//! The FollowerWarmer: renders as the Coordinator does, but for nobody, so that a new leader's first render is warm. It
//! rests while this replica leads.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::timeout};

use crate::{
    bus::{EventBus, Subscription},
    clock::WallClock,
    cluster::{discovery::Fleet, leader::lowest_version},
    coordinator::render_once,
    core::ActiveCore,
    events::{Event, EventKind},
    overview::Overview,
    quarantine::Quarantine,
};

/// How long a hand-over waits for the successor's first render.
pub(crate) const WARM_UP: Duration = Duration::from_secs(30);

/// How long the first render waits for the versions of the pods.
const DISCOVERED: Duration = Duration::from_secs(10);

pub(crate) struct FollowerWarmer {
    events: Subscription,
    core: ActiveCore,
    quarantine: Arc<Quarantine>,
    clock: WallClock,
    fleet: Fleet,
    /// What templates see until pods are discovered.
    haproxy: (u16, u16),
    leads: watch::Receiver<bool>,
    warm: watch::Sender<bool>,
    overview: Option<Overview>,
}

// === impl FollowerWarmer ===

impl FollowerWarmer {
    /// The receiver says when the first render was done, failed or not.
    pub(crate) fn new(
        bus: &Arc<EventBus>,
        core: ActiveCore,
        quarantine: Arc<Quarantine>,
        clock: WallClock,
        fleet: Fleet,
        haproxy: (u16, u16),
        leads: watch::Receiver<bool>,
    ) -> (Self, watch::Receiver<bool>) {
        let events = bus.subscribe("FollowerWarmer", &[EventKind::ReconciliationTriggered]);
        let (warm, receiver) = watch::channel(false);
        (Self { events, core, quarantine, clock, fleet, haproxy, leads, warm, overview: None }, receiver)
    }

    /// Searches on this replica are answered from its newest render.
    pub(crate) fn telling(self, overview: &Overview) -> Self {
        Self { overview: Some(overview.clone()), ..self }
    }

    /// Ends when the bus is closed.
    pub(crate) async fn run(mut self) {
        // The versions of the pods are an input of every render. Discovery gives up on pods that do not answer.
        let mut synced = self.fleet.synced();
        let _ = timeout(DISCOVERED, synced.wait_for(|synced| *synced)).await;
        while let Some(event) = self.events.next().await {
            let Event::ReconciliationTriggered { correlation, trigger } = event else { continue };
            if *self.leads.borrow() {
                continue;
            }
            let haproxy = lowest_version(&self.fleet).unwrap_or(self.haproxy);
            let render = render_once(
                self.core.get(),
                self.quarantine.clone(),
                self.clock.clone(),
                0,
                haproxy,
                correlation,
                trigger,
            );
            // What it comes to is the leader's to tell; here only the memo counts.
            match tokio::task::spawn_blocking(render).await {
                Ok(Ok(render)) => {
                    tracing::debug!(%correlation, plan = %render.plan().0.short(), "warm");
                    if let Some(overview) = &self.overview {
                        overview.warmed(Arc::new(render));
                    }
                }
                Ok(Err(error)) => tracing::debug!(%correlation, %error, "a follower's render failed"),
                Err(error) => tracing::warn!(%correlation, %error, "a follower's render stopped unexpectedly"),
            }
            self.warm.send_replace(true);
        }
    }
}
