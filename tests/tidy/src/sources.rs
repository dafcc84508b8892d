use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::root;

/// One hand-written source file.
pub struct Source {
    /// Below the repository's root.
    pub path: PathBuf,
    pub text: String,
}

/// Folders that hold sources; what is generated or built lies elsewhere or is skipped by name.
const ROOMS: [&str; 5] = ["host", "plugins", "sdk", "tests", ".ci"];
const EXTENSIONS: [&str; 4] = ["rs", "sh", "wit", "toml"];
const SKIPPED: [&str; 3] = ["target", "node_modules", "generated"];

/// Every hand-written source file of the repository.
pub fn sources() -> Result<Vec<Source>> {
    let mut found = Vec::new();
    for room in ROOMS {
        let folder = root().join(room);
        if folder.is_dir() {
            collect(&folder, &mut found)?;
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

// === impl Source ===

impl Source {
    pub fn is_rust(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "rs")
    }

    /// Whether the whole file is a test: where it lies or how it is called says so.
    pub fn is_test(&self) -> bool {
        self.path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs" | "benches")))
    }
}

fn collect(folder: &Path, found: &mut Vec<Source>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("list {}", folder.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if SKIPPED.contains(&name) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().and_then(|extension| extension.to_str()).is_some_and(|e| EXTENSIONS.contains(&e)) {
            let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            let path = path.strip_prefix(root()).expect("collected below the root").to_owned();
            found.push(Source { path, text });
        }
    }
    Ok(())
}
