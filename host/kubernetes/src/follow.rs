//! One list and watch, for as long as it is wanted.
//!
//! A list is believed when it is complete and not older than what is known; a watch goes on at the last version it
//! heard of, whatever ended it, and only a version that the server has forgotten (or an answer that cannot be read)
//! makes a new list necessary. Between two failures lies a pause, and the last good objects stay all the while.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::{
    Api, ResourceVersion, Trouble,
    backoff::Failures,
    decode::{Decoder, Event, read_event, read_page},
    known::{Known, Listing, Step},
    request::Scope,
    source::{Outlet, SourceClosed},
    transport::Lines,
};

pub(crate) struct Follow {
    api: Api,
    scope: Scope,
    decoder: Decoder,
    known: Known,
    failures: Failures,
    outlet: Outlet,
    /// Whether the known objects are those of a complete list of this scope.
    listed: bool,
    /// Whether there ever was one.
    known_here: bool,
    streaming: Streaming,
}

/// Why following ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The server does not have the resource any more, or not yet again.
    NotServed,
    /// Nobody listens.
    Closed,
}

/// Whether the server sends lists event by event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Streaming {
    Yes,
    /// The last one did not end in time.
    Doubtful,
    No,
}

/// Why a list or watch stopped.
enum Stop {
    Trouble(Trouble),
    Closed,
}

// === impl Follow ===

impl Follow {
    /// `known` = what was delivered of these objects before, perhaps in another version of the resource.
    pub(crate) fn new(api: Api, scope: Scope, known: Known, failures: Failures, outlet: Outlet) -> Self {
        let decoder = Decoder::new(scope.served.clone(), scope.extent);
        Self {
            api,
            scope,
            decoder,
            known,
            failures,
            outlet,
            listed: false,
            known_here: false,
            streaming: Streaming::Yes,
        }
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.scope.namespace.as_deref()
    }

    pub(crate) fn into_known(self) -> Known {
        self.known
    }

    /// Delivers until the resource is not served. Safe to cancel and to call again.
    pub(crate) async fn run(&mut self) -> Ended {
        let mut lines = None;
        loop {
            let stop = match self.once(lines.take()).await {
                Ok(open) => {
                    lines = open;
                    continue;
                }
                Err(Stop::Closed) => return Ended::Closed,
                Err(Stop::Trouble(trouble)) => trouble,
            };
            let not_served = stop.is_not_found();
            if needs_list(&stop) {
                self.listed = false;
            }
            let pause = self.failures.pause(Some(&stop));
            self.outlet.trouble(self.scope.namespace.as_ref(), stop, pause);
            sleep(pause).await;
            if not_served {
                return Ended::NotServed;
            }
        }
    }

    /// Lists if that is needed, and otherwise watches; what a streaming list leaves open is watched next.
    async fn once(&mut self, open: Option<Lines>) -> Result<Option<Lines>, Stop> {
        if !self.listed {
            return self.list().await;
        }
        let started = Instant::now();
        self.watch(open).await?;
        // A watch that the server ends in its time is the rule. One that ends early, again and again, must not become
        // a busy loop.
        if started.elapsed() < self.api.limits().watch / 2 {
            sleep(self.failures.pause(None)).await;
        } else {
            self.failures.reset();
        }
        Ok(None)
    }

    async fn list(&mut self) -> Result<Option<Lines>, Stop> {
        let api = self.api.clone();
        let _turn = api.list_turn().await;
        loop {
            if self.streaming != Streaming::No {
                match self.streaming_list().await {
                    Ok(lines) => return Ok(Some(lines)),
                    Err(Stop::Trouble(trouble)) if trouble.is_unsupported() => {
                        tracing::debug!(resource = %self.outlet.resource(), %trouble, "lists come in pages");
                        self.streaming = Streaming::No;
                    }
                    Err(Stop::Trouble(trouble @ Trouble::TimedOut(_))) => {
                        let doubted = self.streaming == Streaming::Doubtful;
                        self.streaming = if doubted { Streaming::No } else { Streaming::Doubtful };
                        return Err(Stop::Trouble(trouble));
                    }
                    Err(stop) => return Err(stop),
                }
            }
            match self.paged_list().await {
                Err(Stop::Trouble(trouble)) if trouble.is_unsupported() && self.scope.ask_for_common_fields_only() => {
                    tracing::debug!(resource = %self.outlet.resource(), %trouble, "fields are selected here");
                    // It was the field and not the form of the list.
                    self.streaming = Streaming::Yes;
                }
                done => return done.map(|()| None),
            }
        }
    }

    async fn streaming_list(&mut self) -> Result<Lines, Stop> {
        let limits = *self.api.limits();
        let uri = self.scope.streaming_list(&self.asked_version(), self.open_for());
        let deadline = Instant::now() + limits.streaming_list;
        let mut lines = self.api.lines(&uri, self.scope.accept_watch()).await?;
        let mut listing = Listing::default();
        loop {
            let line = timeout_at(deadline, lines.next()).await;
            let line = line.map_err(|_| Trouble::TimedOut(limits.streaming_list))??;
            let line = line.ok_or(Trouble::Cut)?;
            match read_event(&line, self.decoder.served()).map_err(Trouble::from)? {
                Event::Upsert(object) => {
                    let object = self.decoder.object(object).map_err(Trouble::from)?;
                    listing.add(object, &self.known);
                }
                Event::Delete(object) => listing.remove(&self.decoder.key(&object).map_err(Trouble::from)?),
                Event::Bookmark { version, ends_initial_events: true } => {
                    self.settle(listing, version).await?;
                    return Ok(lines);
                }
                Event::Bookmark { .. } => {}
                Event::Error(status) => return Err(Trouble::Refused(status.into()).into()),
            }
        }
    }

    async fn paged_list(&mut self) -> Result<(), Stop> {
        match self.pages(Some(self.api.limits().page)).await {
            // The list is so long or the server so slow that the version of the first page is forgotten: all at once.
            Err(Stop::Trouble(Trouble::Cut)) => self.pages(None).await,
            done => done,
        }
    }

    async fn pages(&mut self, limit: Option<usize>) -> Result<(), Stop> {
        let mut listing = Listing::default();
        let mut version = None;
        let mut next: Option<String> = None;
        loop {
            let uri = self.scope.page(&self.asked_version(), limit, next.as_deref());
            let answer = self.api.get(&uri, self.scope.accept_page()).await;
            let body = answer.map_err(|trouble| match trouble {
                gone if gone.is_gone() && next.is_some() => Trouble::Cut,
                other => other,
            })?;
            let page = read_page(&body, self.decoder.served()).map_err(Trouble::from)?;
            for item in page.items {
                let object = self.decoder.object(item).map_err(Trouble::from)?;
                listing.add(object, &self.known);
            }
            if *version.get_or_insert_with(|| page.version.clone()) != page.version {
                // Pages of two states are the list of none.
                return Err(Trouble::Cut.into());
            }
            next = page.next;
            if next.is_none() {
                return self.settle(listing, page.version).await;
            }
        }
    }

    /// A complete list: believed and delivered, or refused.
    async fn settle(&mut self, listing: Listing, version: ResourceVersion) -> Result<(), Stop> {
        self.known.believe(&version)?;
        // From here on nothing waits, so that what is known is what was delivered.
        let delivery = self.outlet.reserve().await?;
        let objects = listing.len();
        let changes = self.known.replace(listing, &version);
        self.listed = true;
        self.known_here = true;
        tracing::debug!(resource = %delivery.resource(), objects, changes = changes.len(), %version, "listed");
        delivery.list(self.scope.namespace.as_ref(), changes);
        Ok(())
    }

    async fn watch(&mut self, open: Option<Lines>) -> Result<(), Stop> {
        let limits = *self.api.limits();
        let mut lines = match open {
            Some(lines) => lines,
            None => {
                let uri = self.scope.watch(self.known.version(), self.open_for());
                let lines = self.api.lines(&uri, self.scope.accept_watch()).await?;
                self.outlet.recovered(self.scope.namespace.as_ref());
                lines
            }
        };
        loop {
            let next = timeout(limits.idle, lines.next()).await.map_err(|_| Trouble::TimedOut(limits.idle))??;
            let Some(line) = next else { return Ok(()) };
            let mut steps = Vec::new();
            let mut read = self.read(&line, &mut steps);
            // What came at once is one update.
            while read.is_ok()
                && steps.len() < LARGEST_UPDATE
                && let Some(line) = lines.received()
            {
                read = self.read(&line, &mut steps);
            }
            if !steps.is_empty() {
                self.failures.reset();
                let delivery = self.outlet.reserve().await?;
                delivery.increment(self.known.follow(steps));
            }
            read?;
        }
    }

    fn read(&mut self, line: &[u8], steps: &mut Vec<Step>) -> Result<(), Trouble> {
        let event = read_event(line, self.decoder.served())?;
        steps.push(Step::read(event, &mut self.decoder)?);
        Ok(())
    }

    /// The version that a list must not be older than. What was known in another version of the resource is not asked
    /// for: the server answers with its newest state then.
    fn asked_version(&self) -> ResourceVersion {
        if self.known_here { self.known.version().clone() } else { ResourceVersion::unknown() }
    }

    /// Watches that were opened together do not end together.
    fn open_for(&self) -> Duration {
        self.failures.jitter().at_least(0.75, self.api.limits().watch)
    }
}

/// Whether going on at the last version is of no use.
fn needs_list(trouble: &Trouble) -> bool {
    trouble.is_gone() || trouble.is_unsupported() || matches!(trouble, Trouble::Malformed(_) | Trouble::TooLarge { .. })
}

// === impl Stop ===

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<SourceClosed> for Stop {
    fn from(_: SourceClosed) -> Self {
        Self::Closed
    }
}

/// Events of one update at most: a reader that fell behind still gets its turn.
const LARGEST_UPDATE: usize = 1000;
