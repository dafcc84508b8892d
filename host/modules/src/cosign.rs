//! Signatures that cosign makes with a key: the older one below the tag `sha256-….sig` with a simple-signing payload,
//! and the Sigstore bundle that refers to the image. A signature counts if the key made it for the digest of the
//! manifest whose layer is the pinned module; annotations, hints and names in it are not trusted.
//!
//! Transparency logs and certificates are not looked at: the key is the trust.

mod bundle;
mod gather;
mod key;
mod simple_signing;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use haptic_model::Digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{FetchError, ImageReference, Reason, registry::Manifest};

pub(crate) use gather::gather;
pub use key::{InvalidKey, PublicKey};

/// A signature as it was found, with what it signs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Evidence {
    SimpleSigning {
        payload: Base64,
        signature: Base64,
    },
    /// A Sigstore bundle, as JSON.
    Bundle {
        json: Base64,
    },
}

/// All that proves a module again without the registry.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignedManifest {
    pub(crate) manifest: Base64,
    pub(crate) evidence: Vec<Evidence>,
}

/// Bytes that are base64 in JSON.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Base64(pub(crate) Vec<u8>);

/// Why one signature does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mismatch {
    #[error("another key made it, or it was changed")]
    Signature,
    #[error("it is for another image, with manifest {0}")]
    OtherManifest(String),
    #[error("it signs a statement of type {0} and not the image")]
    OtherStatement(String),
    #[error("it is not of a form that cosign writes")]
    Malformed,
}

// === impl SignedManifest ===

impl SignedManifest {
    /// Proves that `key` signed the manifest, and that the pinned module is its Wasm layer.
    pub(crate) fn verify(&self, key: &PublicKey, image: &ImageReference, pin: Digest) -> Result<(), FetchError> {
        let manifest = Manifest::parse(&self.manifest.0, image)?;
        let layer = manifest.wasm_layer(image)?;
        if layer.digest != pin {
            return Err(other_module(image, layer.digest, pin));
        }
        let digest = Digest::of(&self.manifest.0);
        let mut mismatches = Vec::new();
        for evidence in &self.evidence {
            match evidence.verify(key, digest) {
                Ok(()) => return Ok(()),
                Err(mismatch) => mismatches.push(mismatch.to_string()),
            }
        }
        mismatches.sort();
        mismatches.dedup();
        if mismatches.is_empty() {
            let message = format!("{image} (manifest sha256:{digest}) carries no cosign signature");
            let next = format!("sign it: cosign sign --key cosign.key {}", image.at(digest));
            return Err(FetchError::new(Reason::SignatureMissing, message, next));
        }
        let message = format!(
            "cosignKey verifies none of the signatures of {image} (manifest sha256:{digest}): {}",
            mismatches.join("; ")
        );
        Err(FetchError::new(
            Reason::SignatureInvalid,
            message,
            "sign the image with the key of cosignKey, or correct cosignKey",
        ))
    }
}

pub(crate) fn other_module(image: &ImageReference, found: Digest, pin: Digest) -> FetchError {
    let message = format!("the module of {image} has sha256 {found}, but {pin} is pinned");
    FetchError::new(Reason::DigestMismatch, message, "pin the new digest if the change is meant")
}

// === impl Evidence ===

impl Evidence {
    fn verify(&self, key: &PublicKey, manifest: Digest) -> Result<(), Mismatch> {
        match self {
            Self::SimpleSigning { payload, signature } => {
                simple_signing::verify(key, &payload.0, &signature.0, manifest)
            }
            Self::Bundle { json } => bundle::verify(key, &json.0, manifest),
        }
    }
}

// === impl Base64 ===

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64_STANDARD.decode(&text).map(Self).map_err(D::Error::custom)
    }
}

impl std::fmt::Debug for Base64 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Base64({} bytes)", self.0.len())
    }
}
