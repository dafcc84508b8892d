//! Finds the signatures of an image in its registry.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use haptic_model::Digest;

use crate::{
    FetchError, ImageReference,
    cosign::{Base64, Evidence},
    registry::{Descriptor, Manifest, Repository},
};

const SIMPLE_SIGNING_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";
const BUNDLE_TYPE: &str = "application/vnd.dev.sigstore.bundle";

/// What one signature may have.
const MAX_EVIDENCE_BYTES: u64 = 256 << 10;

/// Signatures of one image that are looked at.
const MAX_EVIDENCE: usize = 64;

/// Everything that looks like a signature of the manifest; nothing is verified here.
pub(crate) async fn gather(
    repository: &Repository<'_>,
    image: &ImageReference,
    manifest: Digest,
) -> Result<Vec<Evidence>, FetchError> {
    let mut evidence = bundles(repository, image, manifest).await?;
    let Some(signatures) = repository.manifest(&format!("sha256-{manifest}.sig")).await? else { return Ok(evidence) };
    let Ok(signatures) = Manifest::parse(&signatures.bytes, image) else { return Ok(evidence) };
    for layer in signatures.layers.iter().filter(|layer| layer.media_type == SIMPLE_SIGNING_TYPE) {
        let Some(signature) = layer.annotations.get(SIGNATURE_ANNOTATION) else { continue };
        let Ok(signature) = BASE64_STANDARD.decode(signature) else { continue };
        if let Some(payload) = small_blob(repository, layer, evidence.len()).await? {
            evidence.push(Evidence::SimpleSigning { payload: Base64(payload), signature: Base64(signature) });
        }
    }
    Ok(evidence)
}

async fn bundles(
    repository: &Repository<'_>,
    image: &ImageReference,
    manifest: Digest,
) -> Result<Vec<Evidence>, FetchError> {
    let mut evidence = Vec::new();
    for referrer in repository.referrers(manifest).await?.manifests.into_iter().take(MAX_EVIDENCE) {
        // Some registries leave the artifact type out of the list; then the manifest itself says it.
        let other = referrer.artifact_type.as_ref().is_some_and(|kind| !kind.starts_with(BUNDLE_TYPE));
        let (false, Some(digest)) = (other, referrer.digest()) else { continue };
        let Some(found) = repository.manifest(&format!("sha256:{digest}")).await? else { continue };
        let Ok(found) = Manifest::parse(&found.bytes, image) else { continue };
        for layer in found.layers.iter().filter(|layer| layer.media_type.starts_with(BUNDLE_TYPE)) {
            if let Some(json) = small_blob(repository, layer, evidence.len()).await? {
                evidence.push(Evidence::Bundle { json: Base64(json) });
            }
        }
    }
    Ok(evidence)
}

/// `None` if it is no digest, too large, or one too many: such a signature is none.
async fn small_blob(
    repository: &Repository<'_>,
    layer: &Descriptor,
    known: usize,
) -> Result<Option<Vec<u8>>, FetchError> {
    match layer.digest() {
        Some(digest) if layer.size <= MAX_EVIDENCE_BYTES && known < MAX_EVIDENCE => {
            Ok(Some(repository.blob(digest, MAX_EVIDENCE_BYTES).await?.to_vec()))
        }
        _ => Ok(None),
    }
}
