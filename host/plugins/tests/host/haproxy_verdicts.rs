//! HAProxy's own verdict beside those of the first-party validators: a case says what `haproxy -c` makes of its files,
//! and here every version is asked.
//!
//! In a `case.json`, `"haproxy": { "accepts": BOOL, "says": WORDS }` with a `haproxy.cfg` beside it, or below `files/`,
//! that loads the other files by their relative paths. `says` is a part of what HAProxy prints; `"silent": true` says
//! that it prints no warning and no error. Where versions differ, a field may be an object of one value for each.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use serde::Deserialize;
use serde_json::Value;

const VERSIONS: [&str; 3] = ["3.0", "3.2", "3.4"];

/// The fields of a case that matter here.
#[derive(Deserialize)]
struct Case {
    expect: Option<Value>,
    haproxy: Option<Verdict>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Verdict {
    accepts: OfVersion<bool>,
    #[serde(default)]
    says: OfVersion<String>,
    #[serde(default)]
    silent: OfVersion<bool>,
}

/// One value for all versions, or one for each.
#[derive(Deserialize)]
#[serde(untagged)]
enum OfVersion<T> {
    All(T),
    Each(BTreeMap<String, T>),
}

/// A case of a validator that says what HAProxy makes of it.
struct Asked {
    plugin: String,
    folder: PathBuf,
    verdict: Verdict,
    /// Whether the plugin finds something.
    finds: bool,
}

#[test]
fn haproxy_says_what_the_cases_say_that_it_says() {
    let (_, asked) = cases();
    let check = |version: &str| -> Vec<String> {
        let binary = haproxy(version);
        asked.iter().filter_map(|case| case.differs(version, &binary)).collect()
    };
    let wrong: Vec<String> = thread::scope(|scope| {
        let runs = VERSIONS.map(|version| scope.spawn(move || check(version)));
        runs.into_iter().flat_map(|run| run.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} verdicts differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_validator_finds_something_that_haproxy_accepts() {
    let (validators, asked) = cases();
    let accepted = |case: &&Asked| case.finds && VERSIONS.iter().all(|version| *case.verdict.accepts.of(version));
    let earned: BTreeSet<&str> = asked.iter().filter(accepted).map(|case| case.plugin.as_str()).collect();
    let missing: Vec<&String> = validators.iter().filter(|plugin| !earned.contains(plugin.as_str())).collect();
    assert!(missing.is_empty(), "no case of {missing:?} shows what HAProxy accepts and the plugin finds");
}

/// The names of all plugins with cases of a validator, and the cases that have HAProxy's verdict.
fn cases() -> (BTreeSet<String>, Vec<Asked>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
    let mut validators = BTreeSet::new();
    let mut asked = Vec::new();
    for plugin in folders(&root).into_iter().filter(|plugin| plugin.join("cases").is_dir()) {
        let name = plugin.file_name().unwrap().to_str().unwrap().to_owned();
        for folder in folders(&plugin.join("cases")) {
            let path = folder.join("case.json");
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let case: Case = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let expect = case.expect.unwrap_or_default();
            if expect.get("result").is_none() {
                continue;
            }
            validators.insert(name.clone());
            if let Some(verdict) = case.haproxy {
                let finds = expect["result"] != "valid";
                asked.push(Asked { plugin: name.clone(), folder, verdict, finds });
            }
        }
    }
    (validators, asked)
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).unwrap_or_else(|error| panic!("{}: {error}", parent.display()));
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn haproxy(version: &str) -> PathBuf {
    let folder = std::env::var_os("HAPTIC_HAPROXY_DIR")
        .map_or_else(|| Path::new(&std::env::var_os("HOME").unwrap()).join(".cache/haptic/haproxy/bin"), PathBuf::from);
    let binary = folder.join(format!("haproxy-{version}"));
    assert!(binary.exists(), "{} is not there; run `make haproxies`", binary.display());
    binary
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

// === impl Asked ===

impl Asked {
    /// What HAProxy says otherwise than the case.
    fn differs(&self, version: &str, haproxy: &Path) -> Option<String> {
        let place = tempfile::tempdir().unwrap();
        copy(&self.folder.join("files"), place.path()).unwrap();
        let config = self.folder.join("haproxy.cfg");
        if config.exists() {
            fs::copy(config, place.path().join("haproxy.cfg")).unwrap();
        }
        let output = Command::new(haproxy)
            .args(["-c", "-f", "haproxy.cfg"])
            .current_dir(place.path())
            .output()
            .unwrap_or_else(|error| panic!("running {}: {error}", haproxy.display()));
        let said = String::from_utf8_lossy(&output.stderr);
        let accepts = output.status.success();
        let Verdict { accepts: expected, says, silent } = &self.verdict;
        let (expected, words, silent) = (*expected.of(version), says.of(version), *silent.of(version));
        let is_silent = !["[ALERT]", "[WARNING]"].iter().any(|level| said.contains(level));
        let agrees = accepts == expected && said.contains(words.as_str()) && (is_silent || !silent);
        (!agrees).then(|| {
            let folder = self.folder.display();
            format!(
                "{folder}: HAProxy {version} accepts: {accepts}, the case says {expected}, silent: {silent}, words: \
                 `{words}`; it says:\n{said}"
            )
        })
    }
}

// === impl OfVersion ===

impl<T: Default> Default for OfVersion<T> {
    fn default() -> Self {
        Self::All(T::default())
    }
}

impl<T> OfVersion<T> {
    fn of(&self, version: &str) -> &T {
        match self {
            Self::All(value) => value,
            Self::Each(values) => {
                values.get(version).unwrap_or_else(|| panic!("the verdict of HAProxy {version} is not in the case"))
            }
        }
    }
}
