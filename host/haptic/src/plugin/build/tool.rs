//! Programs of others that a build runs.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use anyhow::Context as _;
use haptic_model::Framer;
use thiserror::Error;

use crate::cli;

/// A program that a build needs does not do its work.
#[derive(Debug, Error)]
pub(super) enum ToolError {
    #[error("`{program}` is not in PATH; {next_step}")]
    Missing { program: String, next_step: &'static str },
    #[error("running `{program}`")]
    Run { program: String, source: io::Error },
    #[error("`{program}` is version {found}, older than the {wanted} that is needed; {next_step}")]
    TooOld { program: &'static str, found: String, wanted: &'static str, next_step: &'static str },
    #[error("{doing} failed; {next_step}")]
    Failed { doing: String, next_step: &'static str },
}

/// Runs a program to its end. What it writes to standard error is shown at once; its standard output is returned.
pub(super) fn run(command: &mut Command, next_step: &'static str) -> Result<Output, ToolError> {
    let program = Path::new(command.get_program()).file_name().unwrap_or(OsStr::new("it"));
    let program = program.to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ToolError::Missing { program, next_step },
        _ => ToolError::Run { program, source },
    })
}

/// Runs a program that has just been installed, and wants it to end well.
pub(super) fn works(command: &mut Command, doing: &str, next_step: &'static str) -> anyhow::Result<()> {
    let failed = || ToolError::Failed { doing: doing.to_owned(), next_step };
    let tried = run(command, next_step).with_context(failed)?;
    if tried.status.success() { Ok(()) } else { Err(failed().into()) }
}

/// Where a tool of this name and version is kept. What it is made from is part of the folder's name: what was made from
/// anything else is another tool.
pub(super) fn place<'a>(folder: &Path, name: &str, made_from: impl IntoIterator<Item = &'a str>) -> PathBuf {
    let mut framer = Framer::default();
    for part in made_from {
        framer.field(part);
    }
    folder.join(format!("{name}-{}", framer.finish().short()))
}

/// A folder of tools, made once: `install` gets an empty folder, which takes the name `there` when all is in it. Another
/// process that wants the same waits.
pub(super) fn once(there: &Path, install: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<PathBuf> {
    const COMPLETE: &str = ".complete";
    let complete = there.join(COMPLETE);
    if !complete.is_file() {
        let parent = there.parent().expect("tools are below the cache");
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        let lock = there.with_added_extension("lock");
        let held = File::create(&lock).with_context(|| format!("opening {}", lock.display()))?;
        held.lock().with_context(|| format!("waiting for {}", lock.display()))?;
        if !complete.is_file() {
            // A virtual environment knows its own path, so it is made where it stays.
            if there.exists() {
                fs::remove_dir_all(there)
                    .with_context(|| format!("removing what is half made: {}", there.display()))?;
            }
            fs::create_dir_all(there).with_context(|| format!("making {}", there.display()))?;
            cli::complain(&format!("installing to {}; this is done once", there.display()));
            install(there)?;
            File::create(&complete).with_context(|| format!("writing {}", complete.display()))?;
        }
    }
    Ok(there.to_owned())
}

/// The first number of a version such as `v20.1.0`, and the second.
pub(super) fn version(text: &str) -> Option<(u32, u32)> {
    let number = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let mut parts = number.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Copies a folder's content, links followed, without what the names in `but` name.
pub(super) fn copy(from: &Path, to: &Path, but: &[&str]) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
    let entries = fs::read_dir(from).with_context(|| format!("looking into {}", from.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("looking into {}", from.display()))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if but.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if source.is_dir() {
            copy(&source, &target, but)?;
        } else {
            fs::copy(&source, &target).with_context(|| format!("copying {}", source.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn reads_versions_as_tools_write_them() {
        assert_eq!(version("v20.20.2\n"), Some((20, 20)));
        assert_eq!(version("Python 3.11.7\n"), Some((3, 11)));
        assert_eq!(version("unknown"), None);
    }

    #[test]
    fn an_installation_that_failed_is_made_anew_and_one_that_did_not_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("tools");
        let failed = once(&there, |folder| {
            fs::write(folder.join("half"), "").unwrap();
            anyhow::bail!("the network is down")
        });
        assert_eq!(failed.unwrap_err().to_string(), "the network is down");
        once(&there, |folder| {
            assert!(!folder.join("half").exists(), "what was half made is gone");
            Ok(())
        })
        .unwrap();
        once(&there, |_| unreachable!("it is there")).unwrap();
    }

    #[test]
    fn a_tool_that_is_made_from_something_else_is_another_tool() {
        let folder = Path::new("tools");
        let place = |made_from: &[&str]| place(folder, "tool-1.2.3", made_from.iter().copied());
        let name = place(&["a", "b"]);
        assert!(name.to_str().unwrap().starts_with("tools/tool-1.2.3-"), "{}", name.display());
        assert_eq!(name, place(&["a", "b"]));
        assert!(name != place(&["a", "c"]) && name != place(&["ab"]));
    }

    #[test]
    fn two_patch_versions_do_not_wait_for_each_other() {
        let folder = tempfile::tempdir().unwrap();
        once(&folder.path().join("tool-1.2.3"), |_| {
            // Within the other installation: with one lock for both it would wait for ever.
            once(&folder.path().join("tool-1.2.4"), |_| Ok(())).map(drop)
        })
        .unwrap();
        let names = ["tool-1.2.3.lock", "tool-1.2.4.lock"];
        assert!(names.iter().all(|name| folder.path().join(name).is_file()));
    }
}
