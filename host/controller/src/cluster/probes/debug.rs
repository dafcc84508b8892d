//! What the debug server shows of the iteration that serves. Names, numbers and states; never content of objects, files
//! or Secrets.

use std::{collections::BTreeMap, fmt, sync::Arc};

use haptic_kubernetes::Leadership;
use parking_lot::RwLock;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::{
    bus::EventBus,
    cluster::{Fleet, RejectedPod},
    commentator::History,
    core::ActiveCore,
    events::EventKind,
    overview::Overview,
    pod::Pod,
};

/// The variables that are shown now, registered by Stage 8 of each iteration, and what the status page shows. Cheap to
/// clone.
#[derive(Clone, Debug, Default)]
pub struct Debugged {
    registered: Arc<RwLock<Option<Registered>>>,
    overview: Overview,
}

/// The variables of one iteration, read when somebody asks.
#[derive(Default)]
pub struct Variables(BTreeMap<&'static str, Read>);

type Read = Box<dyn Fn() -> Value + Send + Sync>;

#[derive(Debug)]
struct Registered {
    iteration: u64,
    variables: Arc<Variables>,
}

// === impl Debugged ===

impl Debugged {
    /// Shows these from now on, and those of no other iteration.
    pub fn register(&self, iteration: u64, variables: Variables) {
        *self.registered.write() = Some(Registered { iteration, variables: Arc::new(variables) });
    }

    /// Shows them no longer, unless a later iteration has registered its own meanwhile.
    pub fn withdraw(&self, iteration: u64) {
        self.registered.write().take_if(|registered| registered.iteration == iteration);
        self.overview.ends(iteration);
    }

    pub fn overview(&self) -> &Overview {
        &self.overview
    }

    pub(super) fn values(&self) -> Map<String, Value> {
        let registered = self.registered.read().as_ref().map(|it| (it.iteration, it.variables.clone()));
        // Read without the lock: a variable may take a lock of its own.
        let Some((iteration, variables)) = registered else { return Map::new() };
        let mut values: Map<_, _> = variables.0.iter().map(|(name, read)| ((*name).to_owned(), read())).collect();
        values.insert("iteration".to_owned(), json!(iteration));
        values
    }
}

// === impl Variables ===

impl Variables {
    /// One more. What `read` gives is shown to whoever asks on this machine: no secret, and not much.
    #[must_use]
    pub fn with(mut self, name: &'static str, read: impl Fn() -> Value + Send + Sync + 'static) -> Self {
        self.0.insert(name, Box::new(read));
        self
    }

    /// `leadership`: who leads, and with which epoch.
    #[must_use]
    pub fn leadership(self, leadership: watch::Receiver<Leadership>) -> Self {
        self.with("leadership", move || shown(&leadership.borrow()))
    }

    /// `pods`, `rejectedPods` and `seenEpoch`.
    #[must_use]
    pub fn fleet(self, fleet: &Fleet) -> Self {
        let (pods, rejected, epoch) = (fleet.pods(), fleet.rejected(), fleet.seen_epoch());
        let why = |pod: &RejectedPod| json!({ "name": *pod.name, "reason": *pod.reason });
        self.with("pods", move || pods.borrow().iter().map(pod).collect())
            .with("rejectedPods", move || rejected.borrow().iter().map(why).collect())
            .with("seenEpoch", move || json!(*epoch.borrow()))
    }

    /// `mailboxes`: how many events wait for each subscriber.
    #[must_use]
    pub fn mailboxes(self, bus: Arc<EventBus>) -> Self {
        self.with("mailboxes", move || json!(bus.depths()))
    }

    /// `resources`: how many objects there are of each watched resource.
    #[must_use]
    pub fn resources(self, core: ActiveCore) -> Self {
        self.with("resources", move || {
            let snapshot = core.get().store.lock().snapshot();
            snapshot.resources().map(|name| (name.to_string(), json!(snapshot.count(name)))).collect()
        })
    }

    /// `lastReconciliation` and `lastFailure`, as the history has them.
    #[must_use]
    pub fn reconciliations(self, history: History) -> Self {
        let newest = |history: &History, kind: EventKind| {
            json!(history.newest_last().into_iter().rfind(|remembered| remembered.event == kind.name()))
        };
        let other = history.clone();
        self.with("lastReconciliation", move || newest(&history, EventKind::ReconciliationCompleted))
            .with("lastFailure", move || newest(&other, EventKind::ReconciliationFailed))
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

fn shown(leadership: &Leadership) -> Value {
    match leadership {
        Leadership::Follower { holder } => json!({ "leads": false, "holder": holder.as_deref() }),
        Leadership::Leader { epoch } => json!({ "leads": true, "epoch": epoch }),
    }
}

fn pod(pod: &Pod) -> Value {
    let haproxy = pod.haproxy.map(|(major, minor)| format!("{major}.{minor}"));
    json!({ "name": *pod.name, "uid": *pod.uid, "agent": pod.endpoint.to_string(), "haproxy": haproxy })
}
