//! One followed resource: in which version it is served, and its lists and watches.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    Api, Discovery, Served, Trouble, Wanted,
    follow::{Ended, Follow},
    known::Known,
    request::Scope,
    source::{Outlet, SourceSettings, board::SourceClosed},
};

pub(crate) struct Resource {
    api: Api,
    wanted: Wanted,
    settings: SourceSettings,
    outlet: Outlet,
    look: Look,
    /// One for each namespace, or one for all; none while the resource is not served.
    follows: Vec<Follow>,
}

/// Finds out whether the resource is served otherwise than it was.
struct Look {
    discovery: Discovery,
    wanted: Wanted,
    settings: SourceSettings,
    outlet: Outlet,
    /// Changes when the server may serve other resources.
    changed: watch::Receiver<u64>,
    answer: Option<Answer>,
}

/// `None` = all.
type ByNamespace = HashMap<Option<String>, Known>;

/// How the resource is served.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Served(Arc<Served>),
    Absent,
}

// === impl Resource ===

impl Resource {
    pub(crate) fn new(
        api: Api,
        wanted: Wanted,
        settings: SourceSettings,
        outlet: Outlet,
        changed: watch::Receiver<u64>,
    ) -> Self {
        let look = Look {
            discovery: Discovery::new(api.clone()),
            wanted: wanted.clone(),
            settings: settings.clone(),
            outlet: outlet.clone(),
            changed,
            answer: None,
        };
        Self { api, wanted, settings, outlet, look, follows: Vec::new() }
    }

    /// Ends when nobody listens any more.
    pub(crate) async fn run(mut self) {
        let mut answer = self.look.at_once().await;
        loop {
            if self.take(answer).await.is_err() {
                return;
            }
            answer = loop {
                tokio::select! {
                    other = self.look.until_changed() => break other,
                    ended = all(&mut self.follows) => match ended {
                        Ended::Closed => return,
                        Ended::NotServed => {}
                    },
                }
                // One list or watch was told that there is no such resource; discovery has the last word.
                let before = self.look.answer.clone();
                let now = self.look.at_once().await;
                if before.as_ref() != Some(&now) {
                    break now;
                }
            };
        }
    }

    async fn take(&mut self, answer: Answer) -> Result<(), SourceClosed> {
        match answer {
            Answer::Served(served) => {
                // What is known stays known: the list in the other version says what is different there.
                let known = std::mem::take(&mut self.follows).into_iter();
                let mut known: ByNamespace =
                    known.map(|follow| (follow.namespace().map(str::to_owned), follow.into_known())).collect();
                let scopes = self.wanted.scopes(&served);
                self.leave(&mut known, &scopes).await?;
                self.outlet.resolved(&served, scopes.iter().map(|scope| scope.namespace.clone()));
                let follows = scopes.into_iter().map(|scope| {
                    let known = known.remove(&scope.namespace.as_deref().map(str::to_owned)).unwrap_or_default();
                    Follow::new(self.api.clone(), scope, known, self.settings.failures(), self.outlet.clone())
                });
                self.follows = follows.collect();
            }
            Answer::Absent => {
                let delivery = self.outlet.reserve().await?;
                let follows = std::mem::take(&mut self.follows).into_iter();
                let changes = follows.flat_map(|follow| follow.into_known().withdraw()).collect();
                delivery.absent(changes);
            }
        }
        Ok(())
    }

    /// Withdraws what is known of scopes that are followed no more, such as namespaces of a kind that has none now.
    async fn leave(&self, known: &mut ByNamespace, scopes: &[Scope]) -> Result<(), SourceClosed> {
        let followed =
            |namespace: &Option<String>| scopes.iter().any(|scope| scope.namespace.as_deref() == namespace.as_deref());
        let left: Vec<Known> = known.extract_if(|namespace, _| !followed(namespace)).map(|(_, known)| known).collect();
        if !left.is_empty() {
            let delivery = self.outlet.reserve().await?;
            delivery.increment(left.into_iter().flat_map(|mut known| known.withdraw()).collect());
        }
        Ok(())
    }
}

/// The first that ends; the others go on with the next call.
async fn all(follows: &mut [Follow]) -> Ended {
    let mut running: FuturesUnordered<_> = follows.iter_mut().map(Follow::run).collect();
    match running.next().await {
        Some(ended) => ended,
        None => std::future::pending().await,
    }
}

// === impl Look ===

impl Look {
    /// The answer now. Asks until there is one; an absence is confirmed.
    async fn at_once(&mut self) -> Answer {
        let mut failures = self.settings.failures();
        let mut missing = false;
        loop {
            let pause = match self.discovery.require(&self.wanted).await {
                Ok(Some(served)) => return self.answered(Answer::Served(Arc::new(served))),
                // Nothing is lost where nothing was known.
                Ok(None) if missing || self.answer.is_none() => return self.answered(Answer::Absent),
                Ok(None) => {
                    missing = true;
                    self.settings.confirm_absence
                }
                Err(trouble @ Trouble::Missing { .. }) => {
                    self.outlet.unresolved(Some(trouble));
                    self.settings.jitter.at_least(0.75, self.settings.look_again)
                }
                Err(trouble) => {
                    missing = false;
                    let pause = failures.pause(Some(&trouble));
                    self.outlet.unresolved(Some(trouble));
                    pause
                }
            };
            // A definition may come at any time.
            if timeout(pause, changed(&mut self.changed)).await.is_ok() {
                sleep(self.settings.jitter.at_least(0.5, SETTLE)).await;
            }
        }
    }

    /// Another answer than the last one, when there is one. Safe to cancel.
    async fn until_changed(&mut self) -> Answer {
        loop {
            self.next_occasion().await;
            let before = self.answer.clone();
            let now = self.at_once().await;
            if before.as_ref() != Some(&now) {
                return now;
            }
        }
    }

    async fn next_occasion(&mut self) {
        let look_again = self.settings.jitter.at_least(0.75, self.settings.look_again);
        let preferred = match &self.answer {
            Some(Answer::Served(served)) => {
                self.wanted.spec.versions.first().is_some_and(|first| **first == *served.api_version)
            }
            Some(Answer::Absent) | None => false,
        };
        let changed = changed(&mut self.changed);
        if preferred {
            // That it is gone, its own watch says.
            changed.await;
        } else if timeout(look_again, changed).await.is_err() {
            return;
        }
        // A definition is served a moment after it is made, and many may come together.
        sleep(self.settings.jitter.at_least(0.5, SETTLE)).await;
    }

    fn answered(&mut self, answer: Answer) -> Answer {
        self.outlet.unresolved(None);
        self.answer = Some(answer.clone());
        answer
    }
}

/// Never, once nobody watches definitions any more.
async fn changed(revision: &mut watch::Receiver<u64>) {
    if revision.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// How long after a change of definitions discovery is asked.
const SETTLE: Duration = Duration::from_secs(1);
