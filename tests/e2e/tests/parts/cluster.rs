//! A real API server for one test.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Output, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

/// Ends when it is dropped, and with this process.
pub(crate) struct Cluster {
    pub(crate) kubeconfig: PathBuf,
    program: PathBuf,
    folder: TempDir,
    keeper: Child,
    lifeline: Option<ChildStdin>,
}

/// Ends the program when nobody holds the lifeline any more, however the test ends.
const KEEPER: &str = r#"
"$1" up --dir "$2" <&- &
cluster=$!
cat >/dev/null
kill "$cluster" 2>/dev/null
wait "$cluster" 2>/dev/null
"#;

// === impl Cluster ===

impl Cluster {
    /// Blocks until it is ready.
    pub(crate) fn start() -> Result<Self> {
        let tools = env::var_os("HAPTIC_REGISTRY_TOOLS_DIR")
            .map_or_else(|| env::home_dir().unwrap_or_default().join(".cache/haptic/go/bin"), PathBuf::from);
        let program = tools.join("haptic-cluster");
        ensure!(program.exists(), "`{}` is missing; run `make cluster-tools`", program.display());
        let folder = tempfile::tempdir()?;
        let said = folder.path().join("said.log");
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .args([program.as_path(), &folder.path().join("c")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&said)?)
            .spawn()
            .context("start the test cluster")?;
        let lifeline = keeper.stdin.take();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().context("it has a pipe")?).read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line)
            .with_context(|| format!("the cluster did not start: {}", fs::read_to_string(&said).unwrap_or_default()))?;
        let kubeconfig = ready["kubeconfig"].as_str().context("it names its kubeconfig")?.into();
        Ok(Self { kubeconfig, program, folder, keeper, lifeline })
    }

    pub(crate) fn kubectl(&self) -> Command {
        let mut kubectl = Command::new(&self.program);
        kubectl.arg("kubectl").arg("--kubeconfig").arg(&self.kubeconfig);
        kubectl
    }

    pub(crate) fn apply(&self, manifests: &str) -> Result<()> {
        let mut kubectl = self.kubectl();
        kubectl.args(["apply", "--server-side", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut kubectl = kubectl.stderr(Stdio::piped()).spawn()?;
        kubectl.stdin.take().context("it has a pipe")?.write_all(manifests.as_bytes())?;
        succeeded("kubectl apply", &kubectl.wait_with_output()?)
    }

    /// kubectl with these words.
    pub(crate) fn run(&self, words: &[&str]) -> Result<()> {
        succeeded(&words.join(" "), &self.kubectl().args(words).output()?)
    }

    /// Ends or starts a component, such as `stop apiserver KILL`.
    pub(crate) fn control(&self, words: &[&str]) -> Result<()> {
        let mut control = Command::new(&self.program);
        control.args(["ctl", "--dir"]).arg(self.folder.path().join("c")).args(words);
        succeeded(&words.join(" "), &control.output()?)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.keeper.wait();
    }
}

fn succeeded(what: &str, output: &Output) -> Result<()> {
    ensure!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
