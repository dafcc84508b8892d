//! The host against real components: the first-party plugins and guests that break every rule.
#![allow(clippy::unwrap_used, reason = "tests")]

mod built;
mod cache;
mod compiling;
mod first_party;
mod frozen;
mod haproxy_verdicts;
mod hostile;
mod imports;
mod isolation;
mod loading;
mod low_level;
mod malformed;
mod metrics;
mod sets;
mod wat;
