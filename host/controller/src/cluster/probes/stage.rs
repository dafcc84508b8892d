//! The stages of a start, as its log names them.

use std::fmt;

use serde::{Serialize, Serializer};

/// Where the start of an iteration stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// 1: the event bus, the load gate and what reads configurations.
    ConfigManagement,
    /// 2: the first load, or the snapshot of the iteration before.
    AcceptedConfig,
    /// 3: the watched resources, until each is synchronized.
    ResourceWatchers,
    /// 4: the configuration's own objects and the credentials.
    ConfigWatchers,
    /// 5: what reconciles and what observes; the initial trigger is published.
    Reconciliation,
    /// 6: the Lease.
    LeaderElection,
    /// 7: admission.
    Webhook,
    /// 8: debug variables and the full health check.
    Debug,
}

// === impl Stage ===

impl Stage {
    pub const ALL: [Self; 8] = [
        Self::ConfigManagement,
        Self::AcceptedConfig,
        Self::ResourceWatchers,
        Self::ConfigWatchers,
        Self::Reconciliation,
        Self::LeaderElection,
        Self::Webhook,
        Self::Debug,
    ];

    /// From 1 to 8.
    pub fn number(self) -> u8 {
        match self {
            Self::ConfigManagement => 1,
            Self::AcceptedConfig => 2,
            Self::ResourceWatchers => 3,
            Self::ConfigWatchers => 4,
            Self::Reconciliation => 5,
            Self::LeaderElection => 6,
            Self::Webhook => 7,
            Self::Debug => 8,
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::ConfigManagement => "Creating config management components",
            Self::AcceptedConfig => "Loading accepted config",
            Self::ResourceWatchers => "Waiting for resource watchers",
            Self::ConfigWatchers => "Waiting for config and credentials watchers",
            Self::Reconciliation => "Creating reconciliation and observability components",
            Self::LeaderElection => "Starting leader election",
            Self::Webhook => "Starting admission webhook",
            Self::Debug => "Registering debug variables and updating health checker",
        }
    }

    /// One line, with the number as the field `stage`.
    pub fn log(self, iteration: u64) {
        tracing::info!(target: "haptic::iteration", stage = self.number(), iteration, "{self}");
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stage {}: {}", self.number(), self.what())
    }
}

impl Serialize for Stage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
