//! All that knows HAProxy: what differs between two plans and how to bring it about, the check of a whole set, the
//! runtime commands, and the life of the process.
//!
//! What: [`plan`] decides, [`check`] asks a binary about a file set, [`runtime`] changes a running worker,
//! [`process`] starts, reloads, watches and stops, [`version`] finds binaries and refuses old ones. What not: no file
//! set of its own, no decision about when to apply, no Kubernetes. The controller calls `plan` and `check`; the agent
//! calls the rest.

pub mod check;
pub mod plan;
pub mod process;
pub mod runtime;
pub mod version;
