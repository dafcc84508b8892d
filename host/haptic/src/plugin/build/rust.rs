//! Rust: cargo for a wasm target, and our own encoder where the component is to be pure.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};
use serde_json::Value;
use wit_component::ComponentEncoder;

use crate::plugin::build::{
    Outcome,
    tool::{self, ToolError},
};

const NO_RUST: &str = "install Rust with rustup, or put its bin folder into PATH, and run this again";

/// The component of a project. With `pure` it is built without WASI, for `wasm32-unknown-unknown`.
pub(super) fn build(project: &Path, pure: bool) -> anyhow::Result<Outcome> {
    let target = if pure { "wasm32-unknown-unknown" } else { "wasm32-wasip2" };
    let mut probe = Command::new("rustc");
    probe.args(["--print", "target-libdir", "--target", target]).current_dir(project);
    let libraries = tool::run(&mut probe, NO_RUST)?;
    if !Path::new(String::from_utf8_lossy(&libraries.stdout).trim()).is_dir() {
        bail!("Rust has no target `{target}`; run `rustup target add {target}` in {}", project.display());
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--lib", "--target", target, "--message-format", "json-render-diagnostics"]);
    // The paths of this machine are in no component; flags for other targets are not for this one.
    let remap = [(project.to_owned(), "/plugin"), (cargo_home()?, "/cargo")];
    let flags = remap.map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    cargo.current_dir(project).env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    let built = tool::run(&mut cargo, NO_RUST)?;
    if !built.status.success() {
        return Ok(Outcome::Refused);
    }
    let module = module(&String::from_utf8_lossy(&built.stdout), project).context(
        "cargo built no WebAssembly module of this project; put `crate-type = [\"cdylib\", \"rlib\"]` below `[lib]` in its Cargo.toml",
    )?;
    let bytes = fs::read(&module).with_context(|| format!("reading {}", module.display()))?;
    if !pure {
        return Ok(Outcome::Built(bytes));
    }
    let encoder = ComponentEncoder::default().validate(true).module(&bytes);
    let component = encoder.and_then(|mut encoder| encoder.encode());
    component.map(Outcome::Built).map_err(|error| {
        let doing = format!("making a component of {}: {error:#}", module.display());
        let next_step = "a pure plugin must need no WASI; set `pure: false` in plugin.yaml if it does";
        ToolError::Failed { doing, next_step }.into()
    })
}

/// The module among the messages of cargo.
fn module(messages: &str, project: &Path) -> Option<PathBuf> {
    let manifest = project.join("Cargo.toml");
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours = artifacts.filter(|message| {
        message["reason"] == "compiler-artifact" && message["manifest_path"].as_str().map(Path::new) == Some(&manifest)
    });
    let files = ours.flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
    let files = files.filter_map(|file| file.as_str().map(PathBuf::from));
    files.into_iter().rfind(|file| file.extension().is_some_and(|extension| extension == "wasm"))
}

fn cargo_home() -> anyhow::Result<PathBuf> {
    let set = env::var_os("CARGO_HOME").map(PathBuf::from);
    set.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"))).context("there is no home; set CARGO_HOME")
}
