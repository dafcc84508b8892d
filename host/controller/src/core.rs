//! What one accepted configuration made: compiled templates, validators, the store they read, and settings. Replaced
//! as a whole, in place, while everything else goes on.

use std::{sync::Arc, time::Duration};

use haptic_model::ObjectRef;
use haptic_plugins::PluginSet;
use haptic_render::Memo;
use haptic_store::{Object, Snapshot, Store};
use parking_lot::{Mutex, RwLock};

use crate::{
    check::CheckBounds,
    config::TemplateSources,
    pipeline::{Pacing, Pipeline},
    quarantine::Fingerprint,
};

pub struct Core {
    /// For a person, e.g. `HAProxyTemplateConfig default/shop`.
    pub name: Arc<str>,
    pub pipeline: Pipeline,
    pub plugins: Arc<PluginSet>,
    /// Of this core's renders; one render at a time.
    pub memo: Mutex<Memo>,
    pub store: Mutex<Store>,
    pub settings: Settings,
    /// What is told to others than HAProxy.
    pub reporting: Arc<Reporting>,
    pub sources: TemplateSources,
}

/// What a cluster is told besides HAProxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reporting {
    /// Output of more bytes is published compressed; `None` = 1 MiB.
    pub compression_threshold: Option<u64>,
    /// `None` = no Ingress status is written.
    pub ingress_status: Option<haptic_api::IngressStatus>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Acts per pod after the diff: the interval between reloads goes with every apply, and the agent paces with it.
    pub pacing: Pacing,
    /// Default 60 s.
    pub drift_prevention_interval: Duration,
    /// Between two checks of the render gate, so that a storm of changes does not keep a core busy. Default 1 s; the
    /// first check after a quiet interval and the check of a held render start at once.
    pub gate_interval: Duration,
    /// Default true. Without the gate nothing is promoted to last known good but what a reload has loaded.
    pub gate_enabled: bool,
    /// What one `haproxy -c` may take, whoever asks for it.
    pub check: CheckBounds,
}

/// The core that serves. Readers take it for as long as one piece of work lasts.
#[derive(Clone)]
pub struct ActiveCore(Arc<RwLock<Arc<Core>>>);

/// The object's version in a snapshot; `None` = it is not there.
pub fn fingerprint(snapshot: &Snapshot, object: &ObjectRef) -> Option<Fingerprint> {
    find(snapshot, object).map(|found| found.serial())
}

/// The object in a snapshot.
pub(crate) fn find(snapshot: &Snapshot, object: &ObjectRef) -> Option<Arc<Object>> {
    for resource in snapshot.resources() {
        let Ok(objects) = snapshot.list(resource) else { continue };
        // All objects of a resource have one kind, which spares looking through the others.
        if objects.first().is_none_or(|first| first.reference().kind != object.kind) {
            continue;
        }
        if let Some(found) = objects.iter().find(|candidate| candidate.reference() == object) {
            return Some(found.clone());
        }
    }
    None
}

// === impl ActiveCore ===

impl ActiveCore {
    pub fn new(core: Arc<Core>) -> Self {
        Self(Arc::new(RwLock::new(core)))
    }

    pub fn get(&self) -> Arc<Core> {
        self.0.read().clone()
    }

    pub fn replace(&self, core: Arc<Core>) {
        *self.0.write() = core;
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pacing: Pacing::default(),
            drift_prevention_interval: Duration::from_mins(1),
            gate_interval: Duration::from_secs(1),
            gate_enabled: true,
            check: CheckBounds::default(),
        }
    }
}
