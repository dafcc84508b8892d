//! Cluster mode: the same stages, fed by the API server, for a fleet of pods, with one leader among the controllers.
//!
//! ```text
//! config objects ─▶ ConfigChangeHandler ─▶ ReloadAuthority ─▶ successor iteration ─▶ hand-over
//! watched objects ─▶ store ─▶ FollowerWarmer (followers) or a term's leader-only stages
//! ```

pub mod credentials;
pub mod discovery;
pub mod own_writes;
pub mod probes;
pub mod rbac;
pub mod standing;

pub use credentials::{AgentCredentials, CredentialsChange};
pub use discovery::{Discovery, DiscoveryError, DiscoveryMetrics, DiscoverySettings, Fleet, RejectedPod, Round};
pub use own_writes::OwnWrites;
pub use probes::{DebugServer, Debugged, Health, IterationHealth, ProbeServer, ServeError, Stage, Variables};
pub use rbac::{Access, AccessNames};
pub use standing::{ConfigOwner, ConfigStanding, Refused, Served};
