use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// A package of a workspace, with the packages of the same house that it names.
#[derive(Debug, Deserialize)]
pub struct Package {
    pub name: String,
    pub license: Option<String>,
    pub manifest_path: PathBuf,
    pub dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub struct Dependency {
    pub name: String,
    /// `None` = a normal dependency; otherwise `dev` or `build`.
    pub kind: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// The repository's root folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("this crate lies two folders deep")
}

/// The members of the workspace whose root manifest is `folder/Cargo.toml`.
pub fn packages(folder: &Path) -> Result<Vec<Package>> {
    let text = cargo(folder, &["metadata", "--no-deps", "--format-version", "1", "--offline"])?;
    let metadata: Metadata = serde_json::from_str(&text).context("read the output of cargo metadata")?;
    Ok(metadata.packages)
}

/// Names of all crates that `package` is built from, its own included.
pub fn cargo_tree(package: &str) -> Result<Vec<String>> {
    let arguments = ["tree", "-p", package, "-e", "normal", "--prefix", "none", "--format", "{p}", "--offline"];
    let text = cargo(&root(), &arguments)?;
    Ok(text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}

fn cargo(folder: &Path, arguments: &[&str]) -> Result<String> {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program).args(arguments).current_dir(folder).output().context("run cargo")?;
    if !output.status.success() {
        let folder = folder.display();
        bail!("cargo {} in {folder}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).context("read the output of cargo")
}

// === impl Package ===

impl Package {
    /// Names of what this package is built from, tests and build scripts apart.
    pub fn normal_dependencies(&self) -> impl Iterator<Item = &str> {
        self.dependencies.iter().filter(|dependency| dependency.kind.is_none()).map(|found| found.name.as_str())
    }
}
