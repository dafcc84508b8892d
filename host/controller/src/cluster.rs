//! Cluster mode: the same stages, fed by the API server, for a fleet of pods, with one leader among the controllers.
//!
//! ```text
//! config objects ─▶ ConfigChangeHandler ─▶ ReloadAuthority ─▶ successor iteration ─▶ hand-over
//! watched objects ─▶ store ─▶ FollowerWarmer (followers) or a term's leader-only stages
//! ```

pub mod own_writes;
pub mod publisher;
pub mod standing;
pub mod status_applier;

mod condition;
mod fleet;
mod objects;
mod revise;

pub use own_writes::OwnWrites;
pub use publisher::{ConfigPublisher, PublisherSettings};
pub use standing::{ConfigOwner, ConfigStanding, Refused, Served};
pub use status_applier::{ClusterStatusApplier, Reporter, WriteSettings, tell_of_standing};
