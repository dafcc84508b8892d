//! JavaScript: componentize-js with everything it needs pinned by a lock file, in a folder of its own.

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

const FILES: [(&str, &str); 3] = [
    ("package.json", include_str!("javascript/package.json")),
    ("package-lock.json", include_str!("javascript/package-lock.json")),
    ("componentize.js", include_str!("javascript/componentize.js")),
];
const VERSION: &str = "0.23.0";
/// What componentize-js's parser, oxc-parser, demands.
const OLDEST: (u32, u32) = (20, 0);

const NO_NODE: &str = "install Node.js 20 or newer, e.g. from nodejs.org (Debian 12's own is 18), and run this again";
const NO_NPM: &str = "install npm, which comes with Node.js, and run this again";
const NO_PACKAGE: &str = "what npm said is above; with the network or the package registry back, run this again";
const BROKEN: &str = "what node said is above; run this again, with another Node.js if that does not help";

/// The component of a project: `src/component.js` and what it imports, for the world in its `wit/`.
pub(super) fn build(project: &Path, tools: &Path) -> anyhow::Result<Outcome> {
    for part in ["src/component.js", "wit/world.wit"] {
        if !project.join(part).is_file() {
            bail!("{} has no {part}; `haptic plugin new` shows how a project looks", project.display());
        }
    }
    let installed = install(tools)?;
    let scratch = tempfile::tempdir().context("making a folder to build in")?;
    tool::copy(&project.join("src"), &scratch.path().join("src"), &[])?;
    tool::copy(&project.join("wit"), &scratch.path().join("wit"), &[])?;
    cli::complain(&format!("building with componentize-js {VERSION}; this takes some seconds"));
    let module = scratch.path().join("built.wasm");
    let mut node = Command::new("node");
    node.arg(installed.join("componentize.js")).arg(scratch.path().join("src/component.js"));
    node.arg(scratch.path().join("wit")).arg(&module).current_dir(scratch.path());
    // What it writes there is for the person, too.
    let built = tool::run(&mut node, NO_NODE)?;
    if !built.status.success() {
        cli::complain(String::from_utf8_lossy(&built.stdout).trim_end());
        return Ok(Outcome::Refused);
    }
    fs::read(module).map(Outcome::Built).context("reading what componentize-js built")
}

/// The folder of the tool, made if it is not there.
pub(super) fn install(tools: &Path) -> anyhow::Result<PathBuf> {
    let mut node = Command::new("node");
    let found = tool::run(node.arg("--version"), NO_NODE)?;
    let found = String::from_utf8_lossy(&found.stdout).trim().trim_start_matches('v').to_owned();
    if tool::version(&found).is_none_or(|version| version < OLDEST) {
        return Err(ToolError::TooOld { program: "node", found, wanted: "20", next_step: NO_NODE }.into());
    }
    let made_from = FILES.iter().flat_map(|(name, content)| [*name, *content]);
    let there = tool::place(&tools.join("node"), &format!("componentize-js-{VERSION}"), made_from);
    tool::once(&there, |folder| {
        for (name, content) in FILES {
            let path = folder.join(name);
            fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"]).current_dir(folder);
        if !tool::run(&mut npm, NO_NPM)?.status.success() {
            let doing = format!("installing componentize-js {VERSION}");
            return Err(ToolError::Failed { doing, next_step: NO_PACKAGE }.into());
        }
        let mut node = Command::new("node");
        node.args(["-e", "import('@bytecodealliance/componentize-js')"]).current_dir(folder);
        tool::works(&mut node, &format!("trying componentize-js {VERSION}"), BROKEN)
    })
}
