//! The harness against real components: it passes what is right, and finds each mistake by the check that is for it.
#![allow(clippy::unwrap_used, reason = "tests")]

mod built;
mod cases;
mod fallible;
mod first_party;
mod outputs;
