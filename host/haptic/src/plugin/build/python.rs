//! Python: componentize-py, pinned by version and hash, in a virtual environment of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};

use crate::{
    cli,
    plugin::build::{
        Outcome,
        tool::{self, ToolError},
    },
};

/// With the hash of the wheel of every platform.
const REQUIREMENTS: &str = include_str!("python/requirements.txt");
const VERSION: &str = "0.25.1";
/// The oldest Python whose pip takes these wheels and whose language the templates are written in.
const OLDEST: (u32, u32) = (3, 10);

const NO_PYTHON: &str = "install Python 3.10 or newer, e.g. apt-get install python3 python3-venv, and run this again";
const NO_VENV: &str = "install Python's venv, e.g. apt-get install python3-venv, and run this again";
const NO_PACKAGE: &str = "what pip said is above; with the network or the package index back, run this again";
const BROKEN: &str = "what was said is above; run this again, with another Python if that does not help";

/// The component of a project: what is in its `src/`, for the world in its `wit/`.
pub(super) fn build(project: &Path, tools: &Path) -> anyhow::Result<Outcome> {
    for part in ["src/component.py", "wit/world.wit"] {
        if !project.join(part).is_file() {
            bail!("{} has no {part}; `haptic plugin new` shows how a project looks", project.display());
        }
    }
    let environment = install(tools)?;
    // The tool takes in whatever stands beside the source, and Python writes beside it.
    let scratch = tempfile::tempdir().context("making a folder to build in")?;
    tool::copy(&project.join("src"), &scratch.path().join("src"), &["__pycache__"])?;
    tool::copy(&project.join("wit"), &scratch.path().join("wit"), &[])?;
    cli::complain(&format!("building with componentize-py {VERSION}; this takes some seconds"));
    let mut command = Command::new(environment.join("bin/componentize-py"));
    command.args(["-d", "wit", "-w", "component", "componentize", "component", "-p", "src", "-s", "-o", "built.wasm"]);
    command.current_dir(scratch.path()).env("VIRTUAL_ENV", &environment).env_remove("PYTHONPATH");
    let built = tool::run(&mut command, "remove its folder, and run this again")?;
    if !built.status.success() {
        return Ok(Outcome::Refused);
    }
    let module = scratch.path().join("built.wasm");
    fs::read(module).map(Outcome::Built).context("reading what componentize-py built")
}

/// The virtual environment, made if it is not there.
pub(super) fn install(tools: &Path) -> anyhow::Result<PathBuf> {
    let mut python = Command::new("python3");
    let found = tool::run(python.arg("--version"), NO_PYTHON)?;
    let found = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    if tool::version(&found).is_none_or(|version| version < OLDEST) {
        let found = found.replace("Python ", "");
        return Err(ToolError::TooOld { program: "python3", found, wanted: "3.10", next_step: NO_PYTHON }.into());
    }
    let there = tool::place(&tools.join("python"), &format!("componentize-py-{VERSION}"), [REQUIREMENTS]);
    tool::once(&there, |folder| {
        let mut venv = Command::new("python3");
        let made = tool::run(venv.args(["-m", "venv"]).arg(folder), NO_PYTHON)?;
        if !made.status.success() {
            let doing = format!("making a virtual environment in {}", folder.display());
            return Err(ToolError::Failed { doing, next_step: NO_VENV }.into());
        }
        let requirements = folder.join("requirements.txt");
        fs::write(&requirements, REQUIREMENTS).with_context(|| format!("writing {}", requirements.display()))?;
        let mut pip = Command::new(folder.join("bin/python3"));
        pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--only-binary", ":all:"]);
        let done = tool::run(pip.args(["--no-deps", "--require-hashes", "-r"]).arg(&requirements), NO_PYTHON)?;
        if !done.status.success() {
            let doing = format!("installing componentize-py {VERSION}");
            return Err(ToolError::Failed { doing, next_step: NO_PACKAGE }.into());
        }
        let mut componentize = Command::new(folder.join("bin/componentize-py"));
        tool::works(componentize.arg("--version"), &format!("trying componentize-py {VERSION}"), BROKEN)
    })
}
