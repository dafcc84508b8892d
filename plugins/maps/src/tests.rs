use haptic_plugin_sdk::{Verdict, testing};
use serde_json::{Value, json};

use super::*;

fn report(config: Value, content: &str) -> Report {
    let request = testing::auxiliary_file(testing::file("maps/a.map", content));
    testing::validate_auxiliary_file::<Maps>(config, &request).unwrap_or_else(|error| panic!("{error}"))
}

/// Lines made by `line` from 0 on.
fn lines(count: u32, line: impl Fn(u32) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().join("\n") + "\n"
}

fn matching(name: &str) -> Value {
    json!({ "rules": [{ "files": ["**"], "match": name }] })
}

#[test]
fn cases() {
    testing::check_auxiliary_file_cases::<Maps>(concat!(env!("CARGO_MANIFEST_DIR"), "/cases"));
}

#[test]
fn the_first_hundred_of_many_findings_are_listed() {
    let content = lines(1000, |index| format!("{index}.300.0.1 x"));
    let report = report(matching("ip"), &content);
    assert_eq!(report.errors().len(), 101);
    assert_eq!(report.errors()[100].message, "900 more errors are not listed; correct those above first");
}

#[test]
fn what_stands_in_a_large_file_is_found() {
    let mut content = lines(100_000, |index| format!("host{index}.example backend{index}"));
    content.push_str("host7.example other\n");
    for name in ["str", "beg", "end", "dom"] {
        let report = report(matching(name), &content);
        assert_eq!(report.warnings().len(), 1, "{name}");
        assert_eq!((report.warnings()[0].line, report.warnings()[0].column), (100_001, 1));
    }
}

#[test]
fn all_keys_alike_cost_no_more() {
    let content = "same.example a\n".repeat(20_000);
    for name in ["str", "end", "sub", "dir", "reg", "int", "ip"] {
        let report = report(matching(name), &content);
        assert!(report.warnings().len() + report.errors().len() > 100, "{name}");
    }
}

#[test]
fn long_keys_cost_no_more_than_their_bytes() {
    let key = "a".repeat(5000);
    let content = lines(500, |index| format!("{key}{index} x"));
    for name in ["end", "sub", "dom"] {
        assert_eq!(report(matching(name), &content).verdict(), Verdict::Valid, "{name}");
    }
}
