use std::{collections::BTreeMap, fmt, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use crate::Digest;

/// What HAProxy uses a file for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    Config,
    Map,
    Cert,
    Ca,
    Crl,
    CrtList,
    General,
}

/// A path below the base directory of the file set: relative, canonical, at most 255 bytes, no component that is
/// empty or starts with a dot, only `[A-Za-z0-9._-]` and `/`. The same string is the name in HAProxy's runtime API
/// (haproxy-facts §0 trap 19), and keeping it to plain characters keeps it one word on every command line.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct FilePath(Arc<str>);

#[derive(Debug, Error)]
#[error("`{path}` is not a file path of the set: {reason}")]
pub struct InvalidFilePath {
    path: String,
    reason: &'static str,
}

/// One file of a render, with its digest computed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub path: FilePath,
    pub kind: FileKind,
    pub content: Bytes,
    pub digest: Digest,
    /// HAProxy reads this file only when it loads, so a change of it needs a reload.
    pub reload_on_change: bool,
}

/// All files of a render, `haproxy.cfg` included.
pub type FileSet = BTreeMap<FilePath, File>;

// === impl FilePath ===

impl FilePath {
    pub const MAX_BYTES: usize = 255;

    pub fn new(path: &str) -> Result<Self, InvalidFilePath> {
        let refuse = |reason| Err(InvalidFilePath { path: path.chars().take(300).collect(), reason });
        if path.is_empty() || path.len() > Self::MAX_BYTES {
            return refuse("it must have 1 to 255 bytes");
        }
        if !path.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'/')) {
            return refuse("only letters, digits, `.`, `_`, `-` and `/` may stand in it");
        }
        if path.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
            return refuse("it must be relative, and no part may be empty or start with a dot");
        }
        Ok(Self(path.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for FilePath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let path = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::new(&path).map_err(serde::de::Error::custom)
    }
}

// === impl File ===

impl File {
    pub fn new(path: FilePath, kind: FileKind, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        let digest = Digest::of(&content);
        Self { path, kind, content, digest, reload_on_change: false }
    }
}

// === impl FileKind ===

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Config => "configuration",
            Self::Map => "map",
            Self::Cert => "certificate",
            Self::Ca => "CA file",
            Self::Crl => "CRL file",
            Self::CrtList => "crt-list",
            Self::General => "file",
        })
    }
}
