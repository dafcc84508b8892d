//! What the stages tell each other, by the names of the seed.
//!
//! An event is small: what is large in it is behind an `Arc`, so every subscriber shares one copy. Two events with the
//! same kind and key coalesce in a mailbox; [`Event::absorb`] says what the later one keeps of the earlier one.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use haptic_model::{Finding, ObjectRef, PlanId, Reason};
use serde::Serialize;
use tokio::time::Instant;

use crate::{
    pipeline::{PipelineError, Render},
    pod::{Pod, PodReport},
};

/// Most objects that a cause names one by one; the rest is counted.
const NAMED_OBJECTS: usize = 4;
/// Most causes that a reconciliation names one by one.
const NAMED_CAUSES: usize = 16;

/// Ties together all events of one way from a cause to its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Correlation(pub u64);

#[derive(Clone, Debug)]
pub enum Event {
    /// A configuration candidate was read and decoded.
    ConfigParsed {
        correlation: Correlation,
        name: Arc<str>,
    },
    /// A candidate passed the load gate and serves from now on.
    ConfigValidated {
        correlation: Correlation,
        name: Arc<str>,
        warnings: Arc<[Finding]>,
    },
    /// A candidate did not pass; the last good configuration goes on serving.
    ConfigInvalid {
        correlation: Correlation,
        name: Arc<str>,
        findings: Arc<[Finding]>,
    },
    ResourceIndexUpdated {
        correlation: Correlation,
        change: ResourceChange,
    },
    /// Every watched resource has delivered its complete first list.
    IndexSynchronized {
        correlation: Correlation,
    },
    BecameLeader {
        correlation: Correlation,
        epoch: u64,
    },
    /// The periodic full pass: baselines are read from the agents again.
    DriftPreventionTriggered {
        correlation: Correlation,
    },
    ReconciliationTriggered {
        correlation: Correlation,
        trigger: Trigger,
    },
    ReconciliationStarted {
        correlation: Correlation,
    },
    TemplateRendered {
        correlation: Correlation,
        render: Arc<Render>,
    },
    ReconciliationFailed {
        correlation: Correlation,
        error: Arc<PipelineError>,
        trigger: Trigger,
    },
    ReconciliationCompleted {
        correlation: Correlation,
        duration: Duration,
        render: Arc<Render>,
    },
    HAProxyPodsDiscovered {
        correlation: Correlation,
        pods: Arc<[Pod]>,
    },
    DeploymentScheduled {
        correlation: Correlation,
        render: Arc<Render>,
        pods: Arc<[Pod]>,
    },
    DeploymentStarted {
        correlation: Correlation,
        plan: PlanId,
        pods: usize,
    },
    InstanceDeploymentFailed {
        correlation: Correlation,
        report: Arc<PodReport>,
    },
    DeploymentCompleted {
        correlation: Correlation,
        render: Arc<Render>,
        reports: Arc<[PodReport]>,
    },
    RenderGateCompleted {
        correlation: Correlation,
        outcome: Arc<GateOutcome>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum EventKind {
    ConfigParsed,
    ConfigValidated,
    ConfigInvalid,
    ResourceIndexUpdated,
    IndexSynchronized,
    BecameLeader,
    DriftPreventionTriggered,
    ReconciliationTriggered,
    ReconciliationStarted,
    TemplateRendered,
    ReconciliationFailed,
    ReconciliationCompleted,
    HAProxyPodsDiscovered,
    DeploymentScheduled,
    DeploymentStarted,
    InstanceDeploymentFailed,
    DeploymentCompleted,
    RenderGateCompleted,
}

/// What happened to the index of one watched resource since the last event about it.
#[derive(Clone, Debug)]
pub struct ResourceChange {
    pub resource: Arc<str>,
    /// Part of the first complete list: no trigger of its own, [`Event::IndexSynchronized`] follows.
    pub initial_sync: bool,
    /// At most `NAMED_OBJECTS`, newest last.
    pub objects: Vec<ChangedObject>,
    pub total: usize,
    /// When the first of the coalesced changes reached the index.
    pub since: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedObject {
    pub object: ObjectRef,
    pub change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Changed,
    Removed,
}

/// Why a reconciliation runs.
#[derive(Clone, Debug)]
pub struct Trigger {
    pub causes: Vec<Cause>,
    /// Causes beyond the named ones.
    pub unnamed: usize,
    /// Baselines must be read from the agents again.
    pub verify: bool,
    /// When the first cause happened.
    pub since: Instant,
}

#[derive(Clone, Debug)]
pub enum Cause {
    Resource(ResourceChange),
    Synchronized,
    Leadership {
        epoch: u64,
    },
    Drift,
    Config {
        name: Arc<str>,
    },
    /// HAProxy refused text of these units; the render goes on without them.
    Quarantined {
        units: usize,
    },
}

/// What `haproxy -c` said about one render.
#[derive(Clone, Debug)]
pub struct GateOutcome {
    pub seq: u64,
    pub plan: PlanId,
    pub verdict: GateVerdict,
    /// Minor versions that accepted it: a pod is promoted only by its own version's pass.
    pub passed_by: BTreeSet<(u16, u16)>,
    /// Of the HAProxy builds that were asked, e.g. `3.2.26`.
    pub checked_by: Vec<String>,
    pub duration: Duration,
    /// How many units were taken out because of this verdict.
    pub quarantined: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateVerdict {
    /// Every pod's HAProxy minor version accepted it.
    Passed,
    /// At least one version refused it.
    Refused { findings: Vec<Finding> },
    /// It could not be asked; nothing is promoted.
    Unknown { reason: Reason },
}

// === impl Event ===

impl Event {
    pub fn kind(&self) -> EventKind {
        match self {
            Self::ConfigParsed { .. } => EventKind::ConfigParsed,
            Self::ConfigValidated { .. } => EventKind::ConfigValidated,
            Self::ConfigInvalid { .. } => EventKind::ConfigInvalid,
            Self::ResourceIndexUpdated { .. } => EventKind::ResourceIndexUpdated,
            Self::IndexSynchronized { .. } => EventKind::IndexSynchronized,
            Self::BecameLeader { .. } => EventKind::BecameLeader,
            Self::DriftPreventionTriggered { .. } => EventKind::DriftPreventionTriggered,
            Self::ReconciliationTriggered { .. } => EventKind::ReconciliationTriggered,
            Self::ReconciliationStarted { .. } => EventKind::ReconciliationStarted,
            Self::TemplateRendered { .. } => EventKind::TemplateRendered,
            Self::ReconciliationFailed { .. } => EventKind::ReconciliationFailed,
            Self::ReconciliationCompleted { .. } => EventKind::ReconciliationCompleted,
            Self::HAProxyPodsDiscovered { .. } => EventKind::HAProxyPodsDiscovered,
            Self::DeploymentScheduled { .. } => EventKind::DeploymentScheduled,
            Self::DeploymentStarted { .. } => EventKind::DeploymentStarted,
            Self::InstanceDeploymentFailed { .. } => EventKind::InstanceDeploymentFailed,
            Self::DeploymentCompleted { .. } => EventKind::DeploymentCompleted,
            Self::RenderGateCompleted { .. } => EventKind::RenderGateCompleted,
        }
    }

    pub fn correlation(&self) -> Correlation {
        match self {
            Self::ConfigParsed { correlation, .. }
            | Self::ConfigValidated { correlation, .. }
            | Self::ConfigInvalid { correlation, .. }
            | Self::ResourceIndexUpdated { correlation, .. }
            | Self::IndexSynchronized { correlation }
            | Self::BecameLeader { correlation, .. }
            | Self::DriftPreventionTriggered { correlation }
            | Self::ReconciliationTriggered { correlation, .. }
            | Self::ReconciliationStarted { correlation }
            | Self::TemplateRendered { correlation, .. }
            | Self::ReconciliationFailed { correlation, .. }
            | Self::ReconciliationCompleted { correlation, .. }
            | Self::HAProxyPodsDiscovered { correlation, .. }
            | Self::DeploymentScheduled { correlation, .. }
            | Self::DeploymentStarted { correlation, .. }
            | Self::InstanceDeploymentFailed { correlation, .. }
            | Self::DeploymentCompleted { correlation, .. }
            | Self::RenderGateCompleted { correlation, .. } => *correlation,
        }
    }

    /// Events of one kind with the same key coalesce. Keys come from small sets only (watched resources, pods,
    /// verdicts), which is what bounds a mailbox.
    pub fn key(&self) -> Arc<str> {
        match self {
            Self::ConfigParsed { name, .. } | Self::ConfigValidated { name, .. } | Self::ConfigInvalid { name, .. } => {
                name.clone()
            }
            Self::ResourceIndexUpdated { change, .. } => change.resource.clone(),
            Self::InstanceDeploymentFailed { report, .. } => report.pod.clone(),
            // A pass must never hide the refusal before it, so each verdict has its own slot.
            Self::RenderGateCompleted { outcome, .. } => outcome.verdict.label().into(),
            _ => "".into(),
        }
    }

    /// Keeps of `older`, which this event replaces in a mailbox, what would otherwise be lost: causes, and reports
    /// about other pods (each names the plan that it is about).
    pub fn absorb(&mut self, older: Self) {
        match (self, older) {
            (Self::ResourceIndexUpdated { change, .. }, Self::ResourceIndexUpdated { change: older, .. }) => {
                change.absorb(older);
            }
            (Self::ReconciliationTriggered { trigger, .. }, Self::ReconciliationTriggered { trigger: older, .. }) => {
                trigger.absorb(older);
            }
            // What the newer one says nothing of stays true.
            (Self::DeploymentCompleted { reports, .. }, Self::DeploymentCompleted { reports: older, .. }) => {
                let untold = |report: &&PodReport| reports.iter().all(|newer| newer.pod != report.pod);
                let mut all: Vec<_> = older.iter().filter(untold).cloned().collect();
                if !all.is_empty() {
                    all.extend(reports.iter().cloned());
                    *reports = all.into();
                }
            }
            _ => {}
        }
    }
}

// === impl EventKind ===

impl EventKind {
    pub const ALL: [Self; 18] = [
        Self::ConfigParsed,
        Self::ConfigValidated,
        Self::ConfigInvalid,
        Self::ResourceIndexUpdated,
        Self::IndexSynchronized,
        Self::BecameLeader,
        Self::DriftPreventionTriggered,
        Self::ReconciliationTriggered,
        Self::ReconciliationStarted,
        Self::TemplateRendered,
        Self::ReconciliationFailed,
        Self::ReconciliationCompleted,
        Self::HAProxyPodsDiscovered,
        Self::DeploymentScheduled,
        Self::DeploymentStarted,
        Self::InstanceDeploymentFailed,
        Self::DeploymentCompleted,
        Self::RenderGateCompleted,
    ];

    /// The seed's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConfigParsed => "ConfigParsedEvent",
            Self::ConfigValidated => "ConfigValidatedEvent",
            Self::ConfigInvalid => "ConfigInvalidEvent",
            Self::ResourceIndexUpdated => "ResourceIndexUpdatedEvent",
            Self::IndexSynchronized => "IndexSynchronizedEvent",
            Self::BecameLeader => "BecameLeaderEvent",
            Self::DriftPreventionTriggered => "DriftPreventionTriggeredEvent",
            Self::ReconciliationTriggered => "ReconciliationTriggeredEvent",
            Self::ReconciliationStarted => "ReconciliationStartedEvent",
            Self::TemplateRendered => "TemplateRenderedEvent",
            Self::ReconciliationFailed => "ReconciliationFailedEvent",
            Self::ReconciliationCompleted => "ReconciliationCompletedEvent",
            Self::HAProxyPodsDiscovered => "HAProxyPodsDiscoveredEvent",
            Self::DeploymentScheduled => "DeploymentScheduledEvent",
            Self::DeploymentStarted => "DeploymentStartedEvent",
            Self::InstanceDeploymentFailed => "InstanceDeploymentFailedEvent",
            Self::DeploymentCompleted => "DeploymentCompletedEvent",
            Self::RenderGateCompleted => "RenderGateCompletedEvent",
        }
    }
}

// === impl ResourceChange ===

impl ResourceChange {
    pub fn one(resource: Arc<str>, object: ChangedObject, since: Instant) -> Self {
        Self { resource, initial_sync: false, objects: vec![object], total: 1, since }
    }

    pub fn absorb(&mut self, mut older: Self) {
        self.initial_sync &= older.initial_sync;
        self.total += older.total;
        self.since = self.since.min(older.since);
        older.objects.retain(|old| !self.objects.iter().any(|new| new.object == old.object));
        older.objects.append(&mut self.objects);
        let surplus = older.objects.len().saturating_sub(NAMED_OBJECTS);
        older.objects.drain(..surplus);
        self.objects = older.objects;
    }
}

// === impl Trigger ===

impl Trigger {
    pub fn new(cause: Cause, since: Instant) -> Self {
        let verify = matches!(cause, Cause::Drift | Cause::Leadership { .. });
        Self { causes: vec![cause], unnamed: 0, verify, since }
    }

    fn absorb(&mut self, older: Self) {
        self.verify |= older.verify;
        self.since = self.since.min(older.since);
        self.unnamed += older.unnamed;
        let newer = std::mem::replace(&mut self.causes, older.causes);
        for cause in newer {
            match cause {
                Cause::Resource(mut change) => {
                    let same = self
                        .causes
                        .iter()
                        .position(|known| matches!(known, Cause::Resource(known) if known.resource == change.resource));
                    if let Some(Cause::Resource(known)) = same.map(|index| self.causes.remove(index)) {
                        change.absorb(known);
                    }
                    self.causes.push(Cause::Resource(change));
                }
                other => self.causes.push(other),
            }
        }
        let surplus = self.causes.len().saturating_sub(NAMED_CAUSES);
        self.causes.drain(..surplus);
        self.unnamed += surplus;
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, cause) in self.causes.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{cause}")?;
        }
        if self.unnamed > 0 {
            write!(f, " and {} more", self.unnamed)?;
        }
        Ok(())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(change) => write!(f, "{change}"),
            Self::Synchronized => f.write_str("all resources are read"),
            Self::Leadership { epoch } => write!(f, "leads with epoch {epoch}"),
            Self::Drift => f.write_str("drift prevention"),
            Self::Config { name } => write!(f, "configuration {name}"),
            Self::Quarantined { units: 1 } => f.write_str("1 object left out"),
            Self::Quarantined { units } => write!(f, "{units} objects left out"),
        }
    }
}

impl fmt::Display for ResourceChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((last, others)) = self.objects.split_last() else {
            return write!(f, "{} {}", self.total, self.resource);
        };
        if self.total == 1 || others.is_empty() {
            return write!(f, "{} {}", last.object, last.change);
        }
        write!(f, "{} {} and {} more of {}", last.object, last.change, self.total - 1, self.resource)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Removed => "removed",
        })
    }
}

impl fmt::Display for Correlation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

// === impl GateVerdict ===

impl GateVerdict {
    pub fn label(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Refused { .. } => "refused",
            Self::Unknown { .. } => "unknown",
        }
    }
}
