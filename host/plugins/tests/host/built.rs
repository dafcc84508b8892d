//! Components, built from source by the scripts that `make` uses.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haptic_model::{
    FileKind, FilePath, FileSet,
    ports::{Now, OutputValidators as _, PluginReport},
};
use haptic_plugins::{Limits, LoadedPlugin, PluginHost, PluginSet, PluginSettings, PluginUse, ValidatorScope};
use serde_json::Value;

pub(crate) const NOW: Now = Now(1_700_000_000);

/// Time enough for everything but a loop, on a machine with other work; the rest little enough to see that it holds.
pub(crate) const LIMITS: Limits =
    Limits { timeout: Duration::from_secs(20), memory_bytes: 16 << 20, output_bytes: 1 << 20, input_bytes: 4 << 20 };

/// For guests that never end.
pub(crate) const HURRIED: Limits = Limits { timeout: Duration::from_millis(500), ..LIMITS };

/// How late a stop may be noticed: a few ticks, and a machine that is busy with other tests.
pub(crate) const SLACK: Duration = Duration::from_secs(3);

/// One host for the tests that do not ask about the host itself, and one compiled `fault` for all of them.
static SHARED: LazyLock<(PluginHost, Arc<LoadedPlugin>)> = LazyLock::new(|| {
    let host = host();
    let fault = host.load("shared", &guest("fault"), None, &settings(Value::Null)).unwrap();
    (host, fault)
});

static PLUGINS: LazyLock<PathBuf> = LazyLock::new(|| build("plugins/build.sh", "HAPTIC_PLUGINS_DIR", "plugins"));
static GUESTS: LazyLock<PathBuf> = LazyLock::new(|| build("tests/guests/build.sh", "HAPTIC_GUESTS_DIR", "guests"));

/// The bytes of a first-party plugin.
pub(crate) fn plugin(name: &str) -> Vec<u8> {
    fs::read(PLUGINS.join(format!("{name}.wasm"))).unwrap()
}

/// The bytes of a guest.
pub(crate) fn guest(name: &str) -> Vec<u8> {
    fs::read(GUESTS.join(format!("{name}.wasm"))).unwrap()
}

pub(crate) fn host() -> PluginHost {
    PluginHost::new(None).unwrap()
}

pub(crate) fn shared_host() -> &'static PluginHost {
    &SHARED.0
}

/// A name that no other test has, so that its counters are its own.
pub(crate) fn unique(name: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The guest `fault` with a config, under a name of its own.
pub(crate) fn load_fault(name: &str, settings: &PluginSettings) -> Arc<LoadedPlugin> {
    shared_host().load(&unique(name), &guest("fault"), None, settings).unwrap()
}

pub(crate) fn hurried(config: Value) -> PluginSettings {
    PluginSettings { config, limits: HURRIED, ..PluginSettings::default() }
}

pub(crate) fn settings(config: Value) -> PluginSettings {
    PluginSettings { config, limits: LIMITS, ..PluginSettings::default() }
}

/// A set of one plugin that sees every file.
pub(crate) fn set_of(plugins: impl IntoIterator<Item = Arc<LoadedPlugin>>) -> PluginSet {
    let everything = || ValidatorScope { files: vec!["**".to_owned()], data_files: Vec::new() };
    let uses = plugins.into_iter().map(|plugin| PluginUse { plugin, validators: vec![everything()] });
    PluginSet::new(uses.collect()).unwrap()
}

pub(crate) fn files<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> FileSet {
    files
        .into_iter()
        .map(|(path, content)| {
            let path = FilePath::new(path).unwrap();
            let kind = if path.as_str() == "haproxy.cfg" { FileKind::Config } else { FileKind::General };
            (path.clone(), haptic_model::File::new(path, kind, content.to_owned()))
        })
        .collect()
}

/// The one report of a set about one auxiliary file.
pub(crate) fn check_file(set: &PluginSet, path: &str, content: &str) -> PluginReport {
    let mut reports = set.validate_auxiliary(&files([(path, content)]), NOW);
    assert_eq!(reports.len(), 1, "{reports:?}");
    reports.remove(0)
}

/// Runs a build script, one process at a time, and returns where it put the components.
fn build(script: &str, folder_from: &str, default: &str) -> PathBuf {
    let home = std::env::var("HOME").unwrap();
    let cache = std::env::var("HAPTIC_CACHE").unwrap_or_else(|_| format!("{home}/.cache/haptic"));
    let output = std::env::var(folder_from).map_or_else(|_| Path::new(&cache).join(default), PathBuf::from);
    fs::create_dir_all(&cache).unwrap();
    let lock = File::create(Path::new(&cache).join("guests.lock")).unwrap();
    lock.lock().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = Command::new(root.join(script)).arg(&output).output().unwrap();
    assert!(built.status.success(), "{script}: {}", String::from_utf8_lossy(&built.stderr));
    output
}
