//! Manifests in directories as a source of objects.
//!
//! A scan gives the whole picture and what changed since the last one; only files whose stamp (time, size, inode)
//! changed are read again. [`DirectorySource::rescan`] looks only at paths that were notified.
//!
//! As long as a document of a file cannot be read, no object of that file is deleted: the last good ones stay. A file
//! that is gone is a deletion, a file that cannot be read is not.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use haptic_model::{Finding, FindingCode};
use imbl::OrdMap;
use thiserror::Error;

use crate::{RawChange, RawKey, RawObject};

mod manifest;
mod tree;
mod watch;

pub use watch::{Notified, WatchDirectoryError, Watcher};

use tree::{FileStamp, Read};

/// Reads every manifest below its directories.
pub struct DirectorySource {
    roots: Vec<PathBuf>,
    files: BTreeMap<FileId, FileState>,
    /// What is wrong with directories and links, by path.
    walk_findings: BTreeMap<FileId, Finding>,
    /// Every place that declares an object, in the order in which they win.
    claims: HashMap<RawKey, Vec<(Place, Arc<RawObject>)>>,
    contested: BTreeSet<RawKey>,
    objects: OrdMap<RawKey, Arc<RawObject>>,
}

/// The whole picture after a scan, and how it differs from the one before.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// All objects; a clone of it costs nothing.
    pub objects: OrdMap<RawKey, Arc<RawObject>>,
    /// What changed since the scan before; after the first scan, everything.
    pub changes: Vec<RawChange>,
    /// All that is wrong now, sorted.
    pub findings: Vec<Finding>,
}

#[derive(Debug, Error)]
#[error("opening `{path}` failed; name manifests that exist and can be read")]
pub struct OpenDirectoryError {
    pub path: PathBuf,
    #[source]
    source: io::Error,
}

/// A file by the position of its root and its path, so that earlier roots win.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileId {
    root: usize,
    path: Arc<Path>,
}

/// Where an object is declared: a file, and the position among its objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    file: FileId,
    position: usize,
}

#[derive(Default)]
struct FileState {
    stamp: Option<FileStamp>,
    objects: Vec<Arc<RawObject>>,
    findings: Vec<Finding>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// An unchanged stamp means an unchanged file.
    Stamp,
    /// The file was notified: it is read whatever its stamp.
    Nothing,
}

// === impl DirectorySource ===

impl DirectorySource {
    /// Takes the directories in order of importance: of an object that several declare, the first counts. A directory
    /// inside another one is read once. Nothing is read yet.
    pub fn open(dirs: impl IntoIterator<Item = impl Into<PathBuf>>) -> Result<Self, OpenDirectoryError> {
        Self::rooted(dirs, |path| path.read_dir().map(drop))
    }

    /// As [`Self::open`], and what is named may be a file too, whose name must end as a manifest's does. To read once:
    /// [`Self::watch`] needs directories.
    pub fn open_files(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Result<Self, OpenDirectoryError> {
        Self::rooted(paths, |path| {
            if !path.is_file() {
                return path.read_dir().map(drop);
            }
            if tree::is_manifest(path) {
                return Ok(());
            }
            Err(io::Error::new(io::ErrorKind::InvalidInput, "its name does not end in .yaml, .yml or .json"))
        })
    }

    fn rooted(
        dirs: impl IntoIterator<Item = impl Into<PathBuf>>,
        probe: impl Fn(&Path) -> io::Result<()>,
    ) -> Result<Self, OpenDirectoryError> {
        let mut roots: Vec<PathBuf> = Vec::new();
        let mut real: Vec<PathBuf> = Vec::new();
        for dir in dirs {
            let path: PathBuf = dir.into();
            let failed = |source| OpenDirectoryError { path: path.clone(), source };
            let canonical = path.canonicalize().map_err(failed)?;
            probe(&canonical).map_err(failed)?;
            if !real.iter().any(|known| canonical.starts_with(known)) {
                real.push(canonical);
                roots.push(path);
            }
        }
        Ok(Self {
            roots,
            files: BTreeMap::new(),
            walk_findings: BTreeMap::new(),
            claims: HashMap::new(),
            contested: BTreeSet::new(),
            objects: OrdMap::new(),
        })
    }

    /// Looks at every file.
    pub fn scan(&mut self) -> Scan {
        let mut touched = BTreeSet::new();
        for (root, path) in self.roots.clone().into_iter().enumerate() {
            self.look(&FileId { root, path: path.into() }, Trust::Stamp, &mut touched);
        }
        self.settle(touched)
    }

    /// Looks only at what was notified.
    pub fn rescan(&mut self, notified: &Notified) -> Scan {
        let Notified::Paths(paths) = notified else { return self.scan() };
        let mut places = Vec::new();
        for path in paths {
            let Some(root) = self.roots.iter().position(|root| path.starts_with(root)) else {
                // The target of a link: which link it was, only a look at everything tells.
                return self.scan();
            };
            let below = path.strip_prefix(&self.roots[root]).unwrap_or(Path::new(""));
            // A mounted ConfigMap or Secret is switched by renaming this link.
            if below.ends_with("..data") {
                return self.scan();
            }
            if !below.iter().any(tree::is_skipped) {
                places.push(FileId { root, path: path.as_path().into() });
            }
        }
        let mut touched = BTreeSet::new();
        for place in &places {
            self.look(place, Trust::Nothing, &mut touched);
        }
        self.settle(touched)
    }

    /// Reports changes below the directories from now on. Scan once after this call, so that nothing is missed.
    pub fn watch(&self) -> Result<Watcher, WatchDirectoryError> {
        let targets = self.files.keys().filter_map(|file| {
            let target = file.path.canonicalize().ok()?;
            let parent = target.parent()?.to_owned();
            (!self.roots.iter().any(|root| root.canonicalize().is_ok_and(|root| parent.starts_with(root))))
                .then_some(parent)
        });
        Watcher::start(&self.roots, &targets.collect())
    }

    /// Looks at a file or directory and all below it.
    fn look(&mut self, place: &FileId, trust: Trust, touched: &mut BTreeSet<RawKey>) {
        let below = |id: &FileId| id.root == place.root && id.path.starts_with(&place.path);
        let is_root = *self.roots[place.root] == *place.path;
        let walk = tree::walk(&self.roots[place.root], &place.path);
        let mut known: BTreeSet<FileId> =
            self.files.range(place.clone()..).map(|(id, _)| id).take_while(|id| below(id)).cloned().collect();
        let stale: Vec<FileId> =
            self.walk_findings.range(place.clone()..).map(|(id, _)| id).take_while(|id| below(id)).cloned().collect();
        for id in stale {
            self.walk_findings.remove(&id);
        }
        for (path, problem) in walk.problems {
            let id = FileId { root: place.root, path: path.into() };
            if problem.keeps_last_good || (is_root && id.path == place.path) {
                known.retain(|file| !file.path.starts_with(&id.path));
            }
            self.walk_findings.insert(id, problem.finding);
        }
        for (path, stamp) in walk.files {
            let id = FileId { root: place.root, path: path.into() };
            known.remove(&id);
            let notified = trust == Trust::Nothing && id.path == place.path;
            if notified || self.files.get(&id).and_then(|file| file.stamp) != Some(stamp) {
                self.read(&id, touched);
            }
        }
        for gone in known {
            self.forget(&gone, touched);
        }
    }

    fn read(&mut self, id: &FileId, touched: &mut BTreeSet<RawKey>) {
        let shown: Arc<str> = id.path.to_string_lossy().into();
        let (stamp, text) = match tree::read(&id.path) {
            Read::Text { stamp, text } => (Some(stamp), text),
            Read::Gone => return self.forget(id, touched),
            Read::Failed { stamp, message, hint, line } => {
                let state = self.files.entry(id.clone()).or_default();
                let finding = Finding::error(FindingCode::InvalidManifest, message).at(shown, line, 0).hint(hint);
                state.stamp = stamp;
                state.findings = vec![finding];
                return;
            }
        };
        let parsed = manifest::parse(&shown, &text);
        let state = self.files.entry(id.clone()).or_default();
        state.stamp = stamp;
        let previous = std::mem::take(&mut state.objects);
        let mut objects: Vec<Arc<RawObject>> = Vec::with_capacity(parsed.objects.len());
        for object in parsed.objects {
            let same = |old: &&Arc<RawObject>| old.is_same(&object);
            objects.push(previous.iter().find(same).cloned().unwrap_or_else(|| Arc::new(object)));
        }
        if !parsed.complete {
            let present: BTreeSet<RawKey> = objects.iter().map(|object| object.key()).collect();
            objects.extend(previous.iter().filter(|old| !present.contains(&old.key())).cloned());
        }
        state.findings = parsed.findings;
        state.objects.clone_from(&objects);
        self.release(id, &previous, touched);
        for (position, object) in objects.into_iter().enumerate() {
            let key = object.key();
            let place = Place { file: id.clone(), position };
            let places = self.claims.entry(key.clone()).or_default();
            places.insert(places.partition_point(|(other, _)| *other < place), (place, object));
            touched.insert(key);
        }
    }

    fn forget(&mut self, id: &FileId, touched: &mut BTreeSet<RawKey>) {
        if let Some(state) = self.files.remove(id) {
            self.release(id, &state.objects, touched);
        }
    }

    fn release(&mut self, id: &FileId, objects: &[Arc<RawObject>], touched: &mut BTreeSet<RawKey>) {
        for (position, object) in objects.iter().enumerate() {
            let key = object.key();
            if let Some(places) = self.claims.get_mut(&key) {
                places.retain(|(place, _)| place.file != *id || place.position != position);
            }
            touched.insert(key);
        }
    }

    /// Finds the winner of every touched object.
    fn settle(&mut self, touched: BTreeSet<RawKey>) -> Scan {
        let mut changes = Vec::new();
        for key in touched {
            let places = self.claims.get(&key);
            if places.is_some_and(|places| places.len() > 1) {
                self.contested.insert(key.clone());
            } else {
                self.contested.remove(&key);
            }
            match places.and_then(|places| places.first()).map(|(_, object)| object) {
                Some(winner) => {
                    if self.objects.get(&key).is_none_or(|object| !Arc::ptr_eq(object, winner)) {
                        changes.push(RawChange::Upsert(Arc::clone(winner)));
                        self.objects.insert(key, Arc::clone(winner));
                    }
                }
                None => {
                    self.claims.remove(&key);
                    if self.objects.remove(&key).is_some() {
                        changes.push(RawChange::Delete(key));
                    }
                }
            }
        }
        Scan { objects: self.objects.clone(), changes, findings: self.findings() }
    }

    fn findings(&self) -> Vec<Finding> {
        let files = self.files.values().flat_map(|file| file.findings.iter().cloned());
        let mut findings: Vec<Finding> = files.chain(self.walk_findings.values().cloned()).collect();
        for key in &self.contested {
            let mut places = self.claims[key].iter().map(|(_, object)| object);
            let Some(winner) = places.next() else { continue };
            for loser in places {
                let message = format!("it is declared in {} too, which counts; this one is ignored", winner.source);
                let source = &loser.source;
                findings.push(
                    Finding::warning(FindingCode::DuplicateObject, message)
                        .about(Some(loser.reference()))
                        .at(Arc::clone(&source.file), source.line, source.column)
                        .hint("remove or rename one of the two"),
                );
            }
        }
        findings.sort_by(|a, b| (&a.location, a).cmp(&(&b.location, b)));
        findings
    }
}

#[cfg(test)]
mod tests;
