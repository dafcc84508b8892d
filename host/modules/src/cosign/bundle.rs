//! Sigstore bundles that cosign writes since version 3: a DSSE envelope around an in-toto statement about the manifest.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use haptic_model::Digest;
use serde::Deserialize;

use crate::cosign::{Mismatch, PublicKey};

const BUNDLE_TYPE: &str = "application/vnd.dev.sigstore.bundle";
const IN_TOTO_TYPE: &str = "application/vnd.in-toto+json";
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/";

/// What `cosign sign` says. An attestation (of materials, of a scan …) is another statement by the same key about the
/// same image, and no approval of it.
const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    media_type: String,
    dsse_envelope: Option<Envelope>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
struct EnvelopeSignature {
    sig: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    predicate_type: String,
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    digest: SubjectDigest,
}

#[derive(Deserialize)]
struct SubjectDigest {
    sha256: Option<String>,
}

pub(super) fn verify(key: &PublicKey, json: &[u8], manifest: Digest) -> Result<(), Mismatch> {
    let bundle: Bundle = serde_json::from_slice(json).map_err(|_| Mismatch::Malformed)?;
    let envelope = bundle.dsse_envelope.filter(|_| bundle.media_type.starts_with(BUNDLE_TYPE));
    let Envelope { payload, payload_type, signatures } = envelope.ok_or(Mismatch::Malformed)?;
    let payload = BASE64_STANDARD.decode(payload).map_err(|_| Mismatch::Malformed)?;
    let signed = pre_authentication_encoding(&payload_type, &payload);
    let made_by_key = |signature: &EnvelopeSignature| {
        BASE64_STANDARD.decode(&signature.sig).is_ok_and(|signature| key.verifies(&signed, &signature))
    };
    if !signatures.iter().any(made_by_key) {
        return Err(Mismatch::Signature);
    }
    if payload_type != IN_TOTO_TYPE {
        return Err(Mismatch::OtherStatement(payload_type));
    }
    let statement: Statement = serde_json::from_slice(&payload).map_err(|_| Mismatch::Malformed)?;
    if !statement.kind.starts_with(STATEMENT_TYPE) || statement.predicate_type != SIGNED {
        return Err(Mismatch::OtherStatement(statement.predicate_type));
    }
    let wanted = manifest.to_string();
    let mut digests = statement.subject.into_iter().filter_map(|subject| subject.digest.sha256);
    match digests.find(|digest| *digest == wanted) {
        Some(_) => Ok(()),
        None => Err(Mismatch::OtherManifest(format!("other than {wanted}"))),
    }
}

/// What DSSE signs: type and payload, each with its length, so that neither can run into the other.
fn pre_authentication_encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut encoded = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    encoded.extend_from_slice(payload);
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_as_dsse_says() {
        let encoded = pre_authentication_encoding("http://example.com/HelloWorld", b"hello world");
        assert_eq!(encoded, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }
}
