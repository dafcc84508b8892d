//! The EventBus: typed, buffered until it is started, one coalescing mailbox for each subscriber.
//!
//! A mailbox holds at most one event of each (kind, key): the latest wins, keeps the causes of those it replaced, and
//! takes its place at the end, so that what is left stays in the order of publication. Keys come from small sets, so
//! a mailbox is bounded by construction; should it ever hold [`MAILBOX_KEYS`] all the same, the bus fails with a named
//! reason instead of losing an event, and the iteration ends with it.
//!
//! ```text
//! publish ─▶ (buffer until start) ─▶ mailbox of each subscriber ─▶ Subscription::next
//! ```

mod totals;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::{Notify, watch};

use crate::events::{Correlation, Event, EventKind};

pub use totals::BusTotals;

/// Most distinct (kind, key) pairs that wait in one mailbox.
pub const MAILBOX_KEYS: usize = 4096;
/// Most events that an observer may be behind before it loses the oldest.
pub const OBSERVER_BACKLOG: usize = 256;

/// A bus, or a scope of one: see [`EventBus::scope`].
#[derive(Debug)]
pub struct EventBus {
    shared: Arc<Shared>,
    /// `None` = the whole bus.
    scope: Option<u64>,
}

/// The receiving end of one subscriber.
#[derive(Debug)]
pub struct Subscription {
    mailbox: Arc<Mailbox>,
}

/// A critical event would have been lost.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the mailbox of {subscriber} is full ({MAILBOX_KEYS} waiting): {} would be lost", kind.name())]
pub struct BusFailure {
    pub subscriber: &'static str,
    pub kind: EventKind,
}

// === impl EventBus ===

impl EventBus {
    pub fn new() -> Arc<Self> {
        Self::counted(&BusTotals::default())
    }

    /// One that counts in `totals`, which several buses of a process share.
    pub fn counted(totals: &BusTotals) -> Arc<Self> {
        let inner = Inner { phase: Phase::Buffering(Queue::default()), mailboxes: Vec::new(), scopes: BTreeSet::new() };
        let shared = Shared {
            inner: Mutex::new(inner),
            correlations: AtomicU64::new(1),
            scopes: AtomicU64::new(0),
            failure: watch::Sender::new(None),
            observer_losses: AtomicU64::new(0),
            totals: totals.clone(),
        };
        let shared = Arc::new(shared);
        totals.opened(&shared);
        Arc::new(Self { shared, scope: None })
    }

    /// The same bus for stages that end before it does, such as those of a leader's term: closing a scope ends what
    /// subscribed through it and drops what is still published through it, and nothing else.
    pub fn scope(&self) -> Arc<Self> {
        let scope = self.shared.scopes.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.shared.inner.lock();
        if !matches!(inner.phase, Phase::Closed) {
            inner.scopes.insert(scope);
        }
        Arc::new(Self { shared: self.shared.clone(), scope: Some(scope) })
    }

    pub fn correlate(&self) -> Correlation {
        Correlation(self.shared.correlations.fetch_add(1, Ordering::Relaxed))
    }

    /// A subscriber that must not lose an event; events of one kind and key coalesce.
    pub fn subscribe(&self, subscriber: &'static str, kinds: &[EventKind]) -> Subscription {
        self.add(subscriber, kinds, Waiting::Coalesced(Queue::default()))
    }

    /// A subscriber that sees every event one by one and decides nothing: when it falls behind by
    /// [`OBSERVER_BACKLOG`] it loses the oldest, which is counted.
    pub fn observe(&self, subscriber: &'static str, kinds: &[EventKind]) -> Subscription {
        self.add(subscriber, kinds, Waiting::Every(VecDeque::new()))
    }

    /// Never blocks. Before [`Self::start`] the event waits in the buffer.
    pub fn publish(&self, event: Event) {
        let mut inner = self.shared.inner.lock();
        if self.is_closed(&inner) {
            return;
        }
        self.shared.totals.published(event.kind());
        let Inner { phase, mailboxes, .. } = &mut *inner;
        match phase {
            Phase::Buffering(queue) => {
                if queue.push(event).is_err() {
                    tracing::error!("the start buffer of the event bus is full");
                }
            }
            Phase::Started => self.shared.deliver(mailboxes, &event),
            Phase::Closed => {}
        }
    }

    /// Delivers what was published so far, in order, and everything from now on at once.
    pub fn start(&self) {
        let mut inner = self.shared.inner.lock();
        let Phase::Buffering(mut queue) = std::mem::replace(&mut inner.phase, Phase::Started) else { return };
        while let Some(event) = queue.pop() {
            self.shared.deliver(&inner.mailboxes, &event);
        }
    }

    /// No event is taken any more; subscribers end when they have read what waits. Of a scope: of this scope only.
    pub fn close(&self) {
        let mut inner = self.shared.inner.lock();
        let closed = match self.scope {
            None => {
                inner.phase = Phase::Closed;
                inner.scopes.clear();
                std::mem::take(&mut inner.mailboxes)
            }
            Some(scope) => {
                inner.scopes.remove(&scope);
                inner.mailboxes.extract_if(.., |mailbox| mailbox.scope == Some(scope)).collect()
            }
        };
        for mailbox in closed {
            mailbox.state.lock().closed = true;
            mailbox.arrived.notify_one();
        }
    }

    /// Ends when a critical event would have been lost.
    pub async fn failed(&self) -> BusFailure {
        let mut failure = self.shared.failure.subscribe();
        match failure.wait_for(Option::is_some).await {
            Ok(failure) => failure.clone().expect("waited for Some"),
            Err(_) => std::future::pending().await,
        }
    }

    /// How many events wait for each subscriber, in all scopes.
    pub fn depths(&self) -> BTreeMap<&'static str, usize> {
        let mut depths = BTreeMap::new();
        self.shared.add_depths(&mut depths);
        depths
    }

    pub fn observer_losses(&self) -> u64 {
        self.shared.observer_losses.load(Ordering::Relaxed)
    }

    fn is_closed(&self, inner: &Inner) -> bool {
        self.scope.is_some_and(|scope| !inner.scopes.contains(&scope)) || matches!(inner.phase, Phase::Closed)
    }

    fn add(&self, subscriber: &'static str, kinds: &[EventKind], waiting: Waiting) -> Subscription {
        let mailbox = Arc::new(Mailbox {
            subscriber,
            scope: self.scope,
            kinds: kinds.to_vec(),
            state: Mutex::new(MailboxState { waiting, closed: false }),
            arrived: Notify::new(),
        });
        let mut inner = self.shared.inner.lock();
        if self.is_closed(&inner) {
            mailbox.state.lock().closed = true;
        } else {
            inner.mailboxes.push(mailbox.clone());
        }
        Subscription { mailbox }
    }
}

// === impl Shared ===

impl Shared {
    fn add_depths(&self, depths: &mut BTreeMap<&'static str, usize>) {
        for mailbox in &self.inner.lock().mailboxes {
            *depths.entry(mailbox.subscriber).or_default() += mailbox.depth();
        }
    }

    fn deliver(&self, mailboxes: &[Arc<Mailbox>], event: &Event) {
        let kind = event.kind();
        for mailbox in mailboxes.iter().filter(|mailbox| mailbox.kinds.contains(&kind)) {
            let mut state = mailbox.state.lock();
            match &mut state.waiting {
                Waiting::Coalesced(queue) => {
                    if queue.push(event.clone()).is_err() {
                        let failure = BusFailure { subscriber: mailbox.subscriber, kind };
                        self.totals.dropped_critical();
                        self.failure.send_if_modified(|current| {
                            let first = current.is_none();
                            current.get_or_insert(failure);
                            first
                        });
                    }
                }
                Waiting::Every(queue) => {
                    if queue.len() == OBSERVER_BACKLOG {
                        queue.pop_front();
                        self.observer_losses.fetch_add(1, Ordering::Relaxed);
                        self.totals.observer_lost();
                    }
                    queue.push_back(event.clone());
                }
            }
            drop(state);
            mailbox.arrived.notify_one();
        }
    }
}

// === impl Subscription ===

impl Subscription {
    /// The next event; `None` once the bus is closed and nothing waits. Safe to cancel.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            {
                let mut state = self.mailbox.state.lock();
                if let Some(event) = state.waiting.pop() {
                    return Some(event);
                }
                if state.closed {
                    return None;
                }
            }
            self.mailbox.arrived.notified().await;
        }
    }

    /// The next event, if one waits.
    pub fn try_next(&mut self) -> Option<Event> {
        self.mailbox.state.lock().waiting.pop()
    }

    /// Events that wait.
    pub fn depth(&self) -> usize {
        self.mailbox.depth()
    }
}

// === impl Mailbox ===

impl Mailbox {
    fn depth(&self) -> usize {
        match &self.state.lock().waiting {
            Waiting::Coalesced(queue) => queue.events.len(),
            Waiting::Every(queue) => queue.len(),
        }
    }
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    correlations: AtomicU64,
    scopes: AtomicU64,
    failure: watch::Sender<Option<BusFailure>>,
    observer_losses: AtomicU64,
    totals: BusTotals,
}

#[derive(Debug)]
struct Inner {
    phase: Phase,
    mailboxes: Vec<Arc<Mailbox>>,
    /// Those that are open.
    scopes: BTreeSet<u64>,
}

#[derive(Debug)]
enum Phase {
    Buffering(Queue),
    Started,
    Closed,
}

#[derive(Debug)]
struct Mailbox {
    subscriber: &'static str,
    scope: Option<u64>,
    kinds: Vec<EventKind>,
    state: Mutex<MailboxState>,
    arrived: Notify,
}

#[derive(Debug)]
struct MailboxState {
    waiting: Waiting,
    closed: bool,
}

#[derive(Debug)]
enum Waiting {
    Coalesced(Queue),
    Every(VecDeque<Event>),
}

/// At most one event of each kind and key, in the order of publication.
#[derive(Debug, Default)]
struct Queue {
    events: BTreeMap<u64, Event>,
    places: HashMap<(EventKind, Arc<str>), u64>,
    next: u64,
}

impl Waiting {
    fn pop(&mut self) -> Option<Event> {
        match self {
            Self::Coalesced(queue) => queue.pop(),
            Self::Every(queue) => queue.pop_front(),
        }
    }
}

impl Queue {
    fn push(&mut self, mut event: Event) -> Result<(), Event> {
        let slot = (event.kind(), event.key());
        if let Some(older) = self.places.remove(&slot).and_then(|place| self.events.remove(&place)) {
            event.absorb(older);
        } else if self.events.len() == MAILBOX_KEYS {
            return Err(event);
        }
        self.places.insert(slot, self.next);
        self.events.insert(self.next, event);
        self.next += 1;
        Ok(())
    }

    fn pop(&mut self) -> Option<Event> {
        let (_, event) = self.events.pop_first()?;
        self.places.remove(&(event.kind(), event.key()));
        Some(event)
    }
}

#[cfg(test)]
mod tests;
