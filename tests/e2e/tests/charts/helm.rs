//! Both Helms, and what they render.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize as _;
use serde_json::Value;
use tempfile::TempDir;

/// One of the two, with folders of its own.
pub(crate) struct Helm {
    pub(crate) name: &'static str,
    program: PathBuf,
    home: TempDir,
    kubeconfig: Option<PathBuf>,
}

/// The namespace of what is rendered without a cluster.
pub(crate) const NAMESPACE: &str = "edge";
pub(crate) const RELEASE: &str = "haptic";

// === impl Helm ===

impl Helm {
    pub(crate) fn three() -> Result<Self> {
        Self::open("helm3")
    }

    pub(crate) fn four() -> Result<Self> {
        Self::open("helm4")
    }

    pub(crate) fn both() -> Result<[Self; 2]> {
        Ok([Self::three()?, Self::four()?])
    }

    fn open(name: &'static str) -> Result<Self> {
        let folder = env::var_os("HAPTIC_REGISTRY_TOOLS_DIR")
            .map_or_else(|| env::home_dir().unwrap_or_default().join(".cache/haptic/go/bin"), PathBuf::from);
        let program = folder.join(name);
        ensure!(program.exists(), "`{}` is missing: run `make helm-tools`", program.display());
        Ok(Self { name, program, home: tempfile::tempdir().context("make a folder")?, kubeconfig: None })
    }

    /// The same, for this cluster.
    pub(crate) fn with_cluster(mut self, kubeconfig: &Path) -> Self {
        self.kubeconfig = Some(kubeconfig.to_owned());
        self
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // Without a cluster it must not find one of this machine either.
        let nowhere = self.home.path().join("kubeconfig");
        command.args(words).env("KUBECONFIG", self.kubeconfig.as_ref().unwrap_or(&nowhere));
        for (variable, folder) in
            [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            command.env(variable, self.home.path().join(folder));
        }
        command
    }

    /// What it printed to standard output.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String> {
        let output = self.output(words)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} {}: {said}", self.name, words.join(" "));
        String::from_utf8(output.stdout).context("read what Helm printed")
    }

    /// What it complained about.
    pub(crate) fn refusal(&self, words: &[&str]) -> Result<String> {
        let output = self.output(words)?;
        ensure!(!output.status.success(), "{} {} was not refused", self.name, words.join(" "));
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn output(&self, words: &[&str]) -> Result<Output> {
        self.command(words).output().with_context(|| format!("run {} {}", self.name, words.join(" ")))
    }

    /// The objects of the chart with these values, sorted.
    pub(crate) fn render(&self, values: &Path) -> Result<Vec<Value>> {
        let (chart, values) = (chart("haptic"), values.to_string_lossy().into_owned());
        let rendered = self.run(&["template", RELEASE, &chart, "--namespace", NAMESPACE, "--values", &values])?;
        documents(&rendered)
    }
}

/// The folder of a chart.
pub(crate) fn chart(name: &str) -> String {
    root().join("charts").join(name).to_string_lossy().into_owned()
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Sorted by kind, namespace and name: the Helms order and space them differently.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for document in serde_norway::Deserializer::from_str(text) {
        let object = Value::deserialize(document).context("read what Helm rendered")?;
        if !object.is_null() {
            objects.push(object);
        }
    }
    ensure!(!objects.is_empty(), "nothing was rendered");
    objects.sort_by_key(identity);
    Ok(objects)
}

/// Kind, namespace and name.
pub(crate) fn identity(object: &Value) -> [String; 3] {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    [text(&object["kind"]), text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"])]
}

/// Compares with a file, or writes it.
pub(crate) fn expect(path: &Path, text: &str) -> Result<()> {
    if env::var_os("HAPTIC_BLESS").is_some() {
        return fs::write(path, text).with_context(|| format!("write {}", path.display()));
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert!(
        text == expected,
        "{} is not what it should be; run the tests with HAPTIC_BLESS=1 and review\n{}",
        path.display(),
        first_difference(&expected, text)
    );
    Ok(())
}

fn first_difference(expected: &str, found: &str) -> String {
    let lines = expected.lines().chain([""]).zip(found.lines().chain([""])).enumerate();
    let differs = lines.into_iter().find(|(_, (expected, found))| expected != found);
    differs.map_or_else(
        || "one has more lines".to_owned(),
        |(number, (expected, found))| format!("line {}:\n  expected: {expected}\n  found:    {found}", number + 1),
    )
}
