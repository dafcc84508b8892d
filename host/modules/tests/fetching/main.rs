//! Sources against real parts: the CNCF Distribution registry and cosign on loopback, and HTTP servers that misbehave.
#![allow(clippy::unwrap_used, reason = "tests")]

mod parts;
mod registry;
mod retry;
mod signatures;
mod web;
