//! Parts of cluster mode, each alone against a real API server.

mod discovery;
#[path = "../agent_service/pod.rs"]
#[allow(dead_code, reason = "shared with the tests of the agent, which use more of it")]
mod pod;
mod rbac;
