//! What is no frame or no request is told so and harms no one else.

use anyhow::{Context, Result, ensure};
use haptic_conformance::v1::{Client, MAX_FRAME_BYTES, Response, Verdict, frame};
use serde_json::{Value, json};

use crate::served::{LIMITS, Served, about_no_file, first_path, plugin, request};

async fn served() -> Result<Served> {
    Served::start(&plugin("error-file")?, &["--limits", LIMITS]).await
}

/// What the server answers to these bytes, and whether it keeps the connection.
async fn answer_to(served: &Served, bytes: &[u8]) -> Result<(Response, Client)> {
    let mut client = served.client().await?;
    client.send_bytes(bytes).await?;
    let answer = client.receive().await?;
    Ok((answer, client))
}

async fn is_closed(mut client: Client) -> Result<()> {
    ensure!(client.receive_body().await?.is_none(), "the connection is closed");
    Ok(())
}

/// A request still gets its answer over this connection.
async fn is_open(client: &mut Client) -> Result<()> {
    let answer = client.ask(&request("general/errors/after.http", "", &[])).await?;
    ensure!(first_path(&answer) == "general/errors/after.http", "{answer:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_no_json_is_told_so_and_ends_the_connection() -> Result<()> {
    let served = served().await?;
    let not_utf8 = b"{\"protocol_version\":1,\"files\":[{\"path\":\"a\",\"content\":\"\xff\"}]}";
    for body in [&b""[..], b"not json", b"{\"protocol_version\":1", b"{} {}", not_utf8, b"[1]"] {
        let (answer, client) = answer_to(&served, &frame(body)?).await?;
        ensure!(answer.result == Verdict::Error && answer.errors.len() == 1, "{answer:?}");
        let said = about_no_file(&answer);
        ensure!(said[0].starts_with("request body is not valid JSON: "), "{said:?}");
        is_closed(client).await?;
    }
    is_open(&mut served.client().await?).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_that_is_no_request_is_told_so_and_the_connection_goes_on() -> Result<()> {
    let served = served().await?;
    let file = json!([{ "path": "general/errors/a.http", "content": "" }]);
    let same = json!([file[0], file[0]]);
    let (escaping, absolute) = (json!([{ "path": "../x", "content": "" }]), json!([{ "path": "/x", "content": "" }]));
    let data = json!([{ "path": "x", "content": "", "kind": "data" }]);
    let two = json!([file[0], { "path": "general/errors/b.http", "content": "" }]);
    let mut client = served.client().await?;
    for (body, says) in [
        (json!({ "protocol_version": 2, "files": file }), "protocol version 2 not supported (max: 1)"),
        (json!({ "protocol_version": 2, "requests": 7 }), "protocol version 2 not supported (max: 1)"),
        (json!({ "files": file }), "protocol version 0 not supported (max: 1)"),
        (json!({ "protocol_version": 1 }), "missing required field 'files'"),
        (json!({ "protocol_version": 1, "files": null }), "missing required field 'files'"),
        (json!({ "protocol_version": 1, "files": [] }), "'files' array must be non-empty"),
        (json!({ "protocol_version": 1, "files": escaping }), "files[0]: `../x` is not a file path"),
        (json!({ "protocol_version": 1, "files": absolute }), "files[0]: `/x` is not a file path"),
        (json!({ "protocol_version": 1, "files": same }), "files[1]: `general/errors/a.http` is in the request twice"),
        (json!({ "protocol_version": 1, "files": data }), "every file of the request is data"),
        (json!({ "protocol_version": 1, "files": two }), "the request has more than one file to check"),
    ] {
        client.send_bytes(&frame(body.to_string().as_bytes())?).await?;
        let answer = client.receive().await?;
        let said = about_no_file(&answer);
        ensure!(said.len() == 1 && said[0].starts_with(says), "{body}: {said:?}");
        is_open(&mut client).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_that_nobody_knows_are_ignored() -> Result<()> {
    let served = served().await?;
    let file = json!({ "path": "general/errors/a.http", "content": "", "mode": "0600", "kind": null });
    let body =
        json!({ "protocol_version": 1, "files": [file], "staged_root": "/tmp/staged", "trace": { "id": [1, 2] } });
    let (answer, mut client) = answer_to(&served, &frame(body.to_string().as_bytes())?).await?;
    ensure!(first_path(&answer) == "general/errors/a.http", "{answer:?}");
    is_open(&mut client).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_that_is_too_large_is_told_so_even_to_a_client_that_goes_on_writing() -> Result<()> {
    let served = served().await?;
    let says = "request frame exceeds maximum size of 8388608 bytes";
    let header = u32::try_from(MAX_FRAME_BYTES + 1)?.to_be_bytes();
    for announced in [header, u32::MAX.to_be_bytes()] {
        let (answer, client) = answer_to(&served, &announced).await?;
        ensure!(about_no_file(&answer) == [says], "{answer:?}");
        drop(client);
    }
    // One that reads nothing before it has written everything.
    let mut whole = header.to_vec();
    whole.resize(4 + MAX_FRAME_BYTES + 1, b'x');
    let (answer, mut client) = answer_to(&served, &whole).await?;
    ensure!(about_no_file(&answer) == [says], "{answer:?}");
    client.finish().await?;
    is_closed(client).await?;
    is_open(&mut served.client().await?).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_may_have_eight_mebibytes_and_no_byte_more() -> Result<()> {
    let served = served().await?;
    let empty = serde_json::to_vec(&request("general/errors/a.http", "", &[]))?.len();
    let largest = request("general/errors/a.http", &"x".repeat(MAX_FRAME_BYTES - empty), &[]);
    let body = serde_json::to_vec(&largest)?;
    ensure!(body.len() == MAX_FRAME_BYTES, "{}", body.len());
    let mut client = served.client().await?;
    let answer = client.ask(&largest).await?;
    ensure!(first_path(&answer) == "general/errors/a.http", "{:?}", answer.errors.first());
    let larger = request("general/errors/a.http", &"x".repeat(MAX_FRAME_BYTES - empty + 1), &[]);
    let refused = client.ask(&larger).await.err().context("a client does not send it")?;
    ensure!(refused.to_string().contains("8388609 bytes"), "{refused}");
    is_open(&mut client).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_in_the_middle_gets_no_answer() -> Result<()> {
    let mut served = served().await?;
    let whole = frame(&serde_json::to_vec(&request("general/errors/a.http", "", &[]))?)?;
    let mut broken = 0;
    for length in [1, 3, 4, 5, whole.len() - 1] {
        // One that still listens, and one that is gone.
        let mut client = served.client().await?;
        client.send_bytes(&whole[..length]).await?;
        client.finish().await?;
        is_closed(client).await?;
        let mut client = served.client().await?;
        client.send_bytes(&whole[..length]).await?;
        drop(client);
        broken += 2;
    }
    // A whole request whose sender does not wait for the answer.
    for _ in 0..5 {
        let mut client = served.client().await?;
        client.send_bytes(&whole).await?;
        drop(client);
    }
    // A whole request after which nothing more will come: it has its answer.
    let mut client = served.client().await?;
    client.send_bytes(&whole).await?;
    client.finish().await?;
    ensure!(first_path(&client.receive().await?) == "general/errors/a.http");
    is_closed(client).await?;
    is_open(&mut served.client().await?).await?;
    served.until_logged("connection ended", 2 * 5 + 5 + 2).await;
    let did: Value = served.stop().await?;
    ensure!(did["broken"].as_u64().is_some_and(|count| count >= broken), "{did}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_may_come_in_as_many_pieces_as_it_has_bytes() -> Result<()> {
    let served = served().await?;
    let mut client = served.client().await?;
    let mut bytes = Vec::new();
    for path in ["general/errors/a.http", "general/errors/b.http"] {
        bytes.extend(frame(&serde_json::to_vec(&request(path, "", &[]))?)?);
    }
    for byte in bytes {
        client.send_bytes(&[byte]).await?;
        tokio::task::yield_now().await;
    }
    ensure!(first_path(&client.receive().await?) == "general/errors/a.http");
    ensure!(first_path(&client.receive().await?) == "general/errors/b.http");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_do_not_wait_are_answered_in_their_order() -> Result<()> {
    let served = served().await?;
    let mut client = served.client().await?;
    let mut bytes = Vec::new();
    let path = |number: usize| format!("general/errors/{number}.http");
    for number in 0..300 {
        let body = match number % 3 {
            // Of different sizes, so that a faster one could overtake.
            0 => serde_json::to_vec(&request(&path(number), &"x".repeat(number * 50), &[]))?,
            1 => serde_json::to_vec(&request(&path(number), "", &[]))?,
            _ => br#"{"protocol_version":1,"files":[]}"#.to_vec(),
        };
        bytes.extend(frame(&body)?);
    }
    // Answers and requests are more than the kernel holds: one must be read while the other is written.
    let socket = served.socket().to_owned();
    let stream = tokio::net::UnixStream::connect(&socket).await?;
    let (mut reader, mut writer) = stream.into_split();
    let writing =
        tokio::spawn(async move { tokio::io::AsyncWriteExt::write_all(&mut writer, &bytes).await.map(|()| writer) });
    let mut frames = haptic_conformance::v1::Frames::default();
    for number in 0..300 {
        let body = loop {
            if let Some(body) = frames.next_body()? {
                break body;
            }
            let count = tokio::io::AsyncReadExt::read_buf(&mut reader, frames.buffer()).await?;
            ensure!(count > 0, "the connection ended before answer {number}");
        };
        let answer: Response = serde_json::from_slice(&body)?;
        if number % 3 == 2 {
            ensure!(about_no_file(&answer) == ["'files' array must be non-empty"], "{number}: {answer:?}");
        } else {
            ensure!(first_path(&answer) == path(number), "{number}: {answer:?}");
        }
    }
    drop(writing.await??);
    is_open(&mut client).await
}
