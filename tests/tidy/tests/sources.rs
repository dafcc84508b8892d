//! How the sources look: sizes, words that mean "unfinished", licences and lints.

use std::fs;

use anyhow::{Context, Result};
use haptic_tidy::{packages, root, sources};

const MAX_LINES: usize = 800;

#[test]
fn no_source_file_is_longer_than_800_lines() -> Result<()> {
    let found = sources()?;
    assert!(found.len() > 50, "the sources are found: {}", found.len());
    let broken: Vec<_> = found
        .iter()
        .map(|source| (source.text.lines().count(), &source.path))
        .filter(|(lines, _)| *lines > MAX_LINES)
        .map(|(lines, path)| format!("{} has {lines} lines: split it at what can be understood alone", path.display()))
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}

/// Words in pieces, so that this file does not hold them.
#[test]
fn nothing_is_left_unfinished_or_waits_by_the_clock() -> Result<()> {
    let rules = [
        (concat!("todo", "!("), false, "finish it, or leave it out and open an issue"),
        (concat!("unimpl", "emented!("), false, "finish it, or leave it out and open an issue"),
        (concat!("#[ign", "ore"), false, "a test that does not run proves nothing: assert what is true today"),
        (concat!("thread::", "sleep"), false, "wait for the condition itself, with a bound"),
        (concat!("time::", "sleep("), true, "wait for the condition itself, with a bound"),
    ];
    let mut broken = Vec::new();
    for source in sources()?.iter().filter(|source| source.is_rust()) {
        if source.path.file_name().is_some_and(|name| name == "mod.rs") {
            broken.push(format!("{}: a module is `foo.rs` beside `foo/`", source.path.display()));
        }
        // A guest that sleeps is one of the faults that the host is tested against.
        let guest = source.path.starts_with("tests/guests");
        for (number, line) in source.text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for (word, only_tests, why) in rules {
                if code.contains(word) && !(guest && word.contains("sleep")) && (!only_tests || source.is_test()) {
                    broken.push(format!("{}:{}: `{word}`: {why}", source.path.display(), number + 1));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}

#[test]
fn every_package_has_the_licence_and_the_lints_of_the_house() -> Result<()> {
    let mut broken = Vec::new();
    for folder in ["", "plugins", "sdk", "tests/guests"] {
        let folder = root().join(folder);
        if !folder.join("Cargo.toml").exists() {
            continue;
        }
        for package in packages(&folder)? {
            if package.license.as_deref() != Some("Apache-2.0") {
                broken.push(format!(
                    "`{}` names no licence: write `license.workspace = true` or \"Apache-2.0\"",
                    package.name
                ));
            }
            let manifest = fs::read_to_string(&package.manifest_path)
                .with_context(|| format!("read {}", package.manifest_path.display()))?;
            let inherits = manifest.contains("[lints]\nworkspace = true");
            if !inherits && !explains_its_lints(&package.manifest_path, &manifest)? {
                broken.push(format!(
                    "`{}` does not inherit the lints of its workspace and does not say why: write `[lints]` with \
                     `workspace = true`, or `[lints.rust]` of its own and the reason in the doc of its root",
                    package.name
                ));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}

/// A crate that needs `unsafe` has lints of its own, and its root says what for.
fn explains_its_lints(manifest_path: &std::path::Path, manifest: &str) -> Result<bool> {
    if !manifest.contains("[lints.") {
        return Ok(false);
    }
    let folder = manifest_path.parent().context("a manifest lies in a folder")?;
    for file in ["src/lib.rs", "src/main.rs"] {
        if let Ok(text) = fs::read_to_string(folder.join(file)) {
            return Ok(text.lines().any(|line| line.starts_with("//!") && line.contains("unsafe")));
        }
    }
    Ok(false)
}
