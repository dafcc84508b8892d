//! In which versions the watched resources are served. An iteration stays with what it was proved with; a difference is
//! a reason to build a successor, which is proved with the other version before it takes over.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use haptic_kubernetes::{Api, Discovery, Served, Trouble, Wanted};
use haptic_model::{Finding, FindingCode};
use haptic_store::WatchedResource;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::cluster::reload_authority::ReloadAuthority;

/// How each watched resource is served; `None` = it is optional and not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolution(BTreeMap<Arc<str>, Option<Served>>);

/// Why there is no resolution.
#[derive(Debug)]
pub(crate) enum Unresolved {
    /// Nothing can be said now; ask again.
    Trouble(Trouble),
    /// The server does not have what the configuration wants.
    Refused(Vec<Finding>),
}

/// Compares discovery with what the iteration was made with: once at its start, and whenever definitions change.
pub(crate) struct SchemaWatch {
    discovery: Discovery,
    wanted: Vec<WatchedResource>,
    resolution: Resolution,
    definitions: watch::Receiver<u64>,
    authority: Arc<ReloadAuthority>,
    stop: CancellationToken,
}

// === impl Resolution ===

impl Resolution {
    /// Asks how all these resources are served.
    pub(crate) async fn of(api: &Api, resources: &[WatchedResource]) -> Result<Self, Unresolved> {
        let discovery = Discovery::new(api.clone());
        let (mut resolved, mut missing) = (BTreeMap::new(), Vec::new());
        for spec in resources {
            match discovery.require(&Wanted::whole(spec.clone())).await {
                Ok(served) => {
                    resolved.insert(spec.name.clone(), served);
                }
                Err(trouble @ (Trouble::Missing { .. } | Trouble::OtherKind { .. } | Trouble::Unwatchable { .. })) => {
                    let message = format!("watchedResources.{}: {trouble}", spec.name);
                    missing.push(Finding::error(FindingCode::ConfigInvalid, message));
                }
                Err(trouble) => return Err(Unresolved::Trouble(trouble)),
            }
        }
        if missing.is_empty() { Ok(Self(resolved)) } else { Err(Unresolved::Refused(missing)) }
    }

    /// What a source is to follow: a resource with several versions stays with the one that was found.
    pub(crate) fn pinned(&self, spec: &WatchedResource) -> Wanted {
        let mut spec = spec.clone();
        if spec.versions.len() > 1
            && let Some(Some(served)) = self.0.get(&spec.name)
        {
            spec.versions = vec![served.api_version.to_string()];
            // That it is gone in this version does not say that its objects are.
            spec.optional = false;
        }
        Wanted::stored(spec)
    }

    /// The version in which it was found, or the first that it names.
    pub(crate) fn version<'a>(&'a self, spec: &'a WatchedResource) -> &'a str {
        let served = self.0.get(&spec.name).and_then(Option::as_ref);
        served.map_or_else(|| spec.versions[0].as_str(), |served| &*served.api_version)
    }
}

// === impl SchemaWatch ===

impl SchemaWatch {
    pub(crate) fn new(
        api: &Api,
        resources: &[WatchedResource],
        resolution: Resolution,
        definitions: watch::Receiver<u64>,
        authority: Arc<ReloadAuthority>,
        stop: CancellationToken,
    ) -> Self {
        // The source itself sees those with one version come and go.
        let wanted = resources.iter().filter(|spec| spec.versions.len() > 1).cloned().collect();
        Self { discovery: Discovery::new(api.clone()), wanted, resolution, definitions, authority, stop }
    }

    /// Ends when it is told to stop.
    pub(crate) async fn run(mut self) {
        let stop = self.stop.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.watch() => {}
        }
    }

    async fn watch(&mut self) {
        loop {
            if let Some(resource) = self.differs().await {
                tracing::info!(%resource, "it is served otherwise than before: a successor is built");
                self.authority.schema_changed();
            }
            tokio::select! {
                Ok(()) = self.definitions.changed() => {
                    // A definition is served a moment after it is made, and many may come together.
                    sleep(SETTLE).await;
                    self.definitions.mark_unchanged();
                }
                // Definitions may not be watched by everybody.
                () = sleep(LOOK_AGAIN) => {}
            }
        }
    }

    async fn differs(&self) -> Option<Arc<str>> {
        for spec in &self.wanted {
            // Without an answer nothing is different.
            let Ok(served) = self.discovery.resolve(&Wanted::whole(spec.clone())).await else { continue };
            let before = self.resolution.0.get(&spec.name).cloned().flatten();
            // A required resource that is not served at all keeps its last good objects.
            let gone = served.is_none() && !spec.optional;
            if served != before && !gone {
                return Some(spec.name.clone());
            }
        }
        None
    }
}

const SETTLE: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_secs(30);
