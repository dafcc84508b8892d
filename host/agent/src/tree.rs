//! The file tree: staging, backups by hard link, renames with the configuration last, and the way back.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use haptic_model::{CONFIG_PATH, Digest, FileKind, FilePath};
use haptic_wire::{FilePatch, ManifestFile};

use crate::{
    AgentError,
    record::{Before, Journal, Record, tree_digest},
};

/// The set on disk and the two directories beside it, on the same file system.
#[derive(Debug)]
pub(crate) struct Tree {
    base: PathBuf,
    stage: PathBuf,
    backup: PathBuf,
    /// Every file of the set, as last written or hashed.
    pub(crate) files: BTreeMap<FilePath, Digest>,
    next_backup: u64,
    forgotten: Vec<u64>,
}

/// What an apply changes, with the configuration last.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) written: Vec<Written>,
    pub(crate) removed: Vec<FilePath>,
}

#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) path: FilePath,
    pub(crate) kind: FileKind,
    pub(crate) digest: Digest,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Whole(Bytes),
    /// `part` between the base up to `offset` and the base from `rest` on. Never joined: a large configuration would be
    /// copied once more.
    Patched {
        base: Vec<u8>,
        offset: usize,
        rest: usize,
        part: Bytes,
    },
}

/// Content that does not belong to a manifest's digests.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// These paths need content.
    Missing(Vec<FilePath>),
    /// The content of this part has another digest.
    Digest(FilePath),
}

// === impl Tree ===

impl Tree {
    /// Makes the directories, empties the staging area and hashes every file.
    pub(crate) fn open(base: &Path) -> Result<Self, AgentError> {
        let own = base.join(".haptic");
        let (stage, backup) = (own.join("stage"), own.join("backup"));
        if stage.exists() {
            fs::remove_dir_all(&stage).map_err(file_error("empty", &stage))?;
        }
        for directory in [&stage, &backup] {
            fs::create_dir_all(directory).map_err(file_error("make", directory))?;
        }
        let mut tree = Self {
            base: base.to_owned(),
            stage,
            backup,
            files: BTreeMap::new(),
            next_backup: 0,
            forgotten: Vec::new(),
        };
        tree.files = tree.hash()?;
        Ok(tree)
    }

    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    pub(crate) fn digest(&self) -> Digest {
        tree_digest(&self.files)
    }

    /// Reads and hashes every file of the tree.
    pub(crate) fn hash(&self) -> Result<BTreeMap<FilePath, Digest>, AgentError> {
        let mut files = BTreeMap::new();
        let mut directories = vec![(self.base.clone(), String::new())];
        while let Some((directory, prefix)) = directories.pop() {
            for entry in fs::read_dir(&directory).map_err(file_error("list", &directory))? {
                let entry = entry.map_err(file_error("list", &directory))?;
                let kind = entry.file_type().map_err(file_error("look at", &entry.path()))?;
                let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
                // What is no path of a set (dot files among them) is not the agent's.
                let Ok(path) = FilePath::new(&name) else { continue };
                if kind.is_dir() {
                    directories.push((entry.path(), format!("{name}/")));
                } else if kind.is_file() {
                    let content = fs::read(entry.path()).map_err(file_error("read", &entry.path()))?;
                    files.insert(path, Digest::of(&content));
                }
            }
        }
        Ok(files)
    }

    /// Deletes backups that no journal names, and numbers new ones above all others.
    pub(crate) fn sweep_backups(&mut self, record: &Record) -> Result<(), AgentError> {
        let needed: BTreeSet<u64> = record.undo.backups().chain(record.to_lkg.backups()).collect();
        self.next_backup = needed.last().map_or(0, |last| last + 1);
        for entry in fs::read_dir(&self.backup).map_err(file_error("list", &self.backup))? {
            let entry = entry.map_err(file_error("list", &self.backup))?;
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if number.is_none_or(|number: u64| !needed.contains(&number)) {
                fs::remove_file(entry.path()).map_err(file_error("remove", &entry.path()))?;
            }
        }
        Ok(())
    }

    /// What differs between the tree and a manifest. Only content that is needed is verified; nothing is written.
    pub(crate) fn compare(&self, files: &[ManifestFile], parts: &BTreeMap<FilePath, Bytes>) -> Result<Changes, Unfit> {
        let mut changes = Changes::default();
        let mut missing = Vec::new();
        let mut named = BTreeSet::new();
        for file in files {
            named.insert(&file.path);
            if self.files.get(&file.path) == Some(&file.digest) {
                continue;
            }
            let Some(part) = parts.get(&file.path) else {
                missing.push(file.path.clone());
                continue;
            };
            let content = match &file.patch {
                None => Some(Content::Whole(part.clone())),
                Some(patch) => self.patched(&file.path, patch, part),
            };
            let Some(content) = content.filter(|content| content.is_of(file)) else {
                if file.patch.is_none() {
                    return Err(Unfit::Digest(file.path.clone()));
                }
                // The file is not what its sender takes it for: the whole content mends that.
                missing.push(file.path.clone());
                continue;
            };
            let path = file.path.clone();
            changes.written.push(Written { path, kind: file.kind, digest: file.digest, content });
        }
        if !missing.is_empty() {
            return Err(Unfit::Missing(missing));
        }
        changes.written.sort_by_key(|written| written.path.as_str() == CONFIG_PATH);
        changes.removed = self.files.keys().filter(|path| !named.contains(path)).cloned().collect();
        Ok(changes)
    }

    /// `None` = there is no such file, or it is too short.
    fn patched(&self, path: &FilePath, patch: &FilePatch, part: &Bytes) -> Option<Content> {
        if self.files.get(path) != Some(&patch.base) {
            return None;
        }
        let base = fs::read(self.base.join(path.as_str())).ok()?;
        let offset = usize::try_from(patch.offset).ok()?;
        let rest = offset.checked_add(usize::try_from(patch.replaced).ok()?)?;
        (rest <= base.len()).then(|| Content::Patched { base, offset, rest, part: part.clone() })
    }

    /// Writes the new content beside the tree.
    pub(crate) fn stage(&self, changes: &Changes) -> Result<(), AgentError> {
        for (number, written) in changes.written.iter().enumerate() {
            let path = self.staged(number);
            let mode = match written.kind {
                // Private keys, and what is kept with them.
                FileKind::Cert | FileKind::Ca | FileKind::Crl => 0o600,
                FileKind::Config | FileKind::Map | FileKind::CrtList | FileKind::General => 0o644,
            };
            let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&path);
            file.and_then(|mut file| written.content.pieces().into_iter().try_for_each(|piece| file.write_all(piece)))
                .map_err(file_error("write", &path))?;
        }
        Ok(())
    }

    /// Links what a change would replace into the backups, and notes it unless an earlier change of that path did.
    pub(crate) fn back_up(&mut self, changes: &Changes, journal: &mut Journal) -> Result<(), AgentError> {
        let changed = changes.written.iter().map(|written| &written.path).chain(&changes.removed);
        for path in changed.filter(|path| !journal.entries.contains_key(*path)).cloned().collect::<Vec<_>>() {
            let before = if self.files.contains_key(&path) {
                let number = self.next_backup;
                self.next_backup += 1;
                let target = self.base.join(path.as_str());
                fs::hard_link(&target, self.kept(number)).map_err(file_error("back up", &target))?;
                Before::Kept(number)
            } else {
                Before::Absent
            };
            journal.entries.insert(path, before);
        }
        Ok(())
    }

    /// Moves one staged file into the tree.
    pub(crate) fn put(&mut self, number: usize, written: &Written) -> Result<(), AgentError> {
        let target = self.base.join(written.path.as_str());
        make_parent(&target)?;
        fs::rename(self.staged(number), &target).map_err(file_error("replace", &target))?;
        self.files.insert(written.path.clone(), written.digest);
        Ok(())
    }

    pub(crate) fn remove(&mut self, path: &FilePath) -> Result<(), AgentError> {
        let target = self.base.join(path.as_str());
        remove_if_there(&target)?;
        self.files.remove(path);
        Ok(())
    }

    /// Puts back what a journal holds. May be repeated after a crash; the backups stay until they are forgotten.
    pub(crate) fn restore(&mut self, journal: &Journal) -> Result<(), AgentError> {
        for (path, before) in &journal.entries {
            let target = self.base.join(path.as_str());
            match before {
                Before::Absent => {
                    remove_if_there(&target)?;
                    self.files.remove(path);
                }
                Before::Kept(number) => {
                    let kept = self.kept(*number);
                    let link = self.stage.join("restore");
                    remove_if_there(&link)?;
                    make_parent(&target)?;
                    fs::hard_link(&kept, &link).map_err(file_error("link", &kept))?;
                    fs::rename(&link, &target).map_err(file_error("restore", &target))?;
                    // Renaming onto another link of the same file does nothing, and leaves the link.
                    remove_if_there(&link)?;
                    let content = fs::read(&target).map_err(file_error("read", &target))?;
                    self.files.insert(path.clone(), Digest::of(&content));
                }
            }
        }
        Ok(())
    }

    /// Backups that nobody needs any more.
    pub(crate) fn forget(&mut self, backups: impl Iterator<Item = u64>) {
        self.forgotten.extend(backups);
    }

    /// Deletes what was forgotten. For a large file that takes a millisecond, which no apply should wait for.
    pub(crate) fn delete_forgotten(&mut self) -> Result<(), AgentError> {
        for number in std::mem::take(&mut self.forgotten) {
            remove_if_there(&self.kept(number))?;
        }
        Ok(())
    }

    fn staged(&self, number: usize) -> PathBuf {
        self.stage.join(number.to_string())
    }

    fn kept(&self, number: u64) -> PathBuf {
        self.backup.join(number.to_string())
    }
}

// === impl Content ===

impl Content {
    fn pieces(&self) -> [&[u8]; 3] {
        match self {
            Self::Whole(content) => [content, &[], &[]],
            Self::Patched { base, offset, rest, part } => [&base[..*offset], part, &base[*rest..]],
        }
    }

    fn is_of(&self, file: &ManifestFile) -> bool {
        let pieces = self.pieces();
        let size: usize = pieces.iter().map(|piece| piece.len()).sum();
        size as u64 == file.size && Digest::of_pieces(pieces) == file.digest
    }
}

// === impl Changes ===

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.removed.is_empty()
    }

    /// The digest of the tree once the changes are in it.
    pub(crate) fn resulting_digest(&self, files: &BTreeMap<FilePath, Digest>) -> Digest {
        let mut files = files.clone();
        for path in &self.removed {
            files.remove(path);
        }
        for written in &self.written {
            files.insert(written.path.clone(), written.digest);
        }
        tree_digest(&files)
    }
}

fn make_parent(target: &Path) -> Result<(), AgentError> {
    match target.parent() {
        Some(parent) if !parent.is_dir() => fs::create_dir_all(parent).map_err(file_error("make", parent)),
        _ => Ok(()),
    }
}

fn remove_if_there(path: &Path) -> Result<(), AgentError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(file_error("remove", path)(source)),
        _ => Ok(()),
    }
}

pub(crate) fn file_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AgentError {
    let path = path.to_owned();
    move |source| AgentError::File { action, path, source }
}
