//! A plugin's folder: manifest, component, cases.

use std::path::{Path, PathBuf};

use haptic_plugins::{Limits, Purity};
use serde_json::Value;
use thiserror::Error;

use crate::{
    case::{self, Case, CaseError},
    manifest::{Language, MANIFEST, Manifest, ManifestError, ManifestLimits},
};

/// What is to be tested, read and not yet run.
#[derive(Clone, Debug)]
pub struct Project {
    pub name: String,
    /// `None` for a folder without a `plugin.yaml`.
    pub language: Option<Language>,
    /// The component. It need not exist yet.
    pub module: PathBuf,
    /// What the plugin gets when no case says otherwise.
    pub config: Value,
    pub limits: Limits,
    pub purity: Purity,
    /// In the order of their names.
    pub cases: Vec<Case>,
}

/// A folder is no project.
#[derive(Debug, Error)]
pub enum ProjectError {
    #[error("{0} is not a folder; give the folder that holds `{MANIFEST}` or `cases/`")]
    NoFolder(PathBuf),
    #[error("{0} holds no `{MANIFEST}`; write one with `haptic plugin new`, or name the component with --module FILE")]
    NoManifest(PathBuf),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Case(#[from] CaseError),
}

// === impl Project ===

impl Project {
    /// Reads the project in `folder`. Its component is the one that `plugin.yaml` names.
    pub fn open(folder: &Path) -> Result<Self, ProjectError> {
        Self::read(folder, None)
    }

    /// Reads the project in `folder`, with the component `module` instead of the one that `plugin.yaml` names. A folder
    /// without a `plugin.yaml` is a plugin with the folder's name, no config and the default limits.
    pub fn open_with_module(folder: &Path, module: &Path) -> Result<Self, ProjectError> {
        Self::read(folder, Some(module))
    }

    /// A component alone: no cases, no config, the default limits.
    pub fn of_module(module: &Path) -> Self {
        Self {
            name: name_of(module.file_stem()),
            language: None,
            module: module.to_owned(),
            config: Value::Null,
            limits: ManifestLimits::default().limits(),
            purity: Purity::Wasi,
            cases: Vec::new(),
        }
    }

    fn read(folder: &Path, module: Option<&Path>) -> Result<Self, ProjectError> {
        if !folder.is_dir() {
            return Err(ProjectError::NoFolder(folder.to_owned()));
        }
        let mut project = match (Manifest::read(folder)?, module) {
            (Some(manifest), module) => Self {
                module: module.map_or_else(|| folder.join(manifest.module()), Path::to_owned),
                limits: manifest.limits.limits(),
                purity: manifest.purity(),
                name: manifest.name,
                language: Some(manifest.language),
                config: if manifest.config.is_empty() { Value::Null } else { Value::Object(manifest.config) },
                cases: Vec::new(),
            },
            (None, Some(module)) => {
                let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
                Self { name: name_of(folder.file_name()), ..Self::of_module(module) }
            }
            (None, None) => return Err(ProjectError::NoManifest(folder.to_owned())),
        };
        project.cases = case::read_all(&folder.join("cases"))?;
        Ok(project)
    }
}

fn name_of(file: Option<&std::ffi::OsStr>) -> String {
    file.map_or_else(|| "plugin".to_owned(), |name| name.to_string_lossy().into_owned())
}
