//! Every plugin that comes with haptic passes.

use std::{fs, time::Duration};

use haptic_conformance::{Project, Status, run, text};

use crate::built::{plugin, quick, root};

#[test]
fn every_first_party_plugin_passes() {
    let folders = fs::read_dir(root().join("plugins")).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> = folders.filter(|path| path.join("cases").is_dir()).collect();
    folders.sort();
    assert!(folders.len() >= 3, "{folders:?}");
    let mut wrong = Vec::new();
    for folder in folders {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let module = plugin(name);
        if !module.is_file() {
            wrong.push(format!("{name}: plugins/build.sh builds no {name}.wasm"));
            continue;
        }
        let mut project = Project::open_with_module(&folder, &module).unwrap();
        // A deadline is wall-clock time, and tests run beside each other: how long calls take is for `make bench`.
        project.limits.timeout = project.limits.timeout.max(Duration::from_secs(2));
        assert!(!project.cases.is_empty());
        let report = run(&project, &quick()).unwrap();
        // First-party plugins are examples: what is only worth a look in others is a fault here.
        let looks_odd = |result: &haptic_conformance::CheckResult| {
            result.status == Status::Failed || (result.status == Status::Warned && result.name.starts_with("config"))
        };
        if report.results.iter().any(looks_odd) {
            wrong.push(text(&report));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
