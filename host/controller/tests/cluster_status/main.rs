//! What the controller writes into a cluster, against a real kube-apiserver and etcd: the stages on a real bus, renders
//! by the real pipeline, and only the pods' answers made up.
//!
//! One cluster is started for all tests; each has a namespace of its own.

#![allow(clippy::unwrap_used, reason = "tests")]

mod certificates;
#[path = "../../../kubernetes/tests/api/cluster.rs"]
#[allow(dead_code, reason = "the harness of the API tests has more than is needed here")]
mod cluster;
mod events;
mod ingresses;
mod outage;
mod permissions;
mod published;
mod scene;
mod secrets;
mod statuses;
