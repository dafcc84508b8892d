//! The agent against real HAProxy 3.0, 3.2 and 3.4: one binary, so that it is linked once.
#![allow(clippy::unwrap_used, reason = "tests")]

// Shared with the end-to-end tests: the same CA and the same folder of a mounted Secret.
#[path = "../../../../tests/e2e/src/authority.rs"]
#[allow(unreachable_pub, reason = "it is public where it comes from")]
mod authority;
mod common;
mod crash;
mod fence;
mod load;
mod metrics;
mod ops;
mod rotation;
mod service;
mod tls;
