//! The queue of writes that wait for a verdict. Who waits no more leaves it at once.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use crate::{
    admission::{Opinion, Proposal},
    cluster::webhook::metrics::WebhookMetrics,
};

/// Writes that wait; one more is turned away.
pub(super) const MOST_WAITING: usize = 256;
/// Writes that are judged together.
const MOST_TOGETHER: usize = 64;

pub(super) struct Desk {
    waiting: Mutex<Line>,
    arrived: Notify,
    metrics: WebhookMetrics,
}

#[derive(Default)]
struct Line {
    next: u64,
    tickets: Vec<Ticket>,
}

/// A write on its way to a verdict.
pub(super) struct Ticket {
    number: u64,
    pub(super) proposal: Proposal,
    since: Instant,
    pub(super) answer: oneshot::Sender<Opinion>,
}

/// The other end of a ticket.
pub(super) struct Waiting {
    number: u64,
    desk: Arc<Desk>,
    opinion: oneshot::Receiver<Opinion>,
}

/// The queue is full.
#[derive(Debug)]
pub(super) struct Full;

// === impl Desk ===

impl Desk {
    pub(super) fn new(metrics: WebhookMetrics) -> Arc<Self> {
        Arc::new(Self { waiting: Mutex::default(), arrived: Notify::new(), metrics })
    }

    pub(super) fn enter(self: &Arc<Self>, proposal: Proposal) -> Result<Waiting, Full> {
        let (answer, opinion) = oneshot::channel();
        let mut line = self.waiting.lock();
        if line.tickets.len() >= MOST_WAITING {
            return Err(Full);
        }
        let number = line.next;
        line.next += 1;
        line.tickets.push(Ticket { number, proposal, since: Instant::now(), answer });
        self.metrics.waiting(line.tickets.len());
        drop(line);
        self.arrived.notify_one();
        Ok(Waiting { number, desk: Arc::clone(self), opinion })
    }

    /// Everyone who waits, the oldest first, but each object once and a bounded number. Waits for the first one.
    pub(super) async fn next(&self) -> Vec<Ticket> {
        loop {
            let taken = self.take();
            if !taken.is_empty() {
                return taken;
            }
            self.arrived.notified().await;
        }
    }

    fn take(&self) -> Vec<Ticket> {
        let mut line = self.waiting.lock();
        let mut objects = BTreeSet::new();
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for ticket in line.tickets.drain(..) {
            if ticket.answer.is_closed() {
                continue;
            }
            if taken.len() < MOST_TOGETHER && objects.insert(ticket.proposal.object.clone()) {
                self.metrics.waited(ticket.since.elapsed());
                taken.push(ticket);
            } else {
                left.push(ticket);
            }
        }
        if !left.is_empty() {
            self.arrived.notify_one();
        }
        line.tickets = left;
        self.metrics.waiting(line.tickets.len());
        taken
    }

    fn leave(&self, number: u64) {
        let mut line = self.waiting.lock();
        line.tickets.retain(|ticket| ticket.number != number);
        self.metrics.waiting(line.tickets.len());
    }
}

// === impl Waiting ===

impl Waiting {
    /// `None` = not in time, or whoever judges ended.
    pub(super) async fn opinion(mut self, budget: Duration) -> Option<Opinion> {
        tokio::time::timeout(budget, &mut self.opinion).await.ok()?.ok()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Closed first, so that a batch that is being judged sees it, too.
        self.opinion.close();
        self.desk.leave(self.number);
    }
}

#[cfg(test)]
mod tests;
