//! This crate against a real kube-apiserver and etcd, and through a proxy that injects what those do not do on demand.
//!
//! One cluster is started for all tests; each has a namespace of its own.

#![allow(clippy::unwrap_used, reason = "tests")]

mod access;
mod cluster;
mod discovery;
mod election;
mod fault_proxy;
mod faults;
mod followed;
mod objects;
mod outage;
mod own_kinds;
mod source;
