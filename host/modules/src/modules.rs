//! The modules that are wanted, each with a task of its own that tries until the module is there.

use std::{
    collections::{BTreeMap, HashMap},
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use haptic_model::Digest;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::Instant,
};

use crate::{FetchError, Fetcher, Reason, Wanted};

/// The pauses between attempts.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Default: 1 s. Doubles with every attempt.
    pub first: Duration,
    /// Default: 5 min.
    pub longest: Duration,
    /// The first pause after a failure that does not pass by itself. Default: 1 min.
    pub permanent: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModuleState {
    /// The first attempt is not over.
    Pending,
    /// It can be opened.
    Ready,
    /// The newest attempt failed; there will be others.
    Failed(FetchError),
}

/// The wanted set. One for a process; cheap to share.
pub struct Modules {
    fetcher: Fetcher,
    backoff: Backoff,
    known: Mutex<BTreeMap<Digest, ModuleState>>,
    /// What is not in a cache on disk, as long as it is wanted.
    held: Mutex<HashMap<Digest, Bytes>>,
    wanted: watch::Sender<BTreeMap<Digest, Asked>>,
    /// Counts what was ever wanted.
    asked: AtomicU64,
    changed: watch::Sender<u64>,
}

#[derive(Clone)]
struct Asked {
    wanted: Wanted,
    /// Another one each time that a module is wanted which was not.
    number: u64,
}

/// The tasks that try, at most one for a module.
#[derive(Default)]
struct Attempts {
    tasks: JoinSet<()>,
    running: BTreeMap<Digest, Attempt>,
}

struct Attempt {
    /// Of the [`Asked`] that it is for.
    number: u64,
    task: AbortHandle,
}

// === impl Backoff ===

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), longest: Duration::from_mins(5), permanent: Duration::from_mins(1) }
    }
}

impl Backoff {
    /// After so many failures, the newest of which is `error`.
    fn pause(self, failures: u32, error: &FetchError) -> Duration {
        let first = if error.reason.is_permanent() { self.permanent } else { self.first };
        first.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(self.longest)
    }
}

// === impl Modules ===

impl Modules {
    pub fn new(fetcher: Fetcher, backoff: Backoff) -> Arc<Self> {
        Arc::new(Self {
            fetcher,
            backoff,
            known: Mutex::default(),
            held: Mutex::default(),
            wanted: watch::Sender::default(),
            asked: AtomicU64::default(),
            changed: watch::Sender::default(),
        })
    }

    /// Says what is wanted from now on; what is wanted no more is tried no more. Nothing is waited for.
    pub fn want(&self, modules: impl IntoIterator<Item = Wanted>) {
        let modules: BTreeMap<_, _> = modules.into_iter().map(|wanted| (wanted.key(), wanted)).collect();
        let mut known = self.known.lock();
        known.retain(|key, _| modules.contains_key(key));
        self.held.lock().retain(|key, _| modules.contains_key(key));
        for key in modules.keys() {
            known.entry(*key).or_insert(ModuleState::Pending);
        }
        // Still locked: what has a state and what is wanted are the same.
        self.wanted.send_if_modified(|now| {
            let same = now.keys().eq(modules.keys());
            let numbered = modules.into_iter().map(|(key, wanted)| {
                let number = now.get(&key).map(|before| before.number);
                let number = number.unwrap_or_else(|| self.asked.fetch_add(1, Ordering::Relaxed));
                (key, Asked { wanted, number })
            });
            *now = numbered.collect();
            !same
        });
    }

    pub fn state(&self, wanted: &Wanted) -> ModuleState {
        self.known.lock().get(&wanted.key()).cloned().unwrap_or(ModuleState::Pending)
    }

    /// The module, proved again. `None` = it is not there, or no longer what it was: then it is fetched again. Blocks.
    pub fn open(&self, wanted: &Wanted) -> Option<Bytes> {
        let key = wanted.key();
        if let Some(held) = self.held.lock().get(&key) {
            return Some(held.clone());
        }
        if let Some(module) = self.fetcher.open(wanted) {
            return Some(module);
        }
        let mut known = self.known.lock();
        if known.get(&key) == Some(&ModuleState::Ready) {
            known.insert(key, ModuleState::Pending);
            drop(known);
            self.wanted.send_modify(|_| {});
        }
        None
    }

    /// Hears every change of a state.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Waits until the first attempt at each is over, at most until `deadline`.
    pub async fn settled(&self, modules: &[Wanted], deadline: Instant) {
        let mut changed = self.changed.subscribe();
        let pending = || modules.iter().any(|wanted| self.state(wanted) == ModuleState::Pending);
        while pending() {
            if !matches!(tokio::time::timeout_at(deadline, changed.changed()).await, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// Wants these and tries each once, all beside each other. For whoever does not [`run`](Self::run) this.
    pub async fn attempt(self: &Arc<Self>, modules: Vec<Wanted>) {
        self.want(modules);
        let asked = self.wanted.borrow().clone();
        let mut tasks = JoinSet::new();
        for (key, Asked { wanted, .. }) in asked {
            let modules = Arc::clone(self);
            tasks.spawn(async move {
                let fetched = modules.fetch(&wanted).await;
                modules.take(key, &wanted, fetched);
            });
        }
        tasks.join_all().await;
    }

    /// Works on the wanted set. Never ends; what it does ends when it is dropped.
    pub async fn run(self: Arc<Self>) {
        let mut wanted = self.wanted.subscribe();
        let mut attempts = Attempts::default();
        loop {
            let pins: Vec<Digest> = wanted.borrow_and_update().values().filter_map(|asked| asked.wanted.pin).collect();
            attempts.see_to(&self);
            let fetcher = self.fetcher.clone();
            let pruned = tokio::task::spawn_blocking(move || fetcher.prune(&pins));
            if pruned.await.is_err() {
                tracing::warn!("clearing the cache of modules ended early");
            }
            loop {
                tokio::select! {
                    changed = wanted.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    () = attempts.one_ended() => attempts.see_to(&self),
                }
            }
        }
    }

    /// Tries until the module is there. A log line for every change of the reason, not for every attempt.
    async fn obtain(self: Arc<Self>, key: Digest, wanted: Wanted) {
        let mut failures = 0;
        loop {
            let fetched = self.fetch(&wanted).await;
            let before = self.known.lock().get(&key).cloned();
            let Some(error) = self.take(key, &wanted, fetched) else { return };
            failures += 1;
            let told = matches!(&before, Some(ModuleState::Failed(known)) if known.reason == error.reason);
            if !told {
                tracing::warn!(
                    plugin = %wanted.name, reason = %error.reason, next_step = %error.next_step,
                    "the module is not there: {error}; it is tried again"
                );
            }
            tokio::time::sleep(self.backoff.pause(failures, &error)).await;
        }
    }

    /// One attempt. A panic is a failure like another, after which there is a pause.
    async fn fetch(&self, wanted: &Wanted) -> Result<Bytes, FetchError> {
        AssertUnwindSafe(self.fetcher.fetch(wanted)).catch_unwind().await.unwrap_or_else(|_| {
            let message = format!("fetching {} ended early", wanted.source.shown());
            Err(FetchError::new(Reason::ServerError, message, "report this with the log"))
        })
    }

    /// Takes what an attempt came to; gives back why it failed.
    fn take(&self, key: Digest, wanted: &Wanted, fetched: Result<Bytes, FetchError>) -> Option<FetchError> {
        match fetched {
            Ok(module) => {
                if !self.fetcher.keeps(&wanted.source) {
                    self.held.lock().insert(key, module);
                }
                tracing::info!(plugin = %wanted.name, source = %wanted.source.shown(), "the module is there");
                self.become_state(key, ModuleState::Ready);
                None
            }
            Err(error) => {
                self.become_state(key, ModuleState::Failed(error.clone()));
                Some(error)
            }
        }
    }

    fn become_state(&self, key: Digest, state: ModuleState) {
        let mut known = self.known.lock();
        // What is wanted no more has no state.
        if known.get(&key).is_none_or(|before| *before == state) {
            return;
        }
        known.insert(key, state);
        drop(known);
        self.changed.send_modify(|count| *count += 1);
    }
}

// === impl Attempts ===

impl Attempts {
    /// Ends what is for nobody any more, and starts an attempt at all that is not there and that nothing tries. A module
    /// that was away from the wanted set is tried at once, however long a pause of its old attempt is.
    fn see_to(&mut self, modules: &Arc<Modules>) {
        let now = modules.wanted.borrow().clone();
        self.running.retain(|key, attempt| {
            let kept = now.get(key).is_some_and(|asked| asked.number == attempt.number);
            if !kept {
                attempt.task.abort();
            }
            kept && !attempt.task.is_finished()
        });
        for (key, Asked { wanted, number }) in now {
            if self.running.contains_key(&key) || modules.known.lock().get(&key) == Some(&ModuleState::Ready) {
                continue;
            }
            let task = self.tasks.spawn(Arc::clone(modules).obtain(key, wanted));
            self.running.insert(key, Attempt { number, task });
        }
    }

    /// Waits until a task ends. What it was for may have changed while it did.
    async fn one_ended(&mut self) {
        if self.tasks.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests;
