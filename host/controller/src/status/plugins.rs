//! `plugins.yaml`: the status that a `HAProxyPlugin` has, and what the plugin in use costs.

use std::{collections::BTreeMap, sync::Arc};

use haptic_api::{ConditionStatus, HAProxyPluginStatus, PluginConditionType, condition};
use haptic_plugins::{LoadedPlugin, PluginSet};
use serde::Serialize;

use crate::{clock::Timestamp, plugin_loader::PluginState};

/// Remembers since when each condition has its status.
#[derive(Default)]
pub(crate) struct PluginStatuses {
    known: BTreeMap<ConditionKey, (ConditionStatus, Timestamp)>,
}

/// Namespace and name of a plugin, and one of its conditions.
type ConditionKey = (Arc<str>, Arc<str>, PluginConditionType);

/// One plugin: its newest object, and what serves under its name, which may be an older one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PluginStatus {
    pub(crate) name: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<Arc<str>>,
    #[serde(flatten)]
    pub(crate) status: HAProxyPluginStatus,
    /// Of what serves.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    cost: Option<PluginCost>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PluginCost {
    filters: Vec<String>,
    from_cache: bool,
    compile_milliseconds: u128,
    load_milliseconds: u128,
    calls: u64,
    failures: u64,
    timeouts: u64,
    memory_denials: u64,
    memory_peak_bytes: u64,
    traps: u64,
    dropped_notes: u64,
    total_microseconds: u64,
}

// === impl PluginStatuses ===

impl PluginStatuses {
    /// Plugins of the newest configuration first, in its order; then what serves beside them.
    pub(crate) fn list(
        &mut self,
        states: &[PluginState],
        serving: Option<&PluginSet>,
        now: Timestamp,
    ) -> Vec<PluginStatus> {
        let in_use = |name: &str| serving.and_then(|set| set.plugins().find(|plugin| **plugin.name() == *name));
        let mut known = BTreeMap::new();
        let mut list = Vec::new();
        for state in states {
            let mut status = HAProxyPluginStatus { observed_generation: state.generation, ..Default::default() };
            for found in state.conditions() {
                let key = (state.namespace.clone(), state.name.clone(), found.kind);
                let since = match self.known.get(&key) {
                    Some((before, since)) if *before == found.status => *since,
                    _ => now,
                };
                known.insert(key, (found.status, since));
                let (kind, reason) = (found.kind.to_string(), found.reason.to_string());
                status.conditions.push(condition(
                    &kind,
                    found.status,
                    &reason,
                    found.message,
                    since.0,
                    state.generation,
                ));
            }
            let plugin = in_use(&state.name);
            list.push(PluginStatus::new(&state.name, Some(&state.namespace), status, plugin));
        }
        let others = serving.into_iter().flat_map(PluginSet::plugins);
        for plugin in others.filter(|plugin| states.iter().all(|state| state.name != *plugin.name())) {
            list.push(PluginStatus::new(plugin.name(), None, HAProxyPluginStatus::default(), Some(plugin)));
        }
        self.known = known;
        list
    }
}

// === impl PluginStatus ===

impl PluginStatus {
    fn new(
        name: &Arc<str>,
        namespace: Option<&Arc<str>>,
        mut status: HAProxyPluginStatus,
        serving: Option<&Arc<LoadedPlugin>>,
    ) -> Self {
        if let Some(plugin) = serving {
            let counter = plugin.counter();
            // As the contract is written elsewhere: `auxiliary-file`.
            let written = |contract| Some(serde_json::to_value(contract).ok()?.as_str()?.to_owned());
            status.contracts = plugin.contracts().into_iter().filter_map(written).collect();
            status.wit_generation = Some(plugin.generation().to_owned());
            status.sha256 = Some(plugin.digest().to_string());
            status.mean_call_nanos = counter.nanos.checked_div(counter.calls).and_then(|mean| i64::try_from(mean).ok());
        }
        let cost = serving.map(|plugin| PluginCost::of(plugin));
        Self { name: name.clone(), namespace: namespace.cloned(), status, cost }
    }
}

// === impl PluginCost ===

impl PluginCost {
    fn of(plugin: &LoadedPlugin) -> Self {
        let counter = plugin.counter();
        Self {
            filters: plugin.filters().iter().map(|filter| filter.name.clone()).collect(),
            from_cache: plugin.from_cache(),
            compile_milliseconds: plugin.compile_time().as_millis(),
            load_milliseconds: plugin.load_time().as_millis(),
            calls: counter.calls,
            failures: counter.failures,
            timeouts: counter.timeouts,
            memory_denials: counter.memory_denials,
            memory_peak_bytes: counter.memory_peak_bytes,
            traps: counter.traps,
            dropped_notes: counter.dropped_notes,
            total_microseconds: counter.nanos / 1_000,
        }
    }
}
