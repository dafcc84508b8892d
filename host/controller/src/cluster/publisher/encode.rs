//! A text as it is put into objects: plain, compressed, in parts.

use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::cluster::publisher::PublisherSettings;

/// Most parts of one text.
pub(super) const PARTS: usize = 16;
/// zstd's own default: for text of this kind a higher one costs much and saves little.
const LEVEL: i32 = 3;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Encoded {
    pub(super) compressed: bool,
    /// Joined in order they are the whole.
    pub(super) parts: Vec<String>,
}

/// `None` = it does not even fit compressed and in parts. Takes time for large texts.
pub(super) fn encode(text: String, settings: &PublisherSettings) -> Option<Encoded> {
    if text.len() <= settings.compression_threshold && json_len(&text) <= settings.object_limit {
        return Some(Encoded { compressed: false, parts: vec![text] });
    }
    let compressed = zstd::encode_all(text.as_bytes(), LEVEL).expect("memory is written to");
    let encoded = BASE64_STANDARD.encode(compressed);
    let parts: Vec<_> = encoded
        .as_bytes()
        .chunks(settings.object_limit.max(1))
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect();
    (parts.len() <= PARTS).then_some(Encoded { compressed: true, parts })
}

/// The length of the text as a JSON string, quotes left out.
fn json_len(text: &str) -> usize {
    text.bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
            0..32 => 6,
            _ => 1,
        })
        .sum()
}

#[cfg(test)]
mod tests;
