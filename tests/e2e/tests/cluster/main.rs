//! haptic in a real Kubernetes: controllers, agents and HAProxy as pods, as a user's manifests make them.
//!
//! One cluster is started for all tests; each has namespaces of its own, and the machine for itself.

mod agent;
mod bad_input;
mod certificates;
mod changes;
mod example;
mod leader;
mod lifecycle;
mod many;
mod metrics;
mod on_demand;
mod outage;
mod preflight;
mod scale;
mod secrets;
mod serving;
mod status_page;
mod versions;
mod webhook;
