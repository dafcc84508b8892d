//! The payload that cosign signed until version 2, as Red Hat's simple signing has it.

use haptic_model::Digest;
use serde::Deserialize;

use crate::cosign::{Mismatch, PublicKey};

const TYPE: &str = "cosign container image signature";

#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Image {
    docker_manifest_digest: String,
}

/// `signature` is what the base64 of the layer's annotation stands for.
pub(super) fn verify(key: &PublicKey, payload: &[u8], signature: &[u8], manifest: Digest) -> Result<(), Mismatch> {
    // Nothing of the payload is read before it is known who wrote it.
    if !key.verifies(payload, signature) {
        return Err(Mismatch::Signature);
    }
    let Payload { critical } = serde_json::from_slice(payload).map_err(|_| Mismatch::Malformed)?;
    if critical.kind != TYPE {
        return Err(Mismatch::OtherStatement(critical.kind));
    }
    let signed = critical.image.docker_manifest_digest;
    if signed == format!("sha256:{manifest}") { Ok(()) } else { Err(Mismatch::OtherManifest(signed)) }
}
