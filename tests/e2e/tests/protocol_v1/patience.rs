//! No client holds the server.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use haptic_conformance::v1::{ClientError, frame};
use serde_json::json;
use tokio::time::{interval, timeout};

use crate::served::{LIMITS, Served, plugin, request};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_must_come_whole_in_time() -> Result<()> {
    let arguments = ["--limits", LIMITS, "--transfer-timeout", "300ms"];
    let mut served = Served::start(&plugin("error-file")?, &arguments).await?;
    let whole = frame(&serde_json::to_vec(&request("general/errors/a.http", "", &[]))?)?;
    for length in [1, 4, whole.len() - 1] {
        let mut client = served.client().await?;
        client.send_bytes(&whole[..length]).await?;
        ensure!(client.receive_body().await?.is_none(), "it is closed without an answer");
    }
    // One that always sends a little more has no more time.
    let mut trickling = served.client().await?;
    let mut sent = 0;
    let closed = loop {
        let Some(byte) = whole.get(sent) else { break false };
        if trickling.send_bytes(&[*byte]).await.is_err() {
            break true;
        }
        sent += 1;
        tokio::select! {
            ended = trickling.receive_body() => break matches!(ended, Ok(None) | Err(ClientError::Read(_))),
            // The whole request would take seconds.
            () = pause() => {}
        }
    };
    ensure!(closed, "it sent all {sent} bytes");
    // An idle connection is another matter.
    let mut client = served.client().await?;
    client.ask(&request("general/errors/a.http", "", &[])).await?;
    ensure!(served.stop().await?["broken"] == 4);
    Ok(())
}

/// A tenth of a second of a client's slowness, which is what the test is about.
async fn pause() {
    let mut ticks = interval(Duration::from_millis(100));
    ticks.tick().await;
    ticks.tick().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_is_closed_without_a_word() -> Result<()> {
    let arguments = ["--limits", LIMITS, "--idle-timeout", "1s"];
    let mut served = Served::start(&plugin("error-file")?, &arguments).await?;
    let mut silent = served.client().await?;
    ensure!(silent.receive_body().await?.is_none());
    let mut client = served.client().await?;
    client.ask(&request("general/errors/a.http", "", &[])).await?;
    ensure!(client.receive_body().await?.is_none());
    ensure!(served.stop().await?["broken"] == 0, "that is how connections end");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_must_be_taken_in_time() -> Result<()> {
    let config = json!({ "forbidden": [{ "directive": "server", "reason": "r".repeat(500) }] }).to_string();
    let arguments = ["--limits", LIMITS, "--transfer-timeout", "2s", "--config", &config];
    let mut served = Served::start(&plugin("policy")?, &arguments).await?;
    let text = format!("backend b\n{}", "  server s 192.0.2.1:80\n".repeat(50));
    let ask = request("haproxy.cfg", &text, &[]);
    // One that asks and asks and listens to nothing: when the kernel holds no more answers, the server waits for it.
    let mut deaf = served.client().await?;
    let given_up = async { while deaf.send(&ask).await.is_ok() {} };
    timeout(Duration::from_secs(30), given_up).await.context("the server gives up")?;
    let answer = served.ask(&ask).await?;
    ensure!(answer.errors.len() >= 10, "{answer:?}");
    ensure!(served.stop().await?["broken"] == 1);
    Ok(())
}
