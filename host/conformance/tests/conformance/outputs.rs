//! Reports and costs of a real run.

use std::fs;

use haptic_conformance::{BenchError, BenchOptions, Project, bench, junit, text};
use haptic_plugins::RUNTIME;

use crate::built::{Folder, guest, only, plugin, root};

#[test]
fn a_run_is_the_same_in_all_outputs() {
    let report = Folder::new(None).run_blessed(&only("co"));
    let text = text(&report);
    let json = serde_json::to_value(&report).unwrap();
    let junit = junit(&report).unwrap();
    let names: Vec<&str> = report.results.iter().map(|result| result.name.as_str()).collect();
    assert_eq!(names, ["config-unknown-field", "config-wrong-types", "control-characters"]);
    for name in names {
        assert!(text.contains(&format!("ok    {name}")) && junit.contains(&format!("<testcase name=\"{name}\"")));
        assert!(json["results"].as_array().unwrap().iter().any(|result| result["name"] == name));
    }
    assert_eq!(json["module"]["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn a_bench_has_a_row_for_everything_that_costs() {
    let folder = root().join("plugins/error-file");
    let project = Project::open_with_module(&folder, &plugin("error-file")).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let options = BenchOptions { input: None, scratch: scratch.path().to_owned() };
    let costs = bench(&project, &options).unwrap();
    let rows: Vec<&str> = costs.rows.iter().map(|row| row.what.as_str()).collect();
    let expected = [
        "compile",
        "load from the cache",
        "start, auxiliary file",
        "check a file, 1 KiB",
        "check a file, 100 KiB",
        "check a file, 1 MiB",
        "check a file, 5 MiB",
    ];
    assert_eq!(rows, expected);
    for row in &costs.rows {
        assert!(row.runs >= 3 && !row.median.is_zero() && row.median <= row.p99, "{row:?}");
    }
    let of_calls = &costs.rows[3..];
    assert!(of_calls.iter().all(|row| row.memory_bytes > Some(0) && row.ended.is_some()), "{of_calls:?}");
    assert_eq!(of_calls[3].ended.as_deref(), Some("error"), "megabytes are no one response");
    assert!(costs.text().contains("check a file, 5 MiB"));

    let input = scratch.path().join("input");
    fs::write(&input, "HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n").unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let options = BenchOptions { input: Some(input), scratch: scratch.path().to_owned() };
    let costs = bench(&project, &options).unwrap();
    let last = costs.rows.last().unwrap();
    assert_eq!((last.what.as_str(), last.ended.as_deref()), ("check a file, 55 B", Some("valid")));
}

#[test]
fn filters_are_measured_new_and_remembered() {
    let folder = Folder::new(None);
    let scratch = tempfile::tempdir().unwrap();
    let options = BenchOptions { input: None, scratch: scratch.path().to_owned() };
    let project = Project { cases: Vec::new(), ..folder.project() };
    let costs = bench(&project, &options).unwrap();
    let of = |what: &str| costs.rows.iter().find(|row| row.what == what).unwrap();
    let (new, again) = (of("filter join (a plain call), new"), of("filter join (a plain call), again"));
    assert!(again.median <= new.median, "{}", costs.text());
    assert_eq!(new.ended.as_deref(), Some("answered"));
}

#[test]
fn an_input_is_for_validators() {
    let scratch = tempfile::tempdir().unwrap();
    let project = Project::of_module(&plugin("network"));
    let options = BenchOptions { input: Some(guest("fallible")), scratch: scratch.path().to_owned() };
    assert!(matches!(bench(&project, &options), Err(BenchError::NoValidator)));
}

#[test]
fn the_runtime_is_named_as_it_is_locked() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let (_, after) = lock.split_once("name = \"wasmtime\"\nversion = \"").unwrap();
    let (version, _) = after.split_once('"').unwrap();
    assert_eq!(RUNTIME, format!("wasmtime {version}"));
}
