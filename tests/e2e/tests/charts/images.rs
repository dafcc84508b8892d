//! The Containerfiles. No container engine builds them here: what is held is what can be read from their text, and that
//! the root which they lay out runs both programs with nothing of this machine.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::{binary, builds};

use crate::helm::root;

/// One instruction with its arguments; continued lines are joined.
struct Instruction {
    name: String,
    arguments: String,
}

/// Those of Containerfiles; anything else is a mistake.
const KNOWN: [&str; 11] =
    ["ARG", "COPY", "ENTRYPOINT", "CMD", "ENV", "EXPOSE", "FROM", "LABEL", "RUN", "USER", "WORKDIR"];

fn instructions(text: &str) -> Result<Vec<Instruction>> {
    let mut joined = String::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        match line.strip_suffix('\\') {
            Some(line) => joined += line,
            None => joined += &format!("{line}\n"),
        }
    }
    let mut found = Vec::new();
    for line in joined.lines().filter(|line| !line.trim().is_empty()) {
        let (name, arguments) = line.trim().split_once(' ').with_context(|| format!("`{line}` says nothing"))?;
        ensure!(KNOWN.contains(&name), "`{name}` is no instruction: {line}");
        found.push(Instruction { name: name.to_owned(), arguments: arguments.trim().to_owned() });
    }
    Ok(found)
}

/// Every `${NAME}` of a text.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    text.split("${").skip(1).filter_map(|rest| rest.split(['}', ':']).next())
}

fn check(name: &str) -> Result<()> {
    let path = root().join("charts/images").join(name);
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let found = instructions(&text)?;
    let mut known = BTreeSet::new();
    let mut stages = BTreeSet::new();
    for Instruction { name: instruction, arguments } in &found {
        match instruction.as_str() {
            "ARG" => {
                known.insert(arguments.split('=').next().unwrap_or_default().to_owned());
            }
            "ENV" => known.extend(arguments.split('=').next().map(str::to_owned)),
            "FROM" => {
                let image = arguments.split(' ').find(|word| !word.starts_with("--")).context("an image")?;
                let pinned = image == "scratch" || image.contains(':');
                ensure!(pinned || stages.contains(image), "{name}: `{image}` is not pinned to a version");
                stages.extend(arguments.split_once(" AS ").map(|(_, stage)| stage.to_owned()));
            }
            "COPY" => {
                let from = arguments.split(' ').find_map(|word| word.strip_prefix("--from="));
                ensure!(from.is_none_or(|stage| stages.contains(stage)), "{name}: no stage {from:?}");
            }
            _ => {}
        }
        for variable in variables(arguments) {
            ensure!(known.contains(variable), "{name}: `{variable}` is set nowhere: {arguments}");
        }
    }
    ensure!(known.contains("TARGETARCH"), "{name} is made for one architecture only");
    ensure!(!text.contains("latest"), "{name} takes whatever is newest");
    let last = |wanted: &str| found.iter().rev().find(|it| it.name == wanted).map(|it| it.arguments.as_str());
    let user = last("USER").context("an image says its user")?;
    let number: u32 = user.split(':').next().unwrap_or_default().parse().with_context(|| format!("`{user}`"))?;
    ensure!(number == 65532, "{name} runs as {user}; the charts say 65532");
    ensure!(last("ENTRYPOINT") == Some("[\"/haptic\"]"), "{name}: the charts give arguments to haptic");
    Ok(())
}

#[test]
fn images_are_pinned_run_as_nobody_and_are_made_for_several_architectures() -> Result<()> {
    check("haptic.Containerfile")?;
    check("haptic-haproxy.Containerfile")
}

/// What a program in that root prints, as the user of the image.
fn inside(image: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new("chroot");
    command.args(["--userspec=65532:65532", "--groups="]).arg(image).args(words);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let output = command.output().context("run chroot")?;
    ensure!(output.status.success(), "{words:?} in the image: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).context("read what it printed")
}

#[test]
fn the_root_of_an_image_holds_all_that_its_programs_need() -> Result<()> {
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let image = tempfile::Builder::new().permissions(everybody).tempdir().context("make a folder")?;
    let versions = ["3.0", "3.2", "3.4"];
    let newest = fs::canonicalize(&builds(&["3.4"])[0].path).context("find HAProxy")?;
    let haproxies = newest.ancestors().nth(2).context("a build lies in a folder of its version")?;
    let mut command = Command::new(root().join("charts/images/assemble.sh"));
    command.arg(image.path()).arg(binary()).arg(haproxies).args(versions);
    let output = command.output().context("run assemble.sh")?;
    ensure!(output.status.success(), "assemble.sh: {}", String::from_utf8_lossy(&output.stderr));

    assert!(inside(image.path(), &["/haptic", "version"])?.starts_with("haptic "));
    for version in versions {
        let haproxy = haproxies.join(version).join("haproxy");
        let said = inside(image.path(), &[haproxy.to_str().context("a path is text")?, "-v"])?;
        assert!(said.starts_with(&format!("HAProxy version {version}.")), "{said}");
    }
    assert!(!image.path().join("bin").exists(), "there is no shell");
    Ok(())
}

#[test]
fn a_containerfile_with_a_mistake_is_found() {
    assert!(instructions("FORM debian:12\n").is_err());
    assert_eq!(variables("a ${ONE} ${TWO:-x}").collect::<Vec<_>>(), ["ONE", "TWO"]);
}
