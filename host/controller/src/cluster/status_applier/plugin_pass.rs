//! The status of every `HAProxyPlugin` that the newest configuration names.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use haptic_api::{Condition, ConditionStatus, HAProxyPluginStatus};
use haptic_kubernetes::{Api, Trouble};
use serde_json::{Value, json};

use crate::{
    clock::WallClock,
    cluster::{
        OwnWrites,
        condition::{Draft, merged},
        objects::{PLUGIN, record},
        revise::{Revised, revise},
        status_applier::{pass::Pass, picture::Picture},
    },
    core::ActiveCore,
    status::plugins::PluginStatuses,
};

pub(super) struct PluginPass {
    api: Api,
    /// `None` = nothing serves yet.
    core: Option<ActiveCore>,
    own_writes: OwnWrites,
    clock: WallClock,
    statuses: PluginStatuses,
    asserted: BTreeMap<(Arc<str>, Arc<str>), Asserted>,
    audit: u64,
}

/// What a plugin's object said when it was read or written last.
#[derive(PartialEq)]
struct Asserted {
    drafts: Vec<Draft>,
    facts: Value,
    mean_call_nanos: Option<i64>,
}

// === impl PluginPass ===

impl PluginPass {
    pub(super) fn new(api: Api, core: Option<ActiveCore>, own_writes: OwnWrites, clock: WallClock) -> Self {
        let statuses = PluginStatuses::default();
        Self { api, core, own_writes, clock, statuses, asserted: BTreeMap::new(), audit: 0 }
    }

    async fn assert(&self, namespace: &str, name: &str, wanted: &Asserted) -> Result<(), Trouble> {
        let now = self.clock.timestamp();
        let generation = wanted.drafts.iter().filter_map(|draft| draft.generation).max();
        let objects = PLUGIN.objects(&self.api, namespace);
        let revised = revise(&objects, name, None, |object| {
            let known = object.pointer("/status/observedGeneration").and_then(Value::as_i64);
            if known > generation {
                return None;
            }
            let mut status = json!({});
            if let Some(conditions) = merged(object.pointer("/status/conditions"), &wanted.drafts, now) {
                status["conditions"] = conditions;
            }
            let mut facts = wanted.facts.clone();
            facts["observedGeneration"] = json!(generation);
            facts["meanCallNanos"] = json!(wanted.mean_call_nanos);
            let differs = |field: &str, value: &Value| match object.pointer(&format!("/status/{field}")) {
                Some(present) => present != value,
                None => *value != Value::Null && *value != json!([]),
            };
            for (field, value) in facts.as_object().into_iter().flatten() {
                if differs(field, value) {
                    status[field] = value.clone();
                }
            }
            (status != json!({})).then_some(status)
        });
        if let Revised::Written(object) = revised.await? {
            record(&self.own_writes, &object);
        }
        Ok(())
    }
}

impl Pass for PluginPass {
    const WRITES: &'static str = "HAProxyPlugin.status";

    async fn write(&mut self, picture: &Picture) -> Result<Option<Duration>, Trouble> {
        if self.audit != picture.audit {
            self.audit = picture.audit;
            self.asserted.clear();
        }
        let serving = self.core.as_ref().map(ActiveCore::get);
        let plugins = serving.as_ref().map(|core| &*core.plugins);
        let list = self.statuses.list(&picture.plugins, plugins, self.clock.timestamp());
        let mut failed = None;
        let mut asserted = BTreeMap::new();
        for plugin in list {
            // One that serves and that no configuration object names any more has no object to write to.
            let Some(namespace) = plugin.namespace else { continue };
            let key = (namespace, plugin.name);
            let before = self.asserted.remove(&key);
            let wanted = Asserted::of(&plugin.status, before.as_ref());
            if before.as_ref() != Some(&wanted)
                && let Err(trouble) = self.assert(&key.0, &key.1, &wanted).await
            {
                failed = Some(trouble);
                continue;
            }
            asserted.insert(key, wanted);
        }
        self.asserted = asserted;
        match failed {
            Some(trouble) => Err(trouble),
            None => Ok(None),
        }
    }
}

// === impl Asserted ===

impl Asserted {
    /// The mean cost changes with every call: it is news only if it is another order of things.
    fn of(status: &HAProxyPluginStatus, before: Option<&Self>) -> Self {
        let known = before.and_then(|before| before.mean_call_nanos);
        let mean_call_nanos = match (known, status.mean_call_nanos) {
            (Some(known), Some(mean)) if mean.abs_diff(known) <= known.unsigned_abs() / 2 => Some(known),
            (_, mean) => mean,
        };
        let facts = json!({
            "contracts": status.contracts, "witGeneration": status.wit_generation, "sha256": status.sha256,
        });
        Self { drafts: status.conditions.iter().map(draft).collect(), facts, mean_call_nanos }
    }
}

fn draft(condition: &Condition) -> Draft {
    let status = match condition.status.as_str() {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    };
    Draft::new(&condition.type_, status, &condition.reason, condition.message.clone(), condition.observed_generation)
}
