//! The status of the `HAProxyTemplateConfig`.

use std::{sync::Arc, time::Duration};

use haptic_api::ConfigConditionType;
use haptic_kubernetes::{Api, Objects, Trouble};
use serde_json::{Value, json};

use crate::{
    clock::WallClock,
    cluster::{
        ConfigOwner, OwnWrites,
        condition::{Draft, merged},
        objects::{CONFIG, record},
        revise::{Revised, revise},
        status_applier::{
            conditions::{Gate, accepted, degraded, deployed, validated},
            pass::Pass,
            picture::Picture,
        },
    },
    core::ActiveCore,
};

pub(super) struct ConfigPass {
    api: Api,
    /// `None` = nothing serves yet: only whether it is accepted is told.
    core: Option<ActiveCore>,
    own_writes: OwnWrites,
    clock: WallClock,
    grace: Duration,
    asserted: Option<Asserted>,
}

/// What the object said when it was read or written last.
#[derive(PartialEq, Eq)]
struct Asserted {
    uid: Arc<str>,
    drafts: Vec<Draft>,
    audit: u64,
}

// === impl ConfigPass ===

impl ConfigPass {
    pub(super) fn new(api: Api, core: ActiveCore, own_writes: OwnWrites, clock: WallClock, grace: Duration) -> Self {
        Self { api, core: Some(core), own_writes, clock, grace, asserted: None }
    }

    pub(super) fn standing_only(api: Api, own_writes: OwnWrites, clock: WallClock) -> Self {
        Self { api, core: None, own_writes, clock, grace: Duration::ZERO, asserted: None }
    }

    /// The conditions, and after which time they may be others.
    fn drafts(&self, picture: &Picture) -> (Vec<Draft>, Option<Duration>) {
        let standing = &picture.standing;
        let mut drafts = vec![accepted(standing)];
        let Some(core) = &self.core else { return (drafts, None) };
        let generation = standing.serving.as_ref().map(|serving| serving.generation);
        let gate = if core.get().settings.gate_enabled { Gate::On } else { Gate::Off };
        drafts.push(validated(picture, gate, generation));
        let (is_deployed, again) = self.patient(picture, deployed(picture, generation));
        drafts.extend(is_deployed);
        drafts.push(degraded(picture, generation));
        (drafts, again)
    }

    /// A change that the pods take as expected is no news: what was said before stands for a moment.
    fn patient(&self, picture: &Picture, draft: Draft) -> (Option<Draft>, Option<Duration>) {
        let passing = [haptic_api::ConfigReason::Deploying, haptic_api::ConfigReason::ReloadScheduled];
        let waited = picture.newest.as_ref().map_or(Duration::MAX, |newest| newest.since.elapsed());
        if waited >= self.grace || passing.iter().all(|reason| reason.to_string() != draft.reason) {
            return (Some(draft), None);
        }
        let of_before = self.asserted.as_ref().and_then(|asserted| {
            asserted.drafts.iter().find(|known| known.kind == ConfigConditionType::Deployed.to_string()).cloned()
        });
        (of_before, Some(self.grace.saturating_sub(waited)))
    }
}

impl Pass for ConfigPass {
    const WRITES: &'static str = "HAProxyTemplateConfig.status";

    async fn write(&mut self, picture: &Picture) -> Result<Option<Duration>, Trouble> {
        let Some(owner) = &picture.standing.owner else { return Ok(None) };
        let (drafts, again) = self.drafts(picture);
        let asserted = Asserted { uid: owner.uid.clone(), drafts, audit: picture.audit };
        if self.asserted.as_ref() == Some(&asserted) {
            return Ok(again);
        }
        let now = self.clock.timestamp();
        let objects = CONFIG.objects(&self.api, &owner.namespace);
        let generation = asserted.drafts.iter().filter_map(|draft| draft.generation).max();
        let revised = revise(&objects, &owner.name, Some(&owner.uid), |object| {
            let conditions = merged(object.pointer("/status/conditions"), &asserted.drafts, now)?;
            let known = object.pointer("/status/observedGeneration").and_then(Value::as_i64);
            Some(json!({ "conditions": conditions, "observedGeneration": known.max(generation) }))
        });
        if let Revised::Written(object) = revised.await? {
            record(&self.own_writes, &object);
        }
        self.asserted = Some(asserted);
        Ok(again)
    }
}

/// Addresses in the status of Ingresses that are ours, as a leader before may have written them.
pub(super) async fn known_addresses(objects: &Objects, owner: &ConfigOwner) -> Result<Vec<String>, Trouble> {
    let object = objects.get(&owner.name).await?;
    let known = object.as_ref().and_then(|object| object.pointer("/status/ingressAddresses")?.as_array());
    Ok(known.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Remembers them for a later leader.
pub(super) async fn keep_addresses(
    objects: &Objects,
    owner: &ConfigOwner,
    addresses: &[String],
    own_writes: &OwnWrites,
) -> Result<(), Trouble> {
    let revised = revise(objects, &owner.name, Some(&owner.uid), |object| {
        let known = object.pointer("/status/ingressAddresses").cloned().unwrap_or_else(|| json!([]));
        (known != json!(addresses)).then(|| json!({ "ingressAddresses": addresses }))
    });
    if let Revised::Written(object) = revised.await? {
        record(own_writes, &object);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
