//! A source, and waiting for what it says.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use haptic_api as api;
use haptic_kubernetes::{Api, Content, Effect, ResourceState, Source, SourceSettings, Update, Wanted};
use haptic_store::{RawChange, RawObject, WatchedResource};
use tokio::time::timeout;

/// Longer than anything takes on a busy machine.
pub(crate) const BOUND: Duration = Duration::from_mins(1);

pub(crate) struct Followed {
    pub(crate) source: Source,
    /// All objects as the updates tell them, by resource and name.
    pub(crate) objects: BTreeMap<(String, String), Arc<RawObject>>,
}

// === impl Followed ===

impl Followed {
    pub(crate) fn start(api: Api, wanted: Vec<Wanted>, settings: SourceSettings) -> Self {
        Self { source: Source::start(api, wanted, settings), objects: BTreeMap::new() }
    }

    /// As [`Self::start`], and everything was delivered once.
    pub(crate) async fn synced(api: Api, wanted: Vec<Wanted>, settings: SourceSettings) -> Result<Self> {
        let mut left = wanted.len();
        let mut followed = Self::start(api, wanted, settings);
        while left > 0 {
            let update = followed.next().await?;
            left -= usize::from(update.synced);
        }
        Ok(followed)
    }

    pub(crate) async fn next(&mut self) -> Result<Update> {
        let update = timeout(BOUND, self.source.next()).await.context("no update came")??;
        for (change, effect) in &update.changes {
            match change {
                RawChange::Upsert(object) => {
                    let key = (update.resource.to_string(), object.name.to_string());
                    let before = self.objects.insert(key, Arc::clone(object));
                    ensure!(before.is_none() == (*effect == Effect::Added), "{effect:?} {object:?}");
                }
                RawChange::Delete(key) => {
                    let before = self.objects.remove(&(update.resource.to_string(), key.name.to_string()));
                    ensure!(before.is_some() && *effect == Effect::Removed, "{effect:?} {key:?}");
                }
            }
        }
        Ok(update)
    }

    /// The next update in short: effect and name of each change, sorted.
    pub(crate) async fn told(&mut self) -> Result<Vec<String>> {
        Ok(told(&self.next().await?))
    }

    /// Takes updates until the condition holds.
    pub(crate) async fn until(&mut self, condition: impl Fn(&Self) -> bool) -> Result<()> {
        while !condition(self) {
            self.next().await?;
        }
        Ok(())
    }

    pub(crate) fn names(&self, resource: &str) -> Vec<&str> {
        let of = self.objects.keys().filter(|(known, _)| known == resource);
        of.map(|(_, name)| name.as_str()).collect()
    }

    /// Waits until a resource stands so.
    pub(crate) async fn state(
        &self,
        resource: &str,
        condition: impl Fn(&ResourceState) -> bool,
    ) -> Result<ResourceState> {
        let mut states = self.source.states();
        let found = timeout(BOUND, states.wait_for(|states| states.get(resource).is_some_and(&condition))).await;
        let states = found.context("no such state came")??;
        Ok(states[resource].clone())
    }
}

pub(crate) fn told(update: &Update) -> Vec<String> {
    let mut told: Vec<_> = update
        .changes
        .iter()
        .map(|(change, effect)| match change {
            RawChange::Upsert(object) => format!("{effect:?} {}", object.name),
            RawChange::Delete(key) => format!("{effect:?} {}", key.name),
        })
        .collect();
    told.sort();
    told
}

/// A resource in one namespace.
pub(crate) fn spec(api_version: &str, resources: &str, namespace: &str) -> api::WatchedResource {
    api::WatchedResource {
        api_version: Some(api_version.to_owned()),
        resources: resources.to_owned(),
        namespaces: if namespace.is_empty() { Vec::new() } else { vec![namespace.to_owned()] },
        ..api::WatchedResource::default()
    }
}

/// Named as its plural.
pub(crate) fn wanted(spec: &api::WatchedResource) -> Wanted {
    Wanted::whole(WatchedResource::new(&spec.resources, spec, &[]).unwrap())
}

pub(crate) fn metadata(spec: &api::WatchedResource) -> Wanted {
    Wanted { content: Content::Metadata, ..wanted(spec) }
}

/// The labelled ConfigMaps of a namespace: not those that every namespace has.
pub(crate) fn config_maps(namespace: &str) -> Wanted {
    let spec =
        api::WatchedResource { label_selector: Some("test=yes".to_owned()), ..spec("v1", "configmaps", namespace) };
    wanted(&spec)
}
