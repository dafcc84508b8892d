#![allow(clippy::unwrap_used, reason = "tests")]

mod fixture;
mod isolation;
mod libraries;
mod records;
mod sinks;
mod warm;
