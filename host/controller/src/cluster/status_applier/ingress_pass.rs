//! The load balancer status of Ingresses: the addresses stand in it as long as every pod serves text of the Ingress.
//! Entries of others are never touched.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use haptic_kubernetes::{Api, Trouble};
use haptic_model::ObjectRef;
use haptic_store::Object;
use serde_json::{Value, json};

use crate::{
    cluster::{
        ConfigOwner, OwnWrites,
        objects::{CONFIG, INGRESS, record},
        revise::{Revised, revise},
        status_applier::{
            config_pass::{keep_addresses, known_addresses},
            pass::Pass,
            picture::Picture,
            publish_service::{Addresses, PublishService, address, entry},
        },
    },
    core::ActiveCore,
    pipeline::Render,
};

/// Writes at the same time.
const PARALLEL: usize = 8;

pub(super) struct IngressPass {
    api: Api,
    core: ActiveCore,
    own_writes: OwnWrites,
    service: PublishService,
    /// Every address that may stand in a status because of us; `None` until it was read.
    own: Option<BTreeSet<Arc<str>>>,
    /// What was found right or made right.
    right: BTreeMap<ObjectRef, Right>,
    audit: u64,
}

/// In which state an Ingress says what it is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Right {
    /// Of the object in the store; `None` = it is to be compared again.
    serial: Option<u64>,
    addresses: Arc<BTreeSet<Arc<str>>>,
    /// Entries of ours stand in it.
    marked: bool,
}

/// One Ingress to write.
struct Task {
    object: ObjectRef,
    /// Of the object in the store; `None` = the store does not hold it any more.
    serial: Option<u64>,
    addresses: Arc<BTreeSet<Arc<str>>>,
}

// === impl IngressPass ===

impl IngressPass {
    pub(super) fn new(api: Api, core: ActiveCore, own_writes: OwnWrites) -> Self {
        let service = PublishService::default();
        Self { api, core, own_writes, service, own: None, right: BTreeMap::new(), audit: 0 }
    }

    async fn wanted(&mut self, owner: &ConfigOwner) -> Result<Option<Addresses>, Trouble> {
        match &self.core.get().reporting.ingress_status {
            Some(settings) => self.service.addresses(&self.api, settings, &owner.namespace).await,
            // What was written before it was switched off is taken back.
            None => Ok(Some(Addresses::default())),
        }
    }

    /// What differs, as far as the store knows.
    fn tasks(&mut self, render: &Render, own: &BTreeSet<Arc<str>>, wanted: &Arc<BTreeSet<Arc<str>>>) -> Vec<Task> {
        let served = served(render);
        let none: Arc<BTreeSet<Arc<str>>> = Arc::default();
        let mut tasks = Vec::new();
        let mut present = BTreeSet::new();
        for object in ingresses(render) {
            let reference = object.reference();
            if !present.insert(reference.clone()) {
                continue;
            }
            let addresses = if served.contains(reference) { wanted } else { &none };
            let serial = Some(object.serial());
            let known = self.right.get(reference);
            if known.is_some_and(|right| right.serial == serial && right.addresses == *addresses) {
                continue;
            }
            let marked = known.is_some_and(|right| right.marked);
            let entries = entries_of(&object);
            // Whoever hides the status from the store hides what we wrote, too.
            let hidden = entries.is_empty() && marked;
            if !hidden && next(&entries, own, addresses).is_none() {
                let right = Right { serial, addresses: addresses.clone(), marked: !addresses.is_empty() };
                self.right.insert(reference.clone(), right);
                continue;
            }
            tasks.push(Task { object: reference.clone(), serial, addresses: addresses.clone() });
        }
        // One that the store does not hold any more may only have left the selection.
        self.right.retain(|reference, right| present.contains(reference) || right.marked);
        let left = self.right.iter().filter(|(reference, _)| !present.contains(*reference));
        tasks.extend(left.map(|(object, _)| Task { object: object.clone(), serial: None, addresses: none.clone() }));
        tasks
    }

    async fn write_one(&self, task: &Task, own: &BTreeSet<Arc<str>>) -> Result<(), Trouble> {
        let objects = INGRESS.objects(&self.api, &task.object.namespace);
        let revised = revise(&objects, &task.object.name, None, |object| {
            let entries = object.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
            let next = next(entries.map_or(&[], Vec::as_slice), own, &task.addresses)?;
            Some(json!({ "loadBalancer": { "ingress": next } }))
        });
        if let Revised::Written(object) = revised.await? {
            record(&self.own_writes, &object);
        }
        Ok(())
    }
}

impl Pass for IngressPass {
    const WRITES: &'static str = "Ingress.status";

    async fn write(&mut self, picture: &Picture) -> Result<Option<Duration>, Trouble> {
        let Some(owner) = &picture.standing.owner else { return Ok(None) };
        let Some(render) = &picture.settled else { return Ok(None) };
        if self.audit != picture.audit {
            self.audit = picture.audit;
            // What is marked stays known: its entries must be taken back one day.
            self.right.values_mut().for_each(|right| right.serial = None);
        }
        let configs = CONFIG.objects(&self.api, &owner.namespace);
        let mut own = match &self.own {
            Some(own) => own.clone(),
            None => known_addresses(&configs, owner).await?.into_iter().map(Arc::from).collect(),
        };
        let Some(Addresses { all: wanted, again }) = self.wanted(owner).await? else {
            return Ok(Some(LOOK_AGAIN));
        };
        if !wanted.is_subset(&own) {
            own.extend(wanted.iter().cloned());
            // Before the first of them is written: the next leader must know them for ours.
            keep_addresses(&configs, owner, &texts(&own), &self.own_writes).await?;
        }
        self.own = Some(own.clone());
        if own.is_empty() {
            return Ok(again);
        }
        let wanted = Arc::new(wanted);
        let tasks = self.tasks(render, &own, &wanted);
        let this = &*self;
        let own = &own;
        let written = stream::iter(tasks).map(|task| async move {
            let result = this.write_one(&task, own).await;
            (task, result)
        });
        let written: Vec<_> = written.buffer_unordered(PARALLEL).collect().await;
        let mut failed = None;
        for (task, result) in written {
            match result {
                Ok(()) if task.serial.is_none() => {
                    self.right.remove(&task.object);
                }
                Ok(()) => {
                    let marked = !task.addresses.is_empty();
                    let right = Right { serial: task.serial, addresses: task.addresses, marked };
                    self.right.insert(task.object, right);
                }
                Err(trouble) => {
                    tracing::debug!(object = %task.object, %trouble, "the status of an Ingress could not be written");
                    failed = Some(trouble);
                }
            }
        }
        if let Some(trouble) = failed {
            return Err(trouble);
        }
        if *own != *wanted {
            // Nothing says them any more.
            keep_addresses(&configs, owner, &texts(&wanted), &self.own_writes).await?;
            self.own = Some((*wanted).clone());
        }
        Ok(again)
    }
}

/// When the Service that is named is not there.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// The list as it is to be; `None` = as it is.
fn next(entries: &[Value], own: &BTreeSet<Arc<str>>, wanted: &BTreeSet<Arc<str>>) -> Option<Vec<Value>> {
    let stays = |address: &Arc<str>| wanted.contains(address) || !own.contains(address);
    let mut list: Vec<Value> =
        entries.iter().filter(|entry| address(entry).is_none_or(|address| stays(&address))).cloned().collect();
    let present: BTreeSet<Arc<str>> = list.iter().filter_map(address).collect();
    list.extend(wanted.difference(&present).map(|address| entry(address)));
    (list != entries).then_some(list)
}

/// Ingresses that have text in the render.
fn served(render: &Render) -> BTreeSet<&ObjectRef> {
    let spans = render.output.rendered.sources.files.values().flat_map(|spans| spans.iter());
    let objects = spans.filter_map(|span| span.origin.object.as_ref());
    objects.filter(|object| &*object.kind == INGRESS.name).collect()
}

/// All that the render was made from.
fn ingresses(render: &Render) -> Vec<Arc<Object>> {
    let mut all = Vec::new();
    for resource in render.snapshot.resources() {
        let Ok(objects) = render.snapshot.list(resource) else { continue };
        // All objects of a resource have one kind.
        if objects.first().is_some_and(|first| &*first.reference().kind == INGRESS.name && is_of_group(first)) {
            all.extend(objects.iter().cloned());
        }
    }
    all
}

fn is_of_group(object: &Arc<Object>) -> bool {
    let group = INGRESS.api_version.split_once('/').map_or("", |(group, _)| group);
    let api_version = object.as_value().get_attr("apiVersion");
    api_version.is_ok_and(|version| version.as_str().is_some_and(|version| version.starts_with(group)))
}

fn entries_of(object: &Arc<Object>) -> Vec<Value> {
    let value = object.as_value();
    let entries = value
        .get_attr("status")
        .and_then(|status| status.get_attr("loadBalancer"))
        .and_then(|balancer| balancer.get_attr("ingress"));
    match entries.ok().and_then(|entries| serde_json::to_value(entries).ok()) {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    }
}

fn texts(addresses: &BTreeSet<Arc<str>>) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests;
