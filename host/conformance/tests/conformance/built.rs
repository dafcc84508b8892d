//! Components, built from source by the scripts that `make` uses, and projects around them.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use haptic_conformance::{Options, Pace, Project, Report, Status, run};
use serde_json::{Value, json};
use tempfile::TempDir;

static PLUGINS: LazyLock<PathBuf> = LazyLock::new(|| build("plugins/build.sh", "HAPTIC_PLUGINS_DIR", "plugins"));
static GUESTS: LazyLock<PathBuf> = LazyLock::new(|| build("tests/guests/build.sh", "HAPTIC_GUESTS_DIR", "guests"));

/// Where a first-party plugin is.
pub(crate) fn plugin(name: &str) -> PathBuf {
    PLUGINS.join(format!("{name}.wasm"))
}

/// Where a guest is.
pub(crate) fn guest(name: &str) -> PathBuf {
    GUESTS.join(format!("{name}.wasm"))
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A few variants of each kind, with compiled modules kept between tests.
pub(crate) fn quick() -> Options {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
    Options { pace: Pace::Quick, cache_dir: Some(cache), ..Options::default() }
}

/// Only what has `filter` in its name.
pub(crate) fn only(filter: &str) -> Options {
    Options { filter: Some(filter.to_owned()), ..quick() }
}

/// A folder with cases, for the guest `fallible` with one mistake or none.
pub(crate) struct Folder {
    pub(crate) path: TempDir,
    config: Value,
}

// === impl Folder ===

impl Folder {
    /// With the cases that the checks start from.
    pub(crate) fn new(mistake: Option<&str>) -> Self {
        let config = mistake.map_or_else(|| json!({}), |mistake| json!({ "mistake": mistake, "weight": 1 }));
        let folder = Self { path: tempfile::tempdir().unwrap(), config };
        let manifest =
            format!("name: fallible\nlanguage: rust\nlimits: {{ timeout: 400ms }}\nconfig: {}\n", folder.config);
        folder.write("plugin.yaml", manifest);
        let file = "maps/a.map";
        let case = |name: &str, content: &str, data: &[(&str, &str)]| {
            folder.write(&format!("cases/{name}/files/{file}"), content);
            for (path, content) in data {
                folder.write(&format!("cases/{name}/files/{path}"), content);
            }
            let case = json!({ "description": name, "config": folder.config, "file": file, "now": 1_700_000_000 });
            folder.write(&format!("cases/{name}/case.json"), case.to_string());
        };
        case("good", "a 1\nb 2\n", &[("maps/b.map", "c 3\n")]);
        case("bad", "a 1\r\nb none\r\n\r\na 2\n", &[]);
        let calls = json!([
            { "filter": "join", "value": ["a", "b"] },
            { "filter": "join", "value": ["a", "b"], "positional": ["-"] },
            { "filter": "join", "value": ["a", "b"], "named": { "with": "+" } },
        ]);
        let case = json!({ "description": "lists", "config": folder.config, "calls": calls });
        folder.write("cases/lists/case.json", case.to_string());
        folder
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path.path().join(path)).unwrap()
    }

    pub(crate) fn project(&self) -> Project {
        Project::open_with_module(self.path.path(), &guest("fallible")).unwrap()
    }

    /// Runs it after what comes out became what is expected.
    pub(crate) fn run_blessed(&self, options: &Options) -> Report {
        let blessed = run(&self.project(), &Options { bless: true, ..quick() }).unwrap();
        assert!(blessed.passed(), "{}", haptic_conformance::text(&blessed));
        run(&self.project(), options).unwrap()
    }
}

/// How the case or check of that name ended, and what it says.
pub(crate) fn said(report: &Report, name: &str) -> (Status, String) {
    let result = report.results.iter().find(|result| result.name == name).unwrap();
    (result.status, result.says.clone())
}

/// Runs a build script, one process at a time, and returns where it put the components.
fn build(script: &str, folder_from: &str, default: &str) -> PathBuf {
    let home = std::env::var("HOME").unwrap();
    let cache = std::env::var("HAPTIC_CACHE").unwrap_or_else(|_| format!("{home}/.cache/haptic"));
    let output = std::env::var(folder_from).map_or_else(|_| Path::new(&cache).join(default), PathBuf::from);
    fs::create_dir_all(&cache).unwrap();
    let lock = File::create(Path::new(&cache).join("guests.lock")).unwrap();
    lock.lock().unwrap();
    let built = Command::new(root().join(script)).arg(&output).output().unwrap();
    assert!(built.status.success(), "{script}: {}", String::from_utf8_lossy(&built.stderr));
    output
}
