//! The transcript in `host/conformance/docs/protocol-v1.md` is what happens.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use haptic_conformance::v1::HEADER_BYTES;
use serde_json::Value;

use crate::served::{LIMITS, Served, plugin};

/// A message as the text shows it: the value, and the bytes of its frame.
struct Message {
    value: Value,
    frame: Vec<u8>,
}

fn messages() -> Result<Vec<Message>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../host/conformance/docs/protocol-v1.md");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let transcript = text.split_once("\n## A transcript\n").context("the heading")?.1;
    let transcript = transcript.split("\n## ").next().context("the section")?;
    let blocks = transcript.split("\n```").collect::<Vec<_>>();
    // Text and blocks take turns; blocks are JSON and hexadecimal by turns.
    let blocks: Vec<&str> = blocks.into_iter().skip(1).step_by(2).collect();
    blocks
        .chunks(2)
        .map(|pair| {
            let [json, hexadecimal] = pair else { anyhow::bail!("a message is two blocks") };
            let value = serde_json::from_str(json.strip_prefix("json\n").context("the first block is JSON")?)?;
            let lines = hexadecimal.strip_prefix("text\n").context("the second block is text")?.lines();
            let mut frame = Vec::new();
            for line in lines {
                let digits: String = line.get(6..53).unwrap_or(line).split_whitespace().collect();
                frame.extend(hex::decode(&digits).with_context(|| format!("`{line}`"))?);
            }
            Ok(Message { value, frame })
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_transcript_of_the_guide_is_what_happens() -> Result<()> {
    let messages = messages()?;
    ensure!(messages.len() == 4, "{} messages", messages.len());
    for Message { value, frame } in &messages {
        let (header, body) = frame.split_at(HEADER_BYTES);
        ensure!(header == u32::try_from(body.len())?.to_be_bytes());
        ensure!(serde_json::from_slice::<Value>(body)? == *value, "{value:#}");
    }
    let served = Served::start(&plugin("error-file")?, &["--limits", LIMITS]).await?;
    let mut client = served.client().await?;
    for pair in messages.chunks(2) {
        let [request, answer] = pair else { anyhow::bail!("every request has its answer") };
        client.send_bytes(&request.frame).await?;
        let body = client.receive_body().await?.context("an answer")?;
        ensure!(body == answer.frame[HEADER_BYTES..], "{}", String::from_utf8_lossy(&body));
    }
    Ok(())
}
