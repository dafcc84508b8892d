//! State and applies of a real HAProxy over TLS, and what the probes say meanwhile.

use std::{process::Command, sync::Arc};

use anyhow::{Result, ensure};
use haptic_e2e::{Authority, Echo, Subject, binary, eventually, get};
use haptic_model::Mode;
use haptic_wire::{
    AgentClient, ApplyError, ClientError, ConflictReason, HandshakeError,
    tls::{ClientIdentity, Credentials},
};

use crate::pod::{Pod, controller};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applies_over_tls_and_probes_follow() -> Result<()> {
    let mut pod = Pod::start(&["--reload-interval-min", "0"]).await?;
    let healthy = pod.probe("/healthz").await?;
    ensure!((healthy.status, healthy.body.as_str()) == (200, "ok\n"), "{healthy:?}");
    let unready = pod.probe("/readyz").await?;
    ensure!(unready.status == 503 && unready.body.contains("no HAProxy worker"), "{unready:?}");
    for path in ["/v1/state", "/v1/serving", "/"] {
        let hidden = pod.probe(path).await?;
        ensure!((hidden.status, hidden.body.as_str()) == (404, ""), "{path}: {hidden:?}");
    }

    let _echo = Echo::start("web-1", pod.backend()).await?;
    let config = pod.config(pod.backend());
    let refused = pod.apply(&format!("{config}    bogus word\n")).await?;
    ensure!(!refused.ok && refused.error.as_deref().is_some_and(|words| words.contains("bogus")), "{refused:?}");
    ensure!(pod.probe("/readyz").await?.status == 503, "what HAProxy refused is not served");

    let applied = pod.apply(&config).await?;
    ensure!(applied.ok && applied.mode == Mode::Reload, "{applied:?}");
    ensure!(get(pod.traffic(), "shop", "/").await?.served_by() == Some("web-1"), "traffic flows");
    let ready = pod.probe("/readyz").await?;
    ensure!((ready.status, ready.body.as_str()) == (200, "ready\n"), "{ready:?}");
    let client = pod.client();
    let state = client.state(false).await?;
    ensure!(state.applied_plan == Some(applied.plan_id) && state.running_plan == state.applied_plan, "{state:?}");
    ensure!(state.haproxy.is_some_and(|haproxy| haproxy.minor == (3, 4)), "it is HAProxy 3.4");

    // A refused set changes nothing about what is served.
    let refused = pod.apply(&format!("{config}    bogus word\n")).await?;
    ensure!(!refused.ok && refused.rolled_back, "{refused:?}");
    ensure!(pod.probe("/readyz").await?.status == 200, "the acknowledged configuration is served on");

    // The fence is the engine's, whoever comes through the door.
    let (later, parts) = pod.manifest(&format!("{config}# later\n"), 7);
    client.apply(&later, &parts).await?;
    let (stale, parts) = pod.manifest(&config, 6);
    match client.apply(&stale, &parts).await {
        Err(ApplyError::Conflict(conflict)) => ensure!(conflict.reason == ConflictReason::StaleEpoch, "{conflict:?}"),
        other => anyhow::bail!("a leader of the past was not refused: {other:?}"),
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_that_waits_leaves_the_pod_ready() -> Result<()> {
    let mut pod = Pod::start(&["--reload-interval-min", "3600000"]).await?;
    let _echo = Echo::start("web-1", pod.backend()).await?;
    let config = pod.config(pod.backend());
    let first = pod.apply(&config).await?;
    ensure!(first.ok && first.mode == Mode::Reload, "{first:?}");
    let second = pod.apply(&format!("{config}# later\n")).await?;
    ensure!(second.ok && second.mode == Mode::Scheduled, "{second:?}");
    let serving = pod.client().serving().await?;
    ensure!(serving.reload_pending && serving.running_plan == Some(first.plan_id), "{serving:?}");
    ensure!(pod.probe("/readyz").await?.status == 200, "the configuration before is served on");
    ensure!(get(pod.traffic(), "shop", "/").await?.served_by() == Some("web-1"), "traffic flows");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_ca_is_taken_without_a_restart_and_the_old_one_is_dropped() -> Result<()> {
    let mut pod = Pod::start(&[]).await?;
    let before = pod.pid();
    let outdated = pod.client();
    outdated.state(false).await?;

    let (new, stranger) = (Authority::new("new CA")?, Authority::new("another CA")?);
    pod.volume.update(&new.issue(&Subject::agent())?, new.pem())?;
    let identity = Arc::new(ClientIdentity::new(&controller(&new)?)?);
    eventually("the agent trusts the new CA", async || {
        AgentClient::tls(pod.api(), identity.clone()).state(false).await.ok()
    })
    .await;
    // What is connected goes on; who comes anew is judged by the new CA.
    outdated.state(false).await?;
    let trusts_new = |pair: haptic_e2e::Issued| -> Result<_> {
        let ca = new.pem().as_bytes();
        let credentials = Credentials::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes(), ca)?;
        Ok(AgentClient::tls(pod.api(), Arc::new(ClientIdentity::new(&credentials)?)))
    };
    for ca in [&pod.ca, &stranger] {
        match trusts_new(ca.issue(&Subject::controller())?)?.state(false).await {
            Err(ClientError::Handshake { source: HandshakeError::RefusedByAgent { .. }, .. }) => {}
            other => anyhow::bail!("a controller of another CA was not refused: {other:?}"),
        }
    }

    // A broken pair is named in the log with its file, and serves nobody.
    let mut broken = new.issue(&Subject::agent())?;
    broken.key = stranger.issue(&Subject::agent())?.key;
    pod.volume.update(&broken, new.pem())?;
    eventually("the broken key is named", async || {
        pod.log()
            .iter()
            .any(|line| line.contains("keeping the present certificate") && line.contains("tls.key"))
            .then_some(())
    })
    .await;
    AgentClient::tls(pod.api(), identity).state(false).await?;
    ensure!(pod.pid() == before, "it is the same process");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_there_before_its_certificate_waits_for_it() -> Result<()> {
    let mut pod = Pod::prepare()?;
    let (data, later) = (pod.volume.path("..data"), pod.volume.path("..later"));
    std::fs::rename(&data, &later)?;
    let mut command = Command::new(binary());
    command.args(pod.arguments(&pod.haproxy.path.clone()));
    pod.run(command)?;
    let alive = eventually("an answer of /healthz", async || pod.probe("/healthz").await.ok()).await;
    ensure!(alive.status == 200, "{alive:?}");
    ensure!(pod.probe("/readyz").await?.status == 503, "nothing was applied");
    let log = eventually("the log to say what it waits for", async || {
        std::fs::read_to_string(pod.path("agent.log")).ok().filter(|log| log.contains("waiting for the certificate"))
    });
    ensure!(log.await.contains("tls.crt"), "the file is named");
    std::fs::rename(&later, &data)?;
    pod.until_alive().await;
    Ok(())
}
