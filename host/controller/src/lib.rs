//! The controller: from a change of an object to every HAProxy pod serving it.
//!
//! What: the event bus, the stages and their wiring ([`iteration`]), the pipeline with its strict variant, the load
//! gate for configurations, status, metrics and the runner of validation tests. What not: no template engine, no
//! HAProxy text, no file of HAProxy is touched (that is the agent's), no command line. The binary calls it.
//!
//! ```text
//! watch → store → render ─┬→ scheduler → deployer → agents → status
//!                         └→ render gate ┘ (holds, reverts, promotes)
//! ```

mod admission;
pub mod agent_port;
pub mod agents;
pub mod bus;
pub mod check;
pub mod clock;
pub mod cluster;
pub mod commentator;
pub mod config;
pub mod coordinator;
pub mod core;
pub mod deployer;
pub mod drift;
pub mod events;
pub mod explain;
pub mod feed;
pub mod iteration;
pub mod latch;
pub mod load_gate;
pub mod metrics;
pub mod overview;
pub mod pipeline;
pub mod plugin_loader;
pub mod pod;
pub mod quarantine;
pub mod reconciler;
mod redact;
pub mod render_gate;
pub mod reports;
pub mod scheduler;
pub mod source;
pub mod standalone;
pub mod status;
pub mod supervisor;
pub mod traces;
pub mod validation_tests;
pub mod watcher;

#[cfg(test)]
mod testing;

pub use standalone::{RunMode, StandaloneError, StandaloneOptions, StandaloneReport, run_standalone};
