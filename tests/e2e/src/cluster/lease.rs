//! Every state of a Lease while it is watched: who held it, and in which epoch.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt as _, pin_mut};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{ListParams, WatchParams},
    core::WatchEvent,
};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Duration, Instant, MissedTickBehavior, interval, timeout},
};

/// Watches until it is dropped.
pub struct LeaseHistory {
    states: watch::Receiver<Vec<LeaseState>>,
    task: JoinHandle<()>,
}

/// One state, as the API server told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseState {
    /// When it was heard of.
    pub at: Instant,
    /// `None` = nobody: it was released, deleted, or never there.
    pub holder: Option<Arc<str>>,
    /// 0 = none is written down.
    pub epoch: u64,
}

const FENCING_EPOCH: &str = "haptic.rs/fencing-epoch";
const BOUND: Duration = Duration::from_mins(2);
const RETRY: Duration = Duration::from_millis(100);

// === impl LeaseHistory ===

impl LeaseHistory {
    /// From now on.
    pub(super) fn start(client: Client, namespace: &str, name: &str) -> Self {
        let (sender, states) = watch::channel(Vec::new());
        let api: Api<Lease> = Api::namespaced(client, namespace);
        let fields = format!("metadata.name={name}");
        let task = tokio::spawn(async move {
            let mut tries = interval(RETRY);
            tries.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tries.tick().await;
                // The test may stop the server; what happens meanwhile is nothing.
                let _ = follow(&api, &fields, &sender).await;
            }
        });
        Self { states, task }
    }

    /// The states so far.
    pub fn states(&self) -> Vec<LeaseState> {
        self.states.borrow().clone()
    }

    /// Waits until the last state makes the condition answer.
    pub async fn until<T>(&self, what: &str, mut condition: impl FnMut(&LeaseState) -> Option<T>) -> Result<T> {
        let mut states = self.states.clone();
        let mut answer = None;
        let holds = |states: &Vec<LeaseState>| {
            answer = states.last().and_then(&mut condition);
            answer.is_some()
        };
        let waited = timeout(BOUND, states.wait_for(holds)).await.map(|waited| waited.map(|_| ()));
        waited
            .with_context(|| format!("waited {BOUND:?} in vain for: {what}; the Lease was {:?}", self.states()))??;
        answer.context("it was waited for")
    }

    /// An epoch never falls, and has one holder for ever.
    pub fn check_epochs(&self) -> Result<()> {
        let states = self.states();
        for pair in states.windows(2) {
            ensure!(pair[1].epoch >= pair[0].epoch, "the epoch fell: {pair:?}");
        }
        let held = states.iter().filter_map(|state| state.holder.as_ref().map(|holder| (state.epoch, holder)));
        let mut holders = std::collections::BTreeMap::new();
        for (epoch, holder) in held {
            let first = holders.entry(epoch).or_insert(holder);
            ensure!(*first == holder, "epoch {epoch} had the holders {first} and {holder}: {states:?}");
        }
        Ok(())
    }
}

impl Drop for LeaseHistory {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(api: &Api<Lease>, fields: &str, sender: &watch::Sender<Vec<LeaseState>>) -> Result<()> {
    let list = api.list(&ListParams::default().fields(fields)).await?;
    record(sender, list.items.first());
    let version = list.metadata.resource_version.unwrap_or_default();
    let events = api.watch(&WatchParams::default().fields(fields), &version).await?;
    pin_mut!(events);
    while let Some(event) = events.next().await {
        match event? {
            WatchEvent::Added(lease) | WatchEvent::Modified(lease) => record(sender, Some(&lease)),
            WatchEvent::Deleted(_) => record(sender, None),
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
        }
    }
    Ok(())
}

/// Renewals are no news.
fn record(sender: &watch::Sender<Vec<LeaseState>>, lease: Option<&Lease>) {
    let spec = lease.and_then(|lease| lease.spec.as_ref());
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref()).filter(|holder| !holder.is_empty());
    let annotations = lease.and_then(|lease| lease.metadata.annotations.as_ref());
    let epoch = annotations.and_then(|annotations| annotations.get(FENCING_EPOCH)?.parse().ok());
    let last = sender.borrow().last().cloned();
    // A Lease that was deleted has no epoch; what was written down before stays true.
    let epoch = epoch.unwrap_or_else(|| last.as_ref().map_or(0, |last| last.epoch));
    let state = LeaseState { at: Instant::now(), holder: holder.map(Arc::from), epoch };
    if last.is_none_or(|last| (last.holder, last.epoch) != (state.holder.clone(), state.epoch)) {
        sender.send_modify(|states| states.push(state));
    }
}
