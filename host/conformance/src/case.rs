//! An author's cases: folders below `cases/`, in the format that the SDK's native tests run as well.
//!
//! A folder holds a `case.json`, with the rendered files below `files/`, or a `transcript.json` of protocol v1, or both.
//! What is not set in a case is the same here as natively: no config is `{}`, no time is second 0.

mod expected;
mod run;
mod transcript;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use haptic_model::{
    CONFIG_PATH, File, FileKind, FilePath, FileSet, InvalidFilePath,
    ports::{Contract, Now},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{case::expected::Expected, v1::Subject};

pub(crate) use run::{Expectations, JsonCall};
pub(crate) use transcript::Transcript;

/// One thing that an author says must come out.
#[derive(Clone, Debug)]
pub struct Case {
    /// The folder's name; that of a transcript beside a case has ` (transcript)` after it.
    pub name: String,
    path: PathBuf,
    work: Work,
}

#[derive(Clone, Debug)]
pub(crate) enum Work {
    Document { document: Box<Document>, files: BTreeMap<FilePath, Bytes> },
    Transcript(Transcript),
}

/// A `case.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Document {
    description: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) config: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(default)]
    pub(crate) now: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<Call>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expect: Option<Expected>,
    /// HAProxy's own verdict, which others compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    haproxy: Option<Value>,
}

/// One call of a filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    pub(crate) filter: String,
    pub(crate) value: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) positional: Vec<Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) named: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expect: Option<Expected>,
}

/// A case cannot be read.
#[derive(Debug, Error)]
pub enum CaseError {
    #[error("listing {path}")]
    List { path: PathBuf, source: io::Error },
    #[error("reading {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("writing {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("{path}: {source}")]
    Decode { path: PathBuf, source: serde_json::Error },
    #[error("{path}: {what}")]
    Wrong { path: PathBuf, what: String },
    #[error("{path}: {source}")]
    FilePath { path: PathBuf, source: InvalidFilePath },
    #[error("{path} holds neither a case.json nor a transcript.json; write one, or move the folder out of `cases/`")]
    Empty { path: PathBuf },
}

/// Reads every case below `folder`, by name; none if there is no such folder.
pub(crate) fn read_all(folder: &Path) -> Result<Vec<Case>, CaseError> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut cases = Vec::new();
    for path in list(folder)?.into_iter().filter(|path| path.is_dir()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let before = cases.len();
        let document = path.join("case.json");
        if document.is_file() {
            let work = Work::Document { document: Box::new(read_document(&document)?), files: read_files(&path)? };
            cases.push(Case { name: name.clone(), path: document, work });
        }
        let transcript = path.join("transcript.json");
        if transcript.is_file() {
            let name = if cases.len() == before { name } else { format!("{name} (transcript)") };
            let work = Work::Transcript(Transcript::read(&transcript)?);
            cases.push(Case { name, path: transcript, work });
        }
        if cases.len() == before {
            return Err(CaseError::Empty { path });
        }
    }
    Ok(cases)
}

// === impl Case ===

impl Case {
    /// What the author wrote about it.
    pub fn description(&self) -> &str {
        match &self.work {
            Work::Document { document, .. } => &document.description,
            Work::Transcript(_) => "a transcript of protocol v1",
        }
    }

    /// Its config; `None` for a transcript.
    pub(crate) fn config(&self) -> Option<&Value> {
        match &self.work {
            Work::Document { document, .. } => Some(&document.config),
            Work::Transcript(_) => None,
        }
    }

    pub(crate) fn work(&self) -> &Work {
        &self.work
    }

    /// Which contract it is for, of those that the plugin exports.
    pub(crate) fn contract(&self, exported: &[Contract]) -> Result<Contract, String> {
        let wanted = match &self.work {
            Work::Document { document, .. } if !document.calls.is_empty() => Contract::TemplateFilter,
            Work::Document { document, files } => match &document.file {
                Some(file) if file == CONFIG_PATH => Contract::RenderedOutput,
                None if files.contains_key(CONFIG_PATH) => Contract::RenderedOutput,
                _ => Contract::AuxiliaryFile,
            },
            Work::Transcript(transcript) if transcript.has_config() => Contract::RenderedOutput,
            Work::Transcript(_) => Contract::AuxiliaryFile,
        };
        if exported.contains(&wanted) {
            return Ok(wanted);
        }
        // The file's name decides only where the plugin exports both: a lone one gets whatever the case names.
        let validators: Vec<Contract> =
            exported.iter().copied().filter(|contract| *contract != Contract::TemplateFilter).collect();
        match (wanted, validators.as_slice()) {
            (Contract::TemplateFilter, _) | (_, []) => {
                Err(format!("it is for a {wanted}, which the plugin does not export; move it to a plugin that does"))
            }
            (_, [only, ..]) => Ok(*only),
        }
    }
}

// === impl Document ===

impl Document {
    /// What a validator is asked.
    pub(crate) fn subject(&self, files: &BTreeMap<FilePath, Bytes>, contract: Contract) -> Result<Subject, String> {
        let path = match (&self.file, contract) {
            (Some(file), _) => file.as_str(),
            (None, Contract::RenderedOutput) => CONFIG_PATH,
            (None, _) => return Err("`file` must say which file of `files/` is to be checked".to_owned()),
        };
        if !files.contains_key(path) {
            return Err(format!("`{path}` is not below `files/`; add it, or name another in `file`"));
        }
        if contract == Contract::RenderedOutput {
            if path != CONFIG_PATH {
                return Err(format!(
                    "a rendered-output validator checks `{CONFIG_PATH}`, not `{path}`; name that in `file`"
                ));
            }
            let files = files.iter().map(|(path, content)| (path.clone(), file(path, content))).collect::<FileSet>();
            return Ok(Subject::RenderedOutput { files });
        }
        let (checked, data): (Vec<File>, Vec<File>) =
            files.iter().map(|(path, content)| file(path, content)).partition(|file| file.path.as_str() == path);
        let file = checked.into_iter().next().expect("it is among the files");
        Ok(Subject::AuxiliaryFile { file, data_files: data })
    }

    pub(crate) fn clock(&self) -> Now {
        Now(self.now)
    }
}

pub(crate) fn file(path: &FilePath, content: &Bytes) -> File {
    let kind = if path.as_str() == CONFIG_PATH { FileKind::Config } else { FileKind::General };
    File::new(path.clone(), kind, content.clone())
}

fn read_document(path: &Path) -> Result<Document, CaseError> {
    let text = read_text(path)?;
    let document: Document =
        serde_json::from_str(&text).map_err(|source| CaseError::Decode { path: path.to_owned(), source })?;
    let wrong = |what: String| CaseError::Wrong { path: path.to_owned(), what };
    if let Some(expect) = &document.expect {
        expect.check(expected::Place::Case).map_err(wrong)?;
        if !document.calls.is_empty() {
            return Err(wrong("a case with `calls` says what to expect in each call".to_owned()));
        }
    }
    for (index, call) in document.calls.iter().enumerate() {
        if let Some(expect) = &call.expect {
            expect.check(expected::Place::Call).map_err(|what| wrong(format!("call {}: {what}", index + 1)))?;
        }
    }
    Ok(document)
}

fn read_files(case: &Path) -> Result<BTreeMap<FilePath, Bytes>, CaseError> {
    let root = case.join("files");
    let mut files = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        if !folder.is_dir() {
            continue;
        }
        for path in list(&folder)? {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let below = path.strip_prefix(&root).expect("it was listed below").to_string_lossy().into_owned();
            let name = FilePath::new(&below).map_err(|source| CaseError::FilePath { path: path.clone(), source })?;
            let content = fs::read(&path).map_err(|source| CaseError::Read { path, source })?;
            files.insert(name, content.into());
        }
    }
    Ok(files)
}

fn read_text(path: &Path) -> Result<String, CaseError> {
    fs::read_to_string(path).map_err(|source| CaseError::Read { path: path.to_owned(), source })
}

fn write_text(path: &Path, text: &str) -> Result<(), CaseError> {
    fs::write(path, text).map_err(|source| CaseError::Write { path: path.to_owned(), source })
}

/// Sorted, so that every run has the same order.
fn list(folder: &Path) -> Result<Vec<PathBuf>, CaseError> {
    let error = |source| CaseError::List { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(error)? {
        paths.push(entry.map_err(error)?.path());
    }
    paths.sort();
    Ok(paths)
}
