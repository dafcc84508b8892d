//! Finds the signatures of an image in its registry.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use haptic_model::Digest;

use crate::{
    FetchError, ImageReference, Reason,
    cosign::{Base64, Evidence},
    registry::{Descriptor, Manifest, Repository},
};

const SIMPLE_SIGNING_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";
const BUNDLE_TYPE: &str = "application/vnd.dev.sigstore.bundle";

/// What one signature may have.
const MAX_EVIDENCE_BYTES: u64 = 256 << 10;

/// Pieces of evidence of one format that are asked for.
const MAX_EVIDENCE: usize = 64;

/// Everything that looks like a signature of the manifest; nothing is verified here. Whoever may push beside a signature
/// must not be able to hide it: what is missing or too large is no evidence, and no error.
pub(crate) async fn gather(
    repository: &Repository<'_>,
    image: &ImageReference,
    manifest: Digest,
) -> Result<Vec<Evidence>, FetchError> {
    let mut evidence = bundles(repository, image, manifest).await?;
    evidence.extend(below_tag(repository, image, manifest).await?);
    Ok(evidence)
}

async fn below_tag(
    repository: &Repository<'_>,
    image: &ImageReference,
    manifest: Digest,
) -> Result<Vec<Evidence>, FetchError> {
    let Some(found) = manifest_at(repository, image, &format!("sha256-{manifest}.sig")).await? else {
        return Ok(Vec::new());
    };
    let signed = found.layers.iter().filter(|layer| layer.media_type == SIMPLE_SIGNING_TYPE).filter_map(|layer| {
        let signature = BASE64_STANDARD.decode(layer.annotations.get(SIGNATURE_ANNOTATION)?).ok()?;
        Some((small(layer)?, signature))
    });
    let mut evidence = Vec::new();
    for (payload, signature) in signed.take(MAX_EVIDENCE) {
        if let Some(payload) = blob(repository, payload).await? {
            evidence.push(Evidence::SimpleSigning { payload, signature: Base64(signature) });
        }
    }
    Ok(evidence)
}

async fn bundles(
    repository: &Repository<'_>,
    image: &ImageReference,
    manifest: Digest,
) -> Result<Vec<Evidence>, FetchError> {
    let referrers = unless_missing(repository.referrers(manifest).await)?.unwrap_or_default();
    // Some registries leave the artifact type out of the list; then the manifest itself says it.
    let other =
        |referrer: &Descriptor| referrer.artifact_type.as_ref().is_some_and(|kind| !kind.starts_with(BUNDLE_TYPE));
    let fitting = referrers.manifests.iter().filter(|referrer| !other(referrer)).filter_map(Descriptor::digest);
    let (mut evidence, mut asked) = (Vec::new(), 0);
    for digest in fitting.take(MAX_EVIDENCE) {
        let Some(found) = manifest_at(repository, image, &format!("sha256:{digest}")).await? else { continue };
        let layers = found.layers.iter().filter(|layer| layer.media_type.starts_with(BUNDLE_TYPE)).filter_map(small);
        for json in layers.take(MAX_EVIDENCE - asked) {
            asked += 1;
            evidence.extend(blob(repository, json).await?.map(|json| Evidence::Bundle { json }));
        }
    }
    Ok(evidence)
}

async fn manifest_at(
    repository: &Repository<'_>,
    image: &ImageReference,
    name: &str,
) -> Result<Option<Manifest>, FetchError> {
    let found = unless_missing(repository.manifest(name).await)?.flatten();
    Ok(found.and_then(|found| Manifest::parse(&found.bytes, image).ok()))
}

async fn blob(repository: &Repository<'_>, digest: Digest) -> Result<Option<Base64>, FetchError> {
    let bytes = unless_missing(repository.blob(digest, MAX_EVIDENCE_BYTES).await)?;
    Ok(bytes.map(|bytes| Base64(bytes.to_vec())))
}

/// `None` if it says that it is too large, or has no digest that can be asked for.
fn small(layer: &Descriptor) -> Option<Digest> {
    layer.digest().filter(|_| layer.size <= MAX_EVIDENCE_BYTES)
}

fn unless_missing<T>(found: Result<T, FetchError>) -> Result<Option<T>, FetchError> {
    match found {
        Err(error) if matches!(error.reason, Reason::NotFound | Reason::TooLarge) => Ok(None),
        found => found.map(Some),
    }
}
