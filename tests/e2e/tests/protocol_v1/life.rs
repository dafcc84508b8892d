//! Start and stop: the socket is ours and no one else's, and no answer is lost.

use std::{fs, os::unix::fs::PermissionsExt as _, os::unix::net::UnixListener};

use anyhow::{Context as _, Result, ensure};
use haptic_conformance::v1::{ClientError, frame};
use rustix::process::Signal;
use serde_json::json;

use crate::served::{LIMITS, Served, about_no_file, first_path, guest, plugin, refused, request};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_socket_is_private_and_goes_with_the_server() -> Result<()> {
    for signal in [Signal::TERM, Signal::INT] {
        let mut served = Served::start(&plugin("error-file")?, &["--limits", LIMITS]).await?;
        let mode = fs::metadata(served.socket())?.permissions().mode();
        ensure!(mode & 0o7777 == 0o600, "{mode:o}");
        // It does not wait for a client that is idle, or for one that is in the middle of a request.
        let (_idle, mut half) = (served.client().await?, served.client().await?);
        half.send_bytes(&[0, 0]).await?;
        served.ask(&request("general/errors/a.http", "", &[])).await?;
        served.signal(signal)?;
        let status = served.ended().await;
        ensure!(status.success(), "{status}");
        ensure!(!served.socket().exists());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_socket_is_replaced_and_a_live_one_is_not() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (module, socket) = (plugin("error-file")?, folder.path().join("v1.sock"));
    let mut killed = Served::start_at(&module, &socket, &["--limits", LIMITS]).await?;
    let second = refused(&module, &socket, &["--limits", LIMITS])?;
    let said = String::from_utf8_lossy(&second.stderr);
    ensure!(second.status.code() == Some(2) && said.contains("is served by another process"), "{said}");
    killed.ask(&request("general/errors/a.http", "", &[])).await?;
    killed.signal(Signal::KILL)?;
    killed.ended().await;
    ensure!(socket.exists(), "a killed server leaves its socket");
    let mut next = Served::start_at(&module, &socket, &["--limits", LIMITS]).await?;
    next.ask(&request("general/errors/a.http", "", &[])).await?;
    next.stop().await?;

    let _other = UnixListener::bind(&socket)?;
    let said = String::from_utf8_lossy(&refused(&module, &socket, &["--limits", LIMITS])?.stderr).into_owned();
    ensure!(said.contains("is served by another process"), "{said}");
    let notes = folder.path().join("notes");
    fs::write(&notes, "precious")?;
    let said = String::from_utf8_lossy(&refused(&module, &notes, &["--limits", LIMITS])?.stderr).into_owned();
    ensure!(said.contains("is there and is no socket"), "{said}");
    ensure!(fs::read_to_string(&notes)? == "precious");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_served_is_told_with_the_next_step() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("v1.sock");
    let text = folder.path().join("text.wasm");
    fs::write(&text, "no component")?;
    for (module, arguments, says) in [
        (plugin("network")?, &["--limits", LIMITS][..], "has template filters only"),
        (guest("fault")?, &["--limits", LIMITS], "say which with --contract"),
        (plugin("policy")?, &["--limits", LIMITS, "--contract", "auxiliary-file"], "is no auxiliary-file validator"),
        (plugin("policy")?, &["--limits", LIMITS, "--config", "{\"forbiden\":[]}"], "unknown field `forbiden`"),
        (plugin("policy")?, &["--config", "[]"], "it is not a JSON object"),
        (plugin("policy")?, &["--limits", "memroy=1Mi"], "unknown field `memroy`"),
        (text, &[], "it is not a component"),
        (folder.path().join("absent.wasm"), &[], "reading the component"),
    ] {
        let output = refused(&module, &socket, arguments)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(2) && said.contains(says), "{arguments:?}: {said}");
        ensure!(!socket.exists());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_project_says_what_the_command_line_does_not() -> Result<()> {
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("dist"))?;
    fs::copy(guest("fault")?, folder.path().join("dist/own-name.wasm"))?;
    let manifest = "name: own-name\nlanguage: rust\nconfig: {on_call: error}\nlimits: {timeout: 20s}\n";
    fs::write(folder.path().join("plugin.yaml"), manifest)?;
    let contract = ["--contract", "rendered-output"];
    let question = request("haproxy.cfg", "global\n", &[]);
    let served = Served::start(folder.path(), &contract).await?;
    let answer = served.ask(&question).await?;
    ensure!(about_no_file(&answer) == ["plugin `own-name` could not answer: the moon is in the wrong house"]);
    // The command line wins.
    let served = Served::start(folder.path(), &[&contract[..], &["--config", "{}"]].concat()).await?;
    ensure!(served.ask(&question).await?.errors.is_empty());
    let socket = folder.path().join("v1.sock");
    fs::write(folder.path().join("plugin.yaml"), "name: own-name\nlanguage: rust\nconfg: {}\n")?;
    let output = refused(folder.path(), &socket, &contract)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(2) && said.contains("unknown field `confg`"), "{said}");
    fs::remove_file(folder.path().join("plugin.yaml"))?;
    let said = String::from_utf8_lossy(&refused(folder.path(), &socket, &contract)?.stderr).into_owned();
    ensure!(said.contains("has no plugin.yaml"), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_was_read_is_answered_before_the_end() -> Result<()> {
    let config = json!({ "on_call": "loop" }).to_string();
    let arguments = ["--contract", "auxiliary-file", "--config", &config, "--limits", "timeout=2s"];
    let mut served = Served::start(&guest("fault")?, &arguments).await?;
    let mut client = served.client().await?;
    client.send(&request("general/a.txt", "", &[])).await?;
    served.until_logged("answering a request", 1).await;
    served.signal(Signal::TERM)?;
    let answer = client.receive().await?;
    ensure!(about_no_file(&answer)[0] == "validation timed out after 2s", "{answer:?}");
    ensure!(client.receive_body().await?.is_none());
    let status = served.ended().await;
    ensure!(status.success(), "{status}");
    Ok(())
}

/// A client may send several requests without waiting for answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_requests_that_were_read_are_answered_before_the_end() -> Result<()> {
    let config = json!({ "on_call": "loop" }).to_string();
    let arguments = ["--contract", "auxiliary-file", "--config", &config, "--limits", "timeout=1s"];
    let mut served = Served::start(&guest("fault")?, &arguments).await?;
    let mut client = served.client().await?;
    let one = frame(&serde_json::to_vec(&request("general/a.txt", "", &[]))?)?;
    client.send_bytes(&one.repeat(3)).await?;
    served.until_logged("answering a request", 1).await;
    served.signal(Signal::TERM)?;
    for number in 1..=3 {
        let answer = client.receive().await.with_context(|| format!("the answer to request {number}"))?;
        ensure!(about_no_file(&answer)[0] == "validation timed out after 1s", "{number}: {answer:?}");
    }
    ensure!(client.receive_body().await?.is_none());
    let status = served.ended().await;
    ensure!(status.success(), "{status}");
    Ok(())
}

/// Clients that ask without end while the server stops: what it says that it answered is what they got.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stop_under_load_loses_no_answer() -> Result<()> {
    let mut served = Served::start(&plugin("error-file")?, &["--limits", LIMITS]).await?;
    let mut tasks = Vec::new();
    for number in 0..16 {
        let mut client = served.client().await?;
        tasks.push(tokio::spawn(async move {
            let mut received = 0;
            loop {
                let path = format!("general/errors/{number}-{received}.http");
                match client.ask(&request(&path, &"x".repeat(2000), &[])).await {
                    Ok(answer) => ensure!(first_path(&answer) == path, "{answer:?}"),
                    Err(ClientError::Closed | ClientError::Send(_) | ClientError::Read(_)) => return Ok(received),
                    Err(error) => return Err(error.into()),
                }
                received += 1;
            }
        }));
    }
    served.until_logged("answering a request", 200).await;
    let did = served.stop().await?;
    let mut received = 0;
    for task in tasks {
        received += task.await??;
    }
    ensure!(received >= 100 && did["requests"] == received && did["broken"] == 0, "{received} answers, but {did}");
    Ok(())
}
