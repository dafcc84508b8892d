//! OCI manifests, as far as plugins read them.

use std::collections::BTreeMap;

use haptic_model::Digest;
use serde::{Deserialize, Serialize};

use crate::{FetchError, ImageReference, Reason};

pub(crate) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// The layout of the CNCF's Wasm working group.
pub(crate) const WASM_CONFIG_TYPE: &str = "application/vnd.wasm.config.v0+json";
pub(crate) const WASM_LAYER_TYPE: &str = "application/wasm";

/// An older layout that tools still write.
const OLD_WASM_LAYER_TYPE: &str = "application/vnd.wasm.content.layer.v1+wasm";

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    pub(crate) config: Descriptor,
    #[serde(default)]
    pub(crate) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Index {
    #[serde(default)]
    pub(crate) manifests: Vec<Descriptor>,
}

/// The layer that is the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WasmLayer {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
}

// === impl Manifest ===

impl Manifest {
    pub(crate) fn parse(bytes: &[u8], image: &ImageReference) -> Result<Self, FetchError> {
        serde_json::from_slice(bytes).map_err(|_| not_wasm(image, "its manifest is that of no single image"))
    }

    /// # Errors
    /// When this is not an image with one Wasm layer.
    pub(crate) fn wasm_layer(&self, image: &ImageReference) -> Result<WasmLayer, FetchError> {
        let wasm = |layer: &&Descriptor| [WASM_LAYER_TYPE, OLD_WASM_LAYER_TYPE].contains(&layer.media_type.as_str());
        let mut layers = self.layers.iter().filter(wasm);
        match (layers.next(), layers.next()) {
            (Some(layer), None) => {
                let digest = layer.digest().ok_or_else(|| not_wasm(image, "its layer has no sha256 digest"))?;
                Ok(WasmLayer { digest, size: layer.size })
            }
            (None, _) => {
                let found: Vec<&str> = self.layers.iter().map(|layer| layer.media_type.as_str()).take(4).collect();
                Err(not_wasm(image, &format!("its layers are of type [{}]", printable(&found.join(", ")))))
            }
            (Some(_), Some(_)) => Err(not_wasm(image, "it has more than one Wasm layer")),
        }
    }
}

fn not_wasm(image: &ImageReference, why: &str) -> FetchError {
    let message = format!("{image} is no Wasm artifact: {why}");
    let next = format!("push the module with `haptic plugin push`, which makes a layer of type {WASM_LAYER_TYPE}");
    FetchError::new(Reason::WrongMediaType, message, next)
}

fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

// === impl Descriptor ===

impl Descriptor {
    /// `None` if it is no SHA-256 digest.
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.digest.strip_prefix("sha256:")?.parse().ok()
    }

    pub(crate) fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: format!("sha256:{}", Digest::of(bytes)),
            size: bytes.len() as u64,
            artifact_type: None,
            annotations: BTreeMap::new(),
        }
    }
}

// === impl Index ===

impl Index {
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}
