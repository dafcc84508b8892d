//! `haptic agent state` and `haptic agent health` beside a running agent.

use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::{binary, eventually};
use serde_json::Value;

use crate::pod::Pod;

fn ask(pod: &Pod, question: &str) -> Result<Output> {
    let socket = pod.path("data/run/agent.sock");
    Command::new(binary()).args(["agent", question, "--socket"]).arg(socket).output().context("run haptic")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_and_health_are_told_where_the_agent_is() -> Result<()> {
    let mut pod = Pod::prepare()?;
    let silent = ask(&pod, "health")?;
    let said = String::from_utf8_lossy(&silent.stderr).into_owned();
    ensure!(silent.status.code() == Some(2) && said.contains("agent.sock"), "{said}");

    let mut command = Command::new(binary());
    command.args(pod.arguments(&pod.haproxy.path.clone()));
    pod.run(command)?;
    pod.until_alive().await;
    let empty = ask(&pod, "health")?;
    ensure!(empty.status.code() == Some(1), "nothing serves yet: {empty:?}");

    ensure!(pod.apply(&pod.config(pod.backend())).await?.ok, "the configuration is applied");
    eventually("HAProxy to serve", async || ask(&pod, "health").ok().filter(|said| said.status.success())).await;
    let state: Value = serde_json::from_slice(&ask(&pod, "state")?.stdout)?;
    ensure!(state["applied_plan"].is_string() && state["applied_plan"] == state["running_plan"], "{state}");
    ensure!(state["haproxy"]["version"].as_str().is_some_and(|version| version.starts_with("3.4")), "{state}");
    Ok(())
}
