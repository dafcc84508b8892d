//! The contract of generation 1.0.0, which is released and must go on working.

use std::{fs, path::PathBuf};

use haptic_model::{
    Digest,
    ports::{Contract, FilterCall, FilterError, OutputValidators as _, TemplateFilters as _},
};
use haptic_plugins::{PluginSet, PluginUse, ValidatorScope};
use serde_json::json;

use crate::built::{NOW, files, guest, settings, shared_host, unique};

/// The released text, file by file.
const TEXT: [(&str, &str); 4] = [
    ("contracts.wit", "11d4d7ced1cef860f84032957dc8fe67d0422d0223ef1e36d9a68f19c92f9a4a"),
    ("host.wit", "42cea2d9fd9e8cdef4789d2101e2de1c77b1dafa277f18f28bfcb4b28ef538c1"),
    ("types.wit", "0dfff73dc398e566c224491d056f63894f1b23a4d4abb4a2ef604ec6252ae826"),
    ("worlds.wit", "c75065f4c0e7b4de25192d6aea0110122abcd06d960ebe54c7505eb13f03308c"),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn names(folder: &str) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(root().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_text_of_a_released_generation_is_never_edited() {
    for folder in ["wit/haptic-plugin-1.0.0", "tests/guests/frozen/wit"] {
        assert_eq!(names(folder), TEXT.map(|(name, _)| name), "{folder}");
        for (name, released) in TEXT {
            let file = root().join(folder).join(name);
            let found = Digest::of(&fs::read(&file).unwrap()).to_string();
            assert_eq!(
                found,
                released,
                "{} is not what was released. Its text is never edited, comments included, because guests are built \
                 against it. Undo the edit; an additive change is a new minor version and a breaking one a new \
                 folder, as wit/README.md says.",
                file.display(),
            );
        }
    }
}

fn set() -> PluginSet {
    let plugin = shared_host().load(&unique("frozen"), &guest("frozen"), None, &settings(json!({}))).unwrap();
    assert_eq!(plugin.contracts(), [Contract::AuxiliaryFile, Contract::RenderedOutput, Contract::TemplateFilter]);
    let scope = |files: &[&str], data: &[&str]| ValidatorScope {
        files: files.iter().map(|&glob| glob.to_owned()).collect(),
        data_files: data.iter().map(|&glob| glob.to_owned()).collect(),
    };
    let validators = vec![scope(&["general/*"], &[]), scope(&["general/*"], &["maps/*"])];
    PluginSet::new(vec![PluginUse { plugin, validators }]).unwrap()
}

#[test]
fn a_guest_of_the_first_release_checks_files() {
    let reports = set().validate_auxiliary(&files([("general/a", "one\n two\tthree\n"), ("maps/b", "x y\n")]), NOW);
    assert_eq!(reports.len(), 2);
    for report in &reports {
        assert_eq!(report.failure, None);
        let error = &report.errors[0];
        assert_eq!((&*error.path, error.line, error.column, &*error.message), ("general/a", 2, 5, "a tab; use spaces"));
    }
    assert_eq!(reports[0].warnings[0].message, format!("no data files at {}", NOW.0));
    assert_eq!(reports[1].warnings, []);
}

#[test]
fn a_guest_of_the_first_release_checks_the_output() {
    let config = "frontend f\n  errorfile 503 general/a\n";
    let reports = set().validate_output(&files([("haproxy.cfg", config), ("general/a", ""), ("maps/b", "")]), NOW);
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].failure, None);
    let blamed: Vec<_> = reports[0].errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(blamed, ["maps/b"]);
}

#[test]
fn a_guest_of_the_first_release_filters() {
    let set = set();
    assert_eq!(set.declared()[0].name, "arguments");
    let mut session = set.session();
    let named = [("n".to_owned(), "true".to_owned())];
    let call = FilterCall { filter: "arguments", value: "1", positional: &["\"two\"".to_owned()], named: &named };
    assert_eq!(session.call(call).unwrap(), r#"[1,"two",{"n":true}]"#);
    let refused = session.call(FilterCall { value: "null", ..call }).unwrap_err();
    assert!(matches!(refused, FilterError::Refused { message, .. } if message == "there is no value"));
}
