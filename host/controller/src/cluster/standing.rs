//! How the configuration stands: what serves, and what came after it and was refused. One value for the whole process:
//! a new leader asserts what it knows, whoever led before.

use std::sync::Arc;

use haptic_model::Finding;

/// The `HAProxyTemplateConfig` of this controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigOwner {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigStanding {
    /// `None` until the object was read once, and while it is not there.
    pub owner: Option<ConfigOwner>,
    /// `None` = nothing was accepted yet.
    pub serving: Option<Served>,
    /// A candidate that is newer than what serves; `None` once one is accepted.
    pub refused: Option<Refused>,
    /// What is wrong with the credentials for agents, while those before go on.
    pub credentials: Arc<[Finding]>,
    /// What keeps the controller from issuing certificates, if it is to do that.
    pub certificates: Arc<[Finding]>,
}

/// What passed the load gate and serves.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// `metadata.generation` of the configuration object.
    pub generation: i64,
    pub warnings: Arc<[Finding]>,
}

/// What did not pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// `metadata.generation` of the configuration object: that of what serves, if another object of the candidate (a
    /// library, a plugin) changed.
    pub generation: i64,
    pub findings: Arc<[Finding]>,
}
