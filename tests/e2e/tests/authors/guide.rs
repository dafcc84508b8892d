//! Runs the commands of a guide and holds what they print against what the guide says.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// The blocks of a guide.
pub(crate) struct Guide {
    path: PathBuf,
    steps: Vec<Step>,
}

/// One block of commands.
struct Step {
    /// Where it starts in the guide, counted from 1.
    line: usize,
    commands: String,
    /// Lines that stand in what the commands print, in this order; `…` stands for anything.
    prints: Vec<String>,
}

/// Printed between the steps, on both streams at once.
const MARK: &str = "==> step";

impl Guide {
    /// A block `text` belongs to the block `sh` before it.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let mut steps: Vec<Step> = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let Some(language) = line.strip_prefix("```") else { continue };
            let block: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            match language {
                "sh" => steps.push(Step { line: number + 1, commands: block.join("\n"), prints: Vec::new() }),
                "text" => {
                    let step = steps.last_mut().with_context(|| format!("line {}: no commands before", number + 1))?;
                    step.prints = block.iter().map(|line| (*line).to_owned()).collect();
                }
                other => anyhow::bail!("{}:{}: a block of `{other}`", path.display(), number + 1),
            }
        }
        ensure!(steps.len() > 5, "{} has only {} blocks of commands", path.display(), steps.len());
        Ok(Self { path: path.to_owned(), steps })
    }

    /// Runs all commands in one shell, which ends at the first that fails.
    pub(crate) fn follow(&self, dress: impl FnOnce(&mut Command)) -> Result<()> {
        let mut script = String::from("set -eu\nexec 2>&1\n");
        for (index, Step { commands, .. }) in self.steps.iter().enumerate() {
            script.push_str(&format!("echo '{MARK} {index}'\n{commands}\n"));
        }
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).stdin(Stdio::null());
        dress(&mut shell);
        let output = shell.output().context("run the guide in a shell")?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{}: a command failed:\n{printed}", self.path.display());
        for (index, step) in self.steps.iter().enumerate() {
            let after = printed.split_once(&format!("{MARK} {index}\n")).context("every step leaves its mark")?.1;
            let of_step = after.split(MARK).next().unwrap_or_default();
            step.check(of_step).with_context(|| format!("{}:{}", self.path.display(), step.line))?;
        }
        Ok(())
    }
}

impl Step {
    fn check(&self, printed: &str) -> Result<()> {
        let mut rest = printed;
        for expected in &self.prints {
            for part in expected.split('…').filter(|part| !part.is_empty()) {
                let (_, after) = rest
                    .split_once(part)
                    .with_context(|| format!("`{part}` of `{expected}` is not in the rest of:\n{printed}"))?;
                rest = after;
            }
        }
        Ok(())
    }
}
