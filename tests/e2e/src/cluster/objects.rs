//! Objects of any kind: applied, read, changed, deleted, and waited for by watching them.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, bail};
use futures_util::{StreamExt as _, pin_mut};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams},
    core::{DynamicObject, WatchEvent},
};
use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::cluster::Kind;

/// What a test does with the API server, as its administrator.
#[derive(Clone)]
pub struct Objects {
    client: Client,
}

/// Which objects of a kind.
#[derive(Clone, Copy, Debug)]
enum Selection<'a> {
    Named(&'a str),
    /// A label selector; empty = all.
    Labelled(&'a str),
}

/// Longer than anything takes that works on a busy machine.
pub(super) const BOUND: Duration = Duration::from_mins(2);
/// Between two tries of a server that does not answer.
const RETRY: Duration = Duration::from_millis(100);
/// Requests at a time where there are thousands.
const AT_A_TIME: usize = 16;
const MANAGER: &str = "haptic-e2e";

// === impl Objects ===

impl Objects {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// As `kubectl apply --server-side --force-conflicts` does it, with strict validation.
    pub async fn apply(&self, object: &Value) -> Result<Value> {
        let (kind, namespace, name) = address(object)?;
        let params = PatchParams::apply(MANAGER).force().validation_strict();
        let applied = self.api(kind, namespace).patch(name, &params, &Patch::Apply(object)).await;
        value(applied).with_context(|| format!("apply {} {namespace}/{name}", kind.kind))
    }

    /// What the server makes of an object that is applied, with strict validation and all of admission; nothing is stored.
    pub async fn try_out(&self, object: &Value) -> Result<Value> {
        let (kind, namespace, name) = address(object)?;
        let params = PatchParams { dry_run: true, ..PatchParams::apply(MANAGER).force().validation_strict() };
        let applied = self.api(kind, namespace).patch(name, &params, &Patch::Apply(object)).await;
        value(applied).with_context(|| format!("try out {} {namespace}/{name}", kind.kind))
    }

    /// Makes objects that are not there yet, many at a time.
    pub async fn create_all(&self, objects: Vec<Value>) -> Result<()> {
        let mut running: JoinSet<Result<()>> = JoinSet::new();
        for object in objects {
            if running.len() >= AT_A_TIME {
                running.join_next().await.transpose().context("make objects")?.transpose()?;
            }
            let objects = self.clone();
            running.spawn(async move {
                let (kind, namespace, name) = address(&object)?;
                let wanted: DynamicObject = serde_json::from_value(object.clone()).context("read an object")?;
                let created = objects.api(kind, namespace).create(&PostParams::default(), &wanted).await;
                created.map(|_| ()).with_context(|| format!("make {} {namespace}/{name}", kind.kind))
            });
        }
        while let Some(made) = running.join_next().await {
            made.context("make objects")??;
        }
        Ok(())
    }

    /// `Null` if there is none.
    pub async fn get(&self, kind: Kind, namespace: &str, name: &str) -> Result<Value> {
        let found = self.api(kind, namespace).get_opt(name).await;
        let found = found.with_context(|| format!("read {} {namespace}/{name}", kind.kind))?;
        found.map_or(Ok(Value::Null), |found| serde_json::to_value(found).context("read an object"))
    }

    /// Changes what the patch names (a merge patch).
    pub async fn merge(&self, kind: Kind, namespace: &str, name: &str, patch: &Value) -> Result<Value> {
        let patched = self.api(kind, namespace).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        value(patched).with_context(|| format!("change {} {namespace}/{name}", kind.kind))
    }

    /// One that is gone already is fine.
    pub async fn delete(&self, kind: Kind, namespace: &str, name: &str) -> Result<()> {
        match self.api(kind, namespace).delete(name, &DeleteParams::background()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted.map(|_| ()).with_context(|| format!("delete {} {namespace}/{name}", kind.kind)),
        }
    }

    /// With a label selector; empty = all.
    pub async fn list(&self, kind: Kind, namespace: &str, labels: &str) -> Result<Vec<Value>> {
        let (found, _) = self.listed(kind, namespace, Selection::Labelled(labels)).await?;
        Ok(found.into_values().collect())
    }

    /// Waits until the object (`Null` = there is none) makes the condition answer.
    pub async fn until<T>(
        &self,
        (kind, namespace, name): (Kind, &str, &str),
        what: &str,
        mut condition: impl FnMut(&Value) -> Option<T>,
    ) -> Result<T> {
        let found = |all: &BTreeMap<String, Value>| condition(all.get(name).unwrap_or(&Value::Null));
        self.watched(kind, namespace, Selection::Named(name), what, BOUND, found).await
    }

    /// Waits until all objects with these labels, sorted by name, make the condition answer.
    pub async fn until_all<T>(
        &self,
        (kind, namespace, labels): (Kind, &str, &str),
        what: &str,
        mut condition: impl FnMut(&[&Value]) -> Option<T>,
    ) -> Result<T> {
        let found = |all: &BTreeMap<String, Value>| condition(&all.values().collect::<Vec<_>>());
        self.watched(kind, namespace, Selection::Labelled(labels), what, BOUND, found).await
    }

    async fn watched<T>(
        &self,
        kind: Kind,
        namespace: &str,
        selection: Selection<'_>,
        what: &str,
        bound: Duration,
        mut condition: impl FnMut(&BTreeMap<String, Value>) -> Option<T>,
    ) -> Result<T> {
        let mut last = BTreeMap::new();
        let waiting = async {
            let mut tries = interval(RETRY);
            tries.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tries.tick().await;
                // The server may be stopped by the test; the bound is all that ends this.
                if let Ok(Some(answer)) = self.watch_once(kind, namespace, selection, &mut last, &mut condition).await {
                    return answer;
                }
            }
        };
        let waited = timeout(bound, waiting).await;
        waited.map_err(|_| {
            let shown: Vec<_> = last.values().map(in_short).collect();
            anyhow::anyhow!("waited {bound:?} in vain for: {what}; there is {} {}", kind.kind, shown.join("\n"))
        })
    }

    /// `None` = the watch ended.
    async fn watch_once<T>(
        &self,
        kind: Kind,
        namespace: &str,
        selection: Selection<'_>,
        all: &mut BTreeMap<String, Value>,
        condition: &mut impl FnMut(&BTreeMap<String, Value>) -> Option<T>,
    ) -> Result<Option<T>> {
        let version;
        (*all, version) = self.listed(kind, namespace, selection).await?;
        if let Some(answer) = condition(all) {
            return Ok(Some(answer));
        }
        let params = match selection {
            Selection::Named(name) => WatchParams::default().fields(&format!("metadata.name={name}")),
            Selection::Labelled(labels) => WatchParams::default().labels(labels),
        };
        let events = self.api(kind, namespace).watch(&params, &version).await.context("watch")?;
        pin_mut!(events);
        while let Some(event) = events.next().await {
            match event.context("watch")? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    let object = serde_json::to_value(object).context("read an object")?;
                    all.insert(name_of(&object), object);
                }
                WatchEvent::Deleted(object) => {
                    all.remove(&object.metadata.name.unwrap_or_default());
                }
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => bail!("the watch ended: {status:?}"),
            }
            if let Some(answer) = condition(all) {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    async fn listed(
        &self,
        kind: Kind,
        namespace: &str,
        selection: Selection<'_>,
    ) -> Result<(BTreeMap<String, Value>, String)> {
        let params = match selection {
            Selection::Named(name) => ListParams::default().fields(&format!("metadata.name={name}")),
            Selection::Labelled(labels) => ListParams::default().labels(labels),
        };
        let list = self.api(kind, namespace).list(&params).await.with_context(|| format!("list {}", kind.plural))?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let mut all = BTreeMap::new();
        for object in list.items {
            let mut object = serde_json::to_value(object).context("read an object")?;
            object["kind"] = kind.kind.into();
            all.insert(name_of(&object), object);
        }
        Ok((all, version))
    }

    fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        let resource = kind.resource();
        if kind.namespaced && !namespace.is_empty() {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }
}

fn value(object: kube::Result<DynamicObject>) -> Result<Value> {
    serde_json::to_value(object?).context("read an object")
}

fn address(object: &Value) -> Result<(Kind, &str, &str)> {
    let kind = Kind::of(object)?;
    let name = object["metadata"]["name"].as_str().with_context(|| format!("a {} has no name", kind.kind))?;
    Ok((kind, object["metadata"]["namespace"].as_str().unwrap_or_default(), name))
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// What a person needs who reads why a test failed.
fn in_short(object: &Value) -> String {
    let status = if object["status"].is_null() { &object["spec"] } else { &object["status"] };
    format!("{}: {status}", name_of(object))
}
