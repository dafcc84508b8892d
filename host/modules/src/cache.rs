//! Modules on disk, by their digest. A file is believed only after its digest was computed again, so that a changed
//! file is as good as none; what proves a signature lies beside the module and is verified again by whoever reads it.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

use bytes::Bytes;
use haptic_model::Digest;
use thiserror::Error;

use crate::{ImageReference, MAX_MODULE_BYTES, cosign::SignedManifest, file::read_at_most};

/// What is kept beside the modules that are wanted now.
const MAX_UNWANTED_BYTES: u64 = 512 << 20;

/// What a file of signatures may have.
const MAX_SIGNATURES_BYTES: u64 = 64 << 20;

/// A folder of modules. Blocks.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

#[derive(Debug, Error)]
#[error("{doing} {path}")]
pub struct CacheError {
    doing: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

// === impl Cache ===

impl Cache {
    /// Makes the folder, for this user alone.
    pub fn open(folder: &Path) -> Result<Self, CacheError> {
        let failed = |doing| move |source| CacheError { doing, path: folder.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed("making the folder"))?;
        fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(failed("making private the folder"))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// `None` if it is not there or is not what its name says; such a file is removed.
    pub fn module(&self, digest: Digest) -> Option<Bytes> {
        let path = self.module_path(digest);
        let bytes = read_at_most(&path, MAX_MODULE_BYTES).ok()?;
        if Digest::of(&bytes) == digest {
            return Some(Bytes::from(bytes));
        }
        tracing::warn!(path = %path.display(), "a cached module was changed; it is removed and fetched again");
        let _ = fs::remove_file(&path);
        None
    }

    pub fn keep_module(&self, bytes: &[u8]) -> Result<(), CacheError> {
        self.replace(&self.module_path(Digest::of(bytes)), bytes)
    }

    /// Nothing here says that the signatures are good.
    pub(crate) fn signatures(&self, module: Digest, image: &ImageReference) -> Option<SignedManifest> {
        let text = read_at_most(&self.signatures_path(module, image), MAX_SIGNATURES_BYTES).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(crate) fn keep_signatures(
        &self,
        module: Digest,
        image: &ImageReference,
        signed: &SignedManifest,
    ) -> Result<(), CacheError> {
        let text = serde_json::to_vec(signed).expect("strings in a list are JSON");
        self.replace(&self.signatures_path(module, image), &text)
    }

    /// Removes what is not wanted, the oldest first, until the rest is of a bounded size.
    pub(crate) fn prune(&self, wanted: &[Digest]) {
        let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut unwanted: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name();
                let kept = wanted.iter().any(|wanted| name.to_string_lossy().starts_with(wanted.as_str()));
                let metadata = entry.metadata().ok().filter(|metadata| metadata.is_file() && !kept)?;
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        unwanted.sort();
        let mut total: u64 = unwanted.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in unwanted {
            if total <= MAX_UNWANTED_BYTES {
                break;
            }
            let _ = fs::remove_file(&path);
            total -= size;
        }
    }

    fn module_path(&self, digest: Digest) -> PathBuf {
        self.folder.join(format!("{digest}.wasm"))
    }

    /// Two images may hold the same module, each with its own signatures.
    fn signatures_path(&self, module: Digest, image: &ImageReference) -> PathBuf {
        let image = Digest::of(image.to_string().as_bytes());
        self.folder.join(format!("{module}.{}.signatures.json", image.short()))
    }

    /// Readers see the old file or the new one.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), CacheError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join(format!(".{}.{number}.new", std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&temporary, path));
        written.map_err(|source| {
            let _ = fs::remove_file(&temporary);
            CacheError { doing: "keeping the module as", path: path.to_owned(), source }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn believes_no_file_that_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("modules")).unwrap();
        let digest = Digest::of(b"module");
        assert_eq!(cache.module(digest), None);
        cache.keep_module(b"module").unwrap();
        assert_eq!(cache.module(digest).as_deref(), Some(&b"module"[..]));
        let path = cache.module_path(digest);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, b"mOdule").unwrap();
        assert_eq!(cache.module(digest), None);
        assert!(!path.exists(), "a changed file is not kept");
    }

    #[test]
    fn a_folder_in_the_place_of_a_module_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        fs::create_dir(cache.module_path(Digest::of(b"m"))).unwrap();
        assert_eq!(cache.module(Digest::of(b"m")), None);
        assert!(cache.keep_module(b"m").is_err());
    }

    #[test]
    fn keeps_what_is_wanted_and_a_bounded_rest() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        cache.keep_module(b"wanted").unwrap();
        for name in 0..4 {
            // Sparse: they take no room on the disk.
            let file = fs::File::create(folder.path().join(format!("{name}.wasm"))).unwrap();
            file.set_len(MAX_UNWANTED_BYTES / 2).unwrap();
        }
        cache.prune(&[Digest::of(b"wanted")]);
        assert!(cache.module(Digest::of(b"wanted")).is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
