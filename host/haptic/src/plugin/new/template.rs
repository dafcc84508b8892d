//! The templates of `sdk/templates`, carried by the binary.

use std::str;

use crate::plugin::new::{NewContract, NewLanguage};

include!(concat!(env!("OUT_DIR"), "/authoring.rs"));

/// Which project is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Template<'a> {
    pub(crate) name: &'a str,
    pub(crate) language: NewLanguage,
    pub(crate) contract: NewContract,
}

/// One file of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Below the project.
    pub(crate) path: String,
    pub(crate) content: Vec<u8>,
}

/// In the repository the templates are members of the SDK's workspace.
const SDK_IN_REPOSITORY: &str = r#"path = "../../..""#;
const SDK_IN_PROJECT: &str = r#"path = "vendor/haptic-plugin-sdk""#;
const OUR_LICENCE: &str = "license = \"Apache-2.0\"\n";
const WIT: &str = "wit/haptic-plugin-1.0.0/";

// === impl Template ===

impl Template<'_> {
    /// All files of the project.
    pub(crate) fn parts(self) -> Vec<Part> {
        AUTHORING.iter().filter_map(|(source, content)| self.part(source, content)).collect()
    }

    /// What becomes of a file of the repository; `None` = it is not for this project.
    fn part(self, source: &str, content: &[u8]) -> Option<Part> {
        if let Some(below) = source.strip_prefix(WIT) {
            let folder = if self.language == NewLanguage::Rust { "vendor/wit" } else { "wit/deps" };
            return Some(Part { path: format!("{folder}/haptic-plugin-1.0.0/{below}"), content: content.to_owned() });
        }
        if let Some(below) = source.strip_prefix("sdk/templates/") {
            let below = below.strip_prefix(self.language.folder())?;
            let below = ["/common/", "/"].iter().find_map(|folder| match *folder {
                "/" => below.strip_prefix('/')?.strip_prefix(self.contract.folder())?.strip_prefix('/'),
                common => below.strip_prefix(common),
            })?;
            return Some(Part { path: below.replace("gitignore", ".gitignore"), content: self.filled(below, content) });
        }
        if self.language != NewLanguage::Rust {
            return None;
        }
        let below = source.strip_prefix("sdk/")?;
        Some(match below {
            // The versions that the SDK is tested with. Cargo drops what the project does not need.
            "Cargo.lock" => Part { path: below.to_owned(), content: self.filled(below, content) },
            _ => Part { path: format!("vendor/haptic-plugin-sdk/{below}"), content: vendored(below, content) },
        })
    }

    /// The content with the names of this project.
    fn filled(self, path: &str, content: &[u8]) -> Vec<u8> {
        let Ok(text) = str::from_utf8(content) else { return content.to_owned() };
        let mut text = text.replace(&format!("example-{}", self.contract.folder()), self.name);
        text = text.replace("example-plugin", self.name);
        if path == "Cargo.toml" {
            // The licence is the author's to choose.
            text = text.replace(SDK_IN_REPOSITORY, SDK_IN_PROJECT).replace(OUR_LICENCE, "");
            text.push_str(embedded("sdk/templates/rust/standalone.toml"));
        }
        text.into_bytes()
    }
}

/// Without the members of the SDK's workspace, which stay in the repository.
fn vendored(path: &str, content: &[u8]) -> Vec<u8> {
    if path != "Cargo.toml" {
        return content.to_owned();
    }
    let text = str::from_utf8(content).expect("a manifest is text");
    let lines = text.lines().filter(|line| !line.starts_with("members ="));
    lines.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes()
}

fn embedded(path: &str) -> &'static str {
    let (_, content) = AUTHORING.iter().find(|(source, _)| *source == path).expect("the binary carries it");
    str::from_utf8(content).expect("it is text")
}

// === impl NewLanguage ===

impl NewLanguage {
    fn folder(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::JavaScript => "javascript",
        }
    }
}

// === impl NewContract ===

impl NewContract {
    fn folder(self) -> &'static str {
        match self {
            Self::AuxiliaryFile => "auxiliary-file",
            Self::RenderedOutput => "rendered-output",
            Self::Filters => "filters",
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::path::{Component, Path};

    use super::*;

    fn every() -> impl Iterator<Item = Template<'static>> {
        [NewLanguage::Rust, NewLanguage::Python, NewLanguage::JavaScript].into_iter().flat_map(|language| {
            [NewContract::AuxiliaryFile, NewContract::RenderedOutput, NewContract::Filters].map(|contract| Template {
                name: "my-check",
                language,
                contract,
            })
        })
    }

    #[test]
    fn a_project_has_all_its_files_under_its_own_name_and_below_its_folder() {
        for template in every() {
            let parts = template.parts();
            let has = |path: &str| parts.iter().any(|part| part.path == path);
            for path in ["plugin.yaml", "README.md", ".gitignore"] {
                assert!(has(path), "{template:?} has no {path}");
            }
            assert!(parts.iter().filter(|part| part.path.ends_with("/case.json")).count() >= 2, "{template:?}");
            for Part { path, content } in &parts {
                assert!(Path::new(path).components().all(|part| matches!(part, Component::Normal(_))), "{path}");
                assert_eq!(parts.iter().filter(|part| part.path == *path).count(), 1, "{path} is there twice");
                let text = str::from_utf8(content).unwrap();
                let ours = format!("example-{}", template.contract.folder());
                assert!(!text.contains("example-plugin") && !text.contains(&ours), "{path} names the template");
                assert!(!text.contains("../../.."), "{path} names the repository");
                assert!(path.starts_with("vendor/") || !text.contains("Apache-2.0"), "{path} chooses a licence");
            }
        }
    }

    #[test]
    fn the_sdk_goes_with_rust_alone_and_the_contract_with_all() {
        for template in every() {
            let parts = template.parts();
            let count = |ends: &str| parts.iter().filter(|part| part.path.ends_with(ends)).count();
            assert_eq!(count("haptic-plugin-1.0.0/types.wit"), 1, "{template:?}");
            let rust = usize::from(template.language == NewLanguage::Rust);
            assert_eq!(count("vendor/haptic-plugin-sdk/src/lib.rs"), rust, "{template:?}");
            assert_eq!(count("Cargo.lock"), rust, "{template:?}");
        }
    }
}
