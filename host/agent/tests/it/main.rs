//! The agent against real HAProxy 3.0, 3.2 and 3.4: one binary, so that it is linked once.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
mod crash;
mod fence;
mod load;
mod ops;
