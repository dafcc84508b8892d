//! The document of `/debug/status`, which the status page shows.

mod findings;

use std::{collections::BTreeMap, sync::Arc};

use haptic_kubernetes::Leadership;
use haptic_model::PlanId;
use serde::Serialize;

use crate::{
    clock::Timestamp,
    cluster::Report,
    overview::{
        ClusterFacts, IterationFacts, ProcessFacts,
        document::findings::{FindingEntry, Objects, cut, entries, listed},
        record::{PodRecord, Reconciliation, Record},
    },
    pipeline::{Phase, Render},
    status::{document::PodStatus, plugins::PluginStatus},
};

/// Pods that are shown.
const PODS: usize = 200;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusDocument {
    pub version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<Timestamp>,
    /// Of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    pub identity: String,
    pub health: Health,
    pub leadership: Role,
    pub config: Config,
    /// `None` = no pod has taken a render of this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<Serving>,
    /// The newest render, whether it serves or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered: Option<PlanId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub render_error: Option<RenderError>,
    /// The last word of `haproxy -c`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
    pub pods: Listed<PodEntry>,
    pub rejected_pods: Vec<RejectedEntry>,
    /// Newest first.
    pub reconciliations: Vec<Reconciliation>,
    pub objects: Objects,
    plugins: Vec<PluginStatus>,
    pub resources: Vec<Resource>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    pub ok: bool,
    #[serde(flatten)]
    pub report: Report,
}

/// The first ones of a list, and how many there are.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed<T> {
    pub total: usize,
    pub shown: Vec<T>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "role")]
pub enum Role {
    Standalone,
    Leader {
        epoch: u64,
    },
    Follower {
        #[serde(skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
    },
    /// No iteration serves.
    Starting,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `metadata.generation` of what serves; manifests have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    pub warnings: Vec<FindingEntry>,
    /// A newer one that is not accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedConfig>,
    /// What is wrong with the credentials for agents.
    pub credentials: Vec<FindingEntry>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    pub findings: Listed<FindingEntry>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Serving {
    pub plan: PlanId,
    pub since: Timestamp,
    pub backends: usize,
    pub servers: usize,
    /// `haproxy.cfg` included.
    pub files: usize,
    pub bytes: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderError {
    pub phase: Phase,
    pub at: Timestamp,
    pub findings: Listed<FindingEntry>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    pub verdict: &'static str,
    pub plan: PlanId,
    pub at: Timestamp,
    /// HAProxy builds.
    pub checked_by: Vec<String>,
    pub milliseconds: u128,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodEntry {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The minor version that discovery heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor: Option<String>,
    #[serde(flatten)]
    status: Option<PodStatus>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RejectedEntry {
    pub name: String,
    pub reason: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    pub name: String,
    pub objects: usize,
    pub state: ResourceState,
    /// Why it may not be up to date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceState {
    Synced,
    Waiting,
    /// Optional, and not served by the API server.
    Absent,
}

// === impl StatusDocument ===

impl StatusDocument {
    pub(super) fn new(
        health: Report,
        process: Option<&ProcessFacts>,
        iteration: Option<&IterationFacts>,
        record: &Record,
        plugins: Vec<PluginStatus>,
    ) -> Self {
        let cluster = iteration.and_then(|iteration| iteration.cluster.as_ref());
        let newest = record.newest.as_ref().or(record.warm.as_ref());
        Self {
            version: env!("CARGO_PKG_VERSION"),
            now: process.map(|process| process.clock.timestamp()),
            started: record.started,
            identity: process.map(|process| process.identity.to_string()).unwrap_or_default(),
            health: Health { ok: health.ok, report: health },
            leadership: Role::of(iteration, cluster),
            config: Config::of(process, iteration, record),
            serving: record.deployed.as_ref().map(|(render, since)| Serving::of(render, *since)),
            rendered: newest.map(|render| render.plan()),
            render_error: record.failure.as_ref().map(|failure| RenderError {
                phase: failure.phase,
                at: failure.at,
                findings: listed(&failure.findings),
            }),
            check: record.gate.as_ref().map(|(outcome, at)| Check {
                verdict: outcome.verdict.label(),
                plan: outcome.plan,
                at: *at,
                checked_by: outcome.checked_by.clone(),
                milliseconds: outcome.duration.as_millis(),
            }),
            pods: pods(&record.pods),
            rejected_pods: cluster.map(rejected).unwrap_or_default(),
            reconciliations: record.reconciliations.iter().cloned().collect(),
            objects: objects(process, record, newest.map(AsRef::as_ref)),
            plugins,
            resources: iteration.map(resources).unwrap_or_default(),
        }
    }
}

// === impl Role ===

impl Role {
    fn of(iteration: Option<&IterationFacts>, cluster: Option<&ClusterFacts>) -> Self {
        match (iteration, cluster.map(|cluster| cluster.leadership.borrow().clone())) {
            (None, _) => Self::Starting,
            (Some(_), None) => Self::Standalone,
            (_, Some(Leadership::Leader { epoch })) => Self::Leader { epoch },
            (_, Some(Leadership::Follower { holder })) => {
                Self::Follower { holder: holder.map(|holder| holder.to_string()) }
            }
        }
    }
}

// === impl Config ===

impl Config {
    fn of(process: Option<&ProcessFacts>, iteration: Option<&IterationFacts>, record: &Record) -> Self {
        let name = iteration.map(|iteration| iteration.core.get().name.to_string());
        let Some(standing) = process.and_then(|process| process.standing.as_ref()) else {
            return Self {
                name,
                warnings: entries(record.config.warnings.as_deref().unwrap_or_default()),
                refused: record.config.refused.as_ref().map(|(findings, since)| RefusedConfig {
                    since: Some(*since),
                    generation: None,
                    findings: listed(findings),
                }),
                ..Self::default()
            };
        };
        let standing = standing.borrow().clone();
        let owner = standing.owner.as_ref();
        Self {
            name: name
                .or_else(|| owner.map(|owner| format!("HAProxyTemplateConfig {}/{}", owner.namespace, owner.name))),
            generation: standing.serving.as_ref().map(|served| served.generation),
            warnings: standing.serving.as_ref().map(|served| entries(&served.warnings)).unwrap_or_default(),
            refused: standing.refused.as_ref().map(|refused| RefusedConfig {
                since: None,
                generation: Some(refused.generation),
                findings: listed(&refused.findings),
            }),
            credentials: entries(&standing.credentials),
        }
    }
}

// === impl Serving ===

impl Serving {
    fn of(render: &Render, since: Timestamp) -> Self {
        let plan = &render.output.rendered.plan;
        Self {
            plan: plan.id,
            since,
            backends: plan.backends.len(),
            servers: plan.backends.values().map(|backend| backend.servers.len()).sum(),
            files: plan.files.len(),
            bytes: plan.files.values().map(|file| file.size).sum(),
        }
    }
}

fn objects(process: Option<&ProcessFacts>, record: &Record, newest: Option<&Render>) -> Objects {
    let manifests = process.map(|process| process.manifests.borrow().clone()).unwrap_or_default();
    let rendered = newest.map(|render| render.output.findings.as_slice()).unwrap_or_default();
    Objects::of(manifests.all().chain(rendered).chain(record.refusal()))
}

fn pods(records: &BTreeMap<Arc<str>, PodRecord>) -> Listed<PodEntry> {
    let shown = records.iter().take(PODS).map(|(name, record)| PodEntry {
        name: name.to_string(),
        agent: record.pod.as_ref().map(|pod| pod.endpoint.to_string()),
        minor: record.pod.as_ref().and_then(|pod| pod.haproxy).map(|(major, minor)| format!("{major}.{minor}")),
        status: record.status.clone(),
    });
    Listed { total: records.len(), shown: shown.collect() }
}

fn rejected(cluster: &ClusterFacts) -> Vec<RejectedEntry> {
    let rejected = cluster.fleet.rejected();
    let rejected = rejected.borrow();
    rejected
        .iter()
        .take(PODS)
        .map(|pod| RejectedEntry { name: pod.name.to_string(), reason: cut(&pod.reason) })
        .collect()
}

fn resources(iteration: &IterationFacts) -> Vec<Resource> {
    let snapshot = iteration.core.get().store.lock().snapshot();
    let states = iteration.cluster.as_ref().map(|cluster| cluster.states.borrow().clone());
    let of = |name: &Arc<str>| {
        let state = states.as_ref().and_then(|states| states.get(name));
        Resource {
            name: name.to_string(),
            objects: snapshot.count(name),
            state: match state {
                Some(state) if state.is_absent() => ResourceState::Absent,
                Some(state) if !state.is_synced() => ResourceState::Waiting,
                _ => ResourceState::Synced,
            },
            trouble: state.and_then(|state| state.trouble()).map(|trouble| cut(&trouble.to_string())),
        }
    };
    snapshot.resources().map(of).collect()
}
