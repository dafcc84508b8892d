//! `plugin.yaml`: what `haptic plugin new` writes and build, test and bench read.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use haptic_api::PluginLimits;
use haptic_plugins::{Limits, Purity};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

/// The file's name in a project.
pub const MANIFEST: &str = "plugin.yaml";

/// A plugin project, as its `plugin.yaml` describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Manifest {
    /// Lower-case letters, digits and `-`, starting with a letter: also the name of the component and of the object.
    pub name: String,
    /// What it is written in, which says how it is built.
    pub language: Language,
    /// Where the component is, below the project. Default `dist/NAME.wasm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<PathBuf>,
    /// What the plugin gets where a case has no config of its own. Default: nothing, which is given as `{}`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// As in an HAProxyPlugin, with its defaults.
    #[serde(default)]
    pub limits: ManifestLimits,
    /// The component may import nothing but haptic's own interfaces. Default false.
    #[serde(default)]
    pub pure: bool,
}

/// What a plugin is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    Rust,
    Python,
    JavaScript,
}

/// The fields of an HAProxyPlugin's `limits`; what is not set has the default that it has there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ManifestLimits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<haptic_api::Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<haptic_api::Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<haptic_api::Bytes>,
}

/// A `plugin.yaml` cannot be used.
#[derive(Debug, Error)]
pub enum ManifestError {
    #[error("reading {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: {source}")]
    Decode { path: PathBuf, source: serde_norway::Error },
    #[error("{path}: `name: {name}`: {source}")]
    Name { path: PathBuf, name: String, source: InvalidName },
    #[error("{path}: `module: {module}` must be a relative path that stays below the project")]
    Module { path: PathBuf, module: PathBuf },
}

/// The text cannot be the name of a plugin.
#[derive(Debug, Error)]
#[error(
    "a plugin's name is 1 to 63 lower-case letters, digits and `-`, starting with a letter and not ending with `-`"
)]
pub struct InvalidName;

// === impl Manifest ===

impl Manifest {
    /// Reads the `plugin.yaml` of `folder`; `None` if there is none.
    pub fn read(folder: &Path) -> Result<Option<Self>, ManifestError> {
        let path = folder.join(MANIFEST);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ManifestError::Read { path, source }),
        };
        let manifest: Self = match serde_norway::from_str(&text) {
            Ok(manifest) => manifest,
            Err(source) => return Err(ManifestError::Decode { path, source }),
        };
        if let Err(source) = check_name(&manifest.name) {
            return Err(ManifestError::Name { path, name: manifest.name, source });
        }
        let module = manifest.module();
        let stays = module.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !stays || module.as_os_str().is_empty() {
            return Err(ManifestError::Module { path, module });
        }
        Ok(Some(manifest))
    }

    /// Where the component is, below the project.
    pub fn module(&self) -> PathBuf {
        self.module.clone().unwrap_or_else(|| PathBuf::from("dist").join(format!("{}.wasm", self.name)))
    }

    pub fn purity(&self) -> Purity {
        if self.pure { Purity::Pure } else { Purity::Wasi }
    }
}

/// Whether `name` can be the name of a plugin.
pub fn check_name(name: &str) -> Result<(), InvalidName> {
    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let starts = name.starts_with(|first: char| first.is_ascii_lowercase());
    if (1..=63).contains(&name.len()) && plain && starts && !name.ends_with('-') { Ok(()) } else { Err(InvalidName) }
}

// === impl ManifestLimits ===

impl ManifestLimits {
    /// What a call may cost, as a controller would set it.
    pub fn limits(self) -> Limits {
        let default = PluginLimits::default();
        Limits {
            timeout: self.timeout.unwrap_or(default.timeout).get(),
            memory_bytes: self.memory.unwrap_or(default.memory).get(),
            output_bytes: self.output_bytes.unwrap_or(default.output_bytes).get(),
            ..Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::time::Duration;

    use super::*;

    fn read(text: &str) -> Result<Manifest, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(MANIFEST), text).unwrap();
        match Manifest::read(folder.path()) {
            Ok(manifest) => Ok(manifest.unwrap()),
            Err(error) => Err(error.to_string().replace(&format!("{}/", folder.path().display()), "")),
        }
    }

    #[test]
    fn little_need_be_written() {
        let manifest = read("name: maps\nlanguage: rust\n").unwrap();
        assert_eq!(manifest.module(), Path::new("dist/maps.wasm"));
        assert_eq!(manifest.limits.limits().timeout, Duration::from_millis(100));
        assert_eq!(manifest.purity(), Purity::Wasi);
        assert!(Manifest::read(tempfile::tempdir().unwrap().path()).unwrap().is_none());
    }

    #[test]
    fn limits_are_written_as_in_an_object() {
        let text = "name: a\nlanguage: python\nlimits: { timeout: 2s, memory: 128Mi, outputBytes: 4096 }\npure: true\nconfig: {a: 1}\n";
        let manifest = read(text).unwrap();
        let limits = manifest.limits.limits();
        assert_eq!(
            (limits.timeout, limits.memory_bytes, limits.output_bytes),
            (Duration::from_secs(2), 128 << 20, 4096)
        );
        assert_eq!(manifest.purity(), Purity::Pure);
        assert_eq!(serde_norway::from_str::<Manifest>(&serde_norway::to_string(&manifest).unwrap()).unwrap(), manifest);
    }

    #[test]
    fn refuses_what_it_does_not_know_and_says_where() {
        let unknown = read("name: a\nlanguage: rust\nlimits:\n  memroy: 1Mi\n").unwrap_err();
        assert!(unknown.starts_with("plugin.yaml: limits: unknown field `memroy`"), "{unknown}");
        assert!(unknown.contains("line 4"), "{unknown}");
        let language = read("name: a\nlanguage: cobol\n").unwrap_err();
        assert!(language.contains("unknown variant `cobol`"), "{language}");
        for name in ["A", "-a", "a-", "1", "a_b", "a/b", ""] {
            let refused = read(&format!("name: '{name}'\nlanguage: rust\n")).unwrap_err();
            assert!(refused.contains("lower-case letters"), "{refused}");
        }
        for module in ["/etc/x.wasm", "../x.wasm", "."] {
            let refused = read(&format!("name: a\nlanguage: rust\nmodule: {module}\n")).unwrap_err();
            assert!(refused.contains("below the project"), "{refused}");
        }
    }
}
