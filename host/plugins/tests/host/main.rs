//! The host against real components: the first-party plugins and guests that break every rule.
#![allow(clippy::unwrap_used, reason = "tests")]

mod built;
mod cache;
mod first_party;
mod hostile;
mod loading;
mod sets;
