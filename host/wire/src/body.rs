use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use haptic_model::FilePath;

use crate::{ApplyManifest, ManifestFile};

/// A decoded apply: the manifest, and the content of its parts.
#[derive(Clone, Debug)]
pub struct ApplyBody {
    /// What to apply.
    pub manifest: ApplyManifest,
    /// Content by path, without copies out of the body.
    pub parts: BTreeMap<FilePath, Bytes>,
}

/// A body that is not what [`ApplyBody::encode`] writes.
#[derive(Debug)]
pub struct MalformedBody(String);

impl ApplyBody {
    /// Writes manifest and parts; `parts` are in the order of `manifest.parts`.
    ///
    /// # Errors
    /// When the manifest cannot be written as JSON or is over 4 GiB.
    pub fn encode(manifest: &ApplyManifest, parts: &[Bytes]) -> Result<Bytes, MalformedBody> {
        let json = serde_json::to_vec(manifest).map_err(|error| MalformedBody(error.to_string()))?;
        let length = u32::try_from(json.len()).map_err(|error| MalformedBody(error.to_string()))?;
        let total = 4 + json.len() + parts.iter().map(Bytes::len).sum::<usize>();
        let mut body = BytesMut::with_capacity(total);
        body.put_u32(length);
        body.put_slice(&json);
        for part in parts {
            body.put_slice(part);
        }
        Ok(body.freeze())
    }

    /// Reads a whole body.
    ///
    /// # Errors
    /// When it is cut short, is longer than it says, or its manifest is not valid JSON.
    pub fn decode(mut body: Bytes) -> Result<Self, MalformedBody> {
        if body.len() < 4 {
            return Err(MalformedBody("it is shorter than its length field".to_owned()));
        }
        let length = body.get_u32() as usize;
        if body.len() < length {
            return Err(MalformedBody("it ends inside its manifest".to_owned()));
        }
        let manifest: ApplyManifest = serde_json::from_slice(&body.split_to(length))
            .map_err(|error| MalformedBody(format!("its manifest is not valid: {error}")))?;
        let length = |file: &ManifestFile| file.patch.map_or(file.size, |patch| patch.length);
        let sizes: BTreeMap<_, _> = manifest.files.iter().map(|file| (&file.path, length(file))).collect();
        let mut parts = BTreeMap::new();
        for path in &manifest.parts {
            let Some(size) = sizes.get(path) else {
                return Err(MalformedBody(format!("part `{path}` is not a file of the manifest")));
            };
            let size = usize::try_from(*size).unwrap_or(usize::MAX);
            if body.len() < size {
                return Err(MalformedBody(format!("it ends inside part `{path}`")));
            }
            parts.insert(path.clone(), body.split_to(size));
        }
        if !body.is_empty() {
            return Err(MalformedBody(format!("{} bytes follow the last part", body.len())));
        }
        Ok(Self { manifest, parts })
    }
}

impl std::fmt::Display for MalformedBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the apply body is malformed: {}", self.0)
    }
}

impl std::error::Error for MalformedBody {}
