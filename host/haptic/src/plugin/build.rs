//! `haptic plugin build`: from source to the component that `plugin.yaml` names.

mod javascript;
mod python;
mod rust;
mod tool;

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use haptic_api::PluginModule;
use haptic_conformance::manifest::{Language, MANIFEST, Manifest};

use crate::{
    cli, exit,
    plugin::{self, snippet::Snippet, tools_dir},
};

#[derive(Args, Debug)]
pub(crate) struct BuildOptions {
    /// The project: a folder with plugin.yaml
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Build a component that imports nothing but haptic's own interfaces, as `pure: true` in plugin.yaml does
    #[arg(long)]
    pure: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ToolchainOptions {
    /// For which languages
    #[arg(value_enum, default_values_t = [Toolchain::Python, Toolchain::JavaScript])]
    languages: Vec<Toolchain>,
}

/// A language whose tools haptic installs by itself.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Toolchain {
    Python,
    #[value(name = "javascript")]
    JavaScript,
}

/// What came of a build.
enum Outcome {
    Built(Vec<u8>),
    /// The source is wrong; its compiler has said why.
    Refused,
}

// === impl BuildOptions ===

impl BuildOptions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Project { folder, manifest } = Project::open(&self.dir)?;
        let pure = self.pure || manifest.pure;
        let outcome = match manifest.language {
            Language::Rust => rust::build(&folder, pure)?,
            Language::Python => python::build(&folder, &tools()?)?,
            Language::JavaScript => javascript::build(&folder, &tools()?)?,
        };
        let Outcome::Built(bytes) = outcome else {
            cli::complain(&format!("error: {} was not built; what is wrong is said above", manifest.name));
            return Ok(ExitCode::from(exit::REFUSED));
        };
        let path = folder.join(manifest.module());
        let host = plugin::host()?;
        let inspection = match host.inspect(&bytes) {
            Ok(inspection) if inspection.contracts.is_empty() => {
                cli::complain("error: what was built has none of the contracts of haptic:plugin; export one of them");
                return Ok(ExitCode::from(exit::REFUSED));
            }
            Ok(inspection) => inspection,
            Err(reason) => {
                cli::complain(&format!("error: what was built is not a plugin: {reason}"));
                return Ok(ExitCode::from(exit::REFUSED));
            }
        };
        write(&path, &bytes)?;
        let path = path.canonicalize().with_context(|| format!("looking for {}", path.display()))?;
        let file = haptic_api::FileModule { path: path.display().to_string() };
        let module = PluginModule { file: Some(file), ..PluginModule::default() };
        cli::complain(&format!("built {}", path.display()));
        cli::print(&Snippet { manifest: &manifest, inspection: &inspection, module }.text()?);
        Ok(ExitCode::SUCCESS)
    }
}

// === impl ToolchainOptions ===

impl ToolchainOptions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let tools = tools()?;
        for language in self.languages {
            let there = match language {
                Toolchain::Python => python::install(&tools)?,
                Toolchain::JavaScript => javascript::install(&tools)?,
            };
            cli::complain(&format!("ready: {}", there.display()));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A project as build and push need it: nothing of its cases is read.
pub(crate) struct Project {
    /// Absolute.
    pub(crate) folder: PathBuf,
    pub(crate) manifest: Manifest,
}

// === impl Project ===

impl Project {
    pub(crate) fn open(dir: &Path) -> anyhow::Result<Self> {
        let manifest = Manifest::read(dir)?.with_context(|| {
            format!(
                "{} holds no {MANIFEST}; name a project's folder, or make one with `haptic plugin new`",
                dir.display()
            )
        })?;
        let folder = dir.canonicalize().with_context(|| format!("looking for {}", dir.display()))?;
        Ok(Self { folder, manifest })
    }
}

/// Where the tools of languages are kept.
fn tools() -> anyhow::Result<PathBuf> {
    tools_dir().context("there is no home to keep build tools in; set HAPTIC_CACHE to a folder for them")
}

/// A reader never sees half of it.
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let folder = path.parent().expect("a module is below its project");
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let written = tempfile::Builder::new().permissions(readable()).tempfile_in(folder).and_then(|mut file| {
        file.write_all(bytes)?;
        file.persist(path).map_err(|error| error.error)
    });
    written.map(drop).with_context(|| format!("writing {}", path.display()))
}

fn readable() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    fs::Permissions::from_mode(0o644)
}
