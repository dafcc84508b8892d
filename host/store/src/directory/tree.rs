//! Directories, links and files: what is there, and what it says.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File, Metadata},
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use haptic_model::{Finding, FindingCode};

/// The largest manifest that is read, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 8 << 20;

/// Two equal stamps of a path mean that nothing was written in between. The change time is part of it, since a tool
/// may set the modification time back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    modified: (i64, i64),
    changed: (i64, i64),
    size: u64,
    inode: (u64, u64),
}

/// What stands below a path.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) files: BTreeMap<PathBuf, FileStamp>,
    pub(super) problems: BTreeMap<PathBuf, Problem>,
}

pub(super) struct Problem {
    pub(super) finding: Finding,
    /// What was there may still be there, so nothing of it counts as deleted.
    pub(super) keeps_last_good: bool,
}

pub(super) enum Read {
    Text { stamp: FileStamp, text: String },
    Gone,
    Failed { stamp: Option<FileStamp>, message: String, hint: &'static str, line: u32 },
}

/// Finds every manifest at or below `path`, which is `root` or below it. Links are followed.
pub(super) fn walk(root: &Path, path: &Path) -> Walk {
    let mut walk = Walk::default();
    let mut ancestors = Vec::new();
    if path != root {
        // A link may lead back to any directory above it.
        let between = path.ancestors().skip(1).take_while(|above| above.starts_with(root));
        ancestors.extend(between.filter_map(|above| fs::metadata(above).ok()).map(|above| identity(&above)));
    }
    walk.visit(path, path == root, &mut ancestors);
    walk
}

/// Reads a whole manifest.
pub(super) fn read(path: &Path) -> Read {
    match try_read(path) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Read::Gone,
        Err(error) => Read::Failed {
            stamp: None,
            message: format!("reading the file failed: {error}; its last good objects stay"),
            hint: "make the file readable",
            line: 0,
        },
    }
}

/// Hidden files and directories, and what editors leave for a moment.
pub(super) fn is_skipped(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".") || name.starts_with(b"#") || name.ends_with(b"~")
}

// === impl Walk ===

impl Walk {
    fn visit(&mut self, path: &Path, is_root: bool, ancestors: &mut Vec<(u64, u64)>) {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => return self.unreachable(path, is_root, &error),
        };
        if metadata.is_file() {
            if is_manifest(path) {
                self.files.insert(path.to_owned(), FileStamp::of(&metadata));
            }
        } else if metadata.is_dir() {
            let me = identity(&metadata);
            if ancestors.contains(&me) {
                let message = "the link leads back to a directory above it, so it is not followed";
                self.problem(path, message, "remove the link", false);
                return;
            }
            ancestors.push(me);
            match entries(path) {
                Ok(entries) => entries.iter().for_each(|entry| self.visit(entry, false, ancestors)),
                Err(error) if error.kind() == io::ErrorKind::NotFound && !is_root => {}
                Err(error) => {
                    let message = format!("reading the directory failed: {error}; its last good objects stay");
                    self.problem(path, message, "make the directory readable", true);
                }
            }
            ancestors.pop();
        }
    }

    fn unreachable(&mut self, path: &Path, is_root: bool, error: &io::Error) {
        let is_link = path.symlink_metadata().is_ok_and(|link| link.is_symlink());
        if is_root {
            let message = format!("reading the directory failed: {error}; its last good objects stay");
            self.problem(path, message, "bring the directory back", true);
        } else if error.raw_os_error() == Some(ELOOP) {
            self.problem(path, "the link leads to itself, so it is not followed", "remove the link", false);
        } else if error.kind() == io::ErrorKind::NotFound {
            // What a link of another kind of file leads to is none of our business.
            if is_link && is_manifest(path) {
                self.problem(path, "the link leads to a file that does not exist", "remove the link", false);
            }
        } else {
            let message = format!("looking at it failed: {error}; its last good objects stay");
            self.problem(path, message, "make it readable", true);
        }
    }

    fn problem(&mut self, path: &Path, message: impl Into<String>, hint: &str, keeps_last_good: bool) {
        let shown = path.to_string_lossy().into_owned();
        let finding = Finding::error(FindingCode::InvalidManifest, message).at(shown, 0, 0).hint(hint);
        self.problems.insert(path.to_owned(), Problem { finding, keeps_last_good });
    }
}

// === impl FileStamp ===

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            size: metadata.size(),
            inode: identity(metadata),
        }
    }
}

/// "Too many levels of symbolic links"; the same number on every architecture of Linux that HAProxy is built for.
const ELOOP: i32 = 40;

fn entries(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries = Vec::new();
    for entry in path.read_dir()? {
        let entry = entry?;
        let wanted = !is_skipped(&entry.file_name())
            // Saves a look at files that are no manifests; a link may be a directory.
            && (is_manifest(&entry.path()) || entry.file_type().is_ok_and(|kind| !kind.is_file()));
        if wanted {
            entries.push(entry.path());
        }
    }
    entries.sort();
    Ok(entries)
}

fn try_read(path: &Path) -> io::Result<Read> {
    // Opening a pipe would wait for its writer.
    if !fs::metadata(path)?.is_file() {
        return Ok(Read::Gone);
    }
    let file = File::open(path)?;
    let stamp = FileStamp::of(&file.metadata()?);
    let mut bytes = Vec::new();
    if stamp.size <= MAX_FILE_BYTES {
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    }
    let size = stamp.size.max(bytes.len() as u64);
    if size > MAX_FILE_BYTES {
        let message = format!(
            "the file has {size} bytes, more than the {MAX_FILE_BYTES} that are read; its last good objects stay"
        );
        return Ok(Read::Failed { stamp: Some(stamp), message, hint: "split the file", line: 0 });
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => Read::Text { stamp, text },
        Err(error) => {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            Read::Failed {
                stamp: Some(stamp),
                message: "the file is not UTF-8 text; its last good objects stay".to_owned(),
                hint: "save the file as UTF-8",
                line: line_of(valid),
            }
        }
    })
}

/// The line on which the text after `before` stands.
pub(super) fn line_of(before: &[u8]) -> u32 {
    #[allow(clippy::naive_bytecount, reason = "at most one file of bounded size, and only when it is broken")]
    let breaks = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(breaks).map_or(u32::MAX, |breaks| breaks.saturating_add(1))
}

pub(super) fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml" || extension == "json")
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
