//! The file set on disk, laid out as in production.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use haptic_model::FileSet;
use rustix::fs::{Access, AtFlags, CWD};
use tempfile::TempDir;

use crate::check::CheckError;

/// Removed with everything in it when dropped.
pub(super) struct Tree(TempDir);

/// Memory beats disk: a check only reads what it just wrote.
pub(super) fn scratch_directory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let writable = rustix::fs::accessat(CWD, &memory, Access::WRITE_OK, AtFlags::empty()).is_ok();
    if writable { memory } else { std::env::temp_dir() }
}

// === impl Tree ===

impl Tree {
    pub(super) fn write(scratch: &Path, files: &FileSet) -> Result<Self, CheckError> {
        let failed = |path: &Path, source: io::Error| CheckError::Tree { path: path.to_owned(), source };
        let directory = tempfile::Builder::new()
            .prefix("haptic-check-")
            .tempdir_in(scratch)
            .map_err(|source| failed(scratch, source))?;
        let root = directory.path();
        let mut made = BTreeSet::new();
        for (name, file) in files {
            let path = root.join(name.as_str());
            if let Some((parent, _)) = name.as_str().rsplit_once('/')
                && made.insert(parent)
            {
                fs::create_dir_all(root.join(parent)).map_err(|source| failed(&path, source))?;
            }
            fs::write(&path, &file.content).map_err(|source| failed(&path, source))?;
        }
        Ok(Self(directory))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}
