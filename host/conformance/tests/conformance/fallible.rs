//! A harness that cannot fail is worth nothing: each mistake is found, by the check that is for it.

use std::fs;

use haptic_conformance::{CHECKS, Project, Report, Status, run, text};

use crate::built::{Folder, guest, only, quick, said};

/// Checks that no guest can fail: what they look for is prevented by the host, whose own tests show that it is; or the
/// comparison is shown in their unit tests.
const NEVER_BY_A_GUEST: [&str; 6] = ["generation", "repeat", "order", "parallel", "cancellation", "time"];

/// The mistake, the check that finds it, how, and what it says.
const MISTAKES: [(&str, &str, Status, &str); 24] = [
    ("ignore-unknown-field", "config-unknown-field", Status::Warned, "deny_unknown_fields"),
    ("trap-on-config", "config-wrong-types", Status::Failed, "weight is no number"),
    ("always-valid", "verdict", Status::Failed, "the verdict is `valid`, but 1 errors and 1 warnings make `error`"),
    ("count-line-ends-twice", "positions", Status::Failed, "past the last"),
    ("count-line-ends-twice", "line-ends", Status::Failed, "answered against its contract"),
    ("echo-bytes", "messages", Status::Failed, "'\\r' in its message"),
    ("add-to-clock", "clock", Status::Failed, "`now` 18446744073709551615: the plugin trapped"),
    ("loop-on-empty", "empty-input", Status::Failed, "with nothing in it: the plugin ran longer than its limit"),
    ("trap-on-one-byte", "one-byte", Status::Failed, "as the one byte 0x00: the plugin trapped"),
    ("trap-on-not-utf8", "not-utf8", Status::Failed, "with 0xff 0xfe in front: the plugin trapped"),
    ("trap-on-nul", "control-characters", Status::Failed, "with NUL in front: the plugin trapped"),
    ("recurse-by-byte", "long-line", Status::Failed, "as one line of a megabyte"),
    ("trap-on-cut", "truncated", Status::Failed, "bytes: the plugin trapped"),
    ("trap-on-no-number", "bit-flips", Status::Failed, "flipped: the plugin trapped"),
    ("trap-on-duplicate", "duplicated", Status::Failed, "twice: the plugin trapped"),
    ("need-data", "data-files-absent", Status::Failed, "without any of its data files: the plugin trapped"),
    ("trap-on-large", "huge-input", Status::Failed, "repeated to 335"),
    ("trap-on-large", "over-input-limit", Status::Failed, "the plugin trapped"),
    ("hoard", "memory", Status::Warned, "a larger file or a busier machine will meet the limit"),
    ("no-docs", "filter-declarations", Status::Failed, "`join` says nothing in `doc`"),
    ("count-calls", "filter-purity", Status::Failed, "called twice in one instance gave another answer"),
    ("answer-anything", "filter-unknown-name", Status::Failed, "`no_such_filter_in_any_plugin` was answered"),
    ("trap-on-not-json", "filter-not-json", Status::Failed, "a value that is no JSON: the plugin trapped"),
    ("recurse-in-json", "filter-deep-json", Status::Failed, "a list in a list"),
];

/// More than one way to fail one check.
const ARGUMENTS: [(&str, Status, &str); 3] = [
    ("trap-on-arguments", Status::Failed, "the plugin trapped"),
    ("fail-on-arguments", Status::Failed, "fails the whole render"),
    ("ignore-surplus", Status::Warned, "answers as if nothing were wrong"),
];

#[test]
fn a_plugin_without_a_mistake_passes_every_check() {
    let report = Folder::new(None).run_blessed(&quick());
    let odd: Vec<_> = report
        .results
        .iter()
        .filter(|result| result.status != Status::Passed)
        .map(|result| (result.name.as_str(), result.status))
        .collect();
    // It exports the rendered-output contract too, and has no case for it.
    assert_eq!(odd, [("cases", Status::Warned)], "{}", text(&report));
}

#[test]
fn each_mistake_is_found_by_the_check_that_is_for_it() {
    let mut wrong = Vec::new();
    let arguments = ARGUMENTS.map(|(mistake, status, says)| (mistake, "filter-arguments", status, says));
    for (mistake, check, status, says) in MISTAKES.into_iter().chain(arguments) {
        let folder = Folder::new(Some(mistake));
        let report = run(&folder.project(), &only(check)).unwrap();
        let (ended, told) = said(&report, check);
        if ended != status || !told.contains(says) {
            wrong.push(format!("`{mistake}`: {check} {ended:?}: {told}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_check_is_shown_to_fail_or_listed_as_one_that_no_guest_can() {
    let shown = MISTAKES.iter().map(|(_, check, ..)| *check).chain(["filter-arguments", "loads", "imports", "cases"]);
    let mut covered: Vec<&str> = shown.chain(NEVER_BY_A_GUEST).collect();
    covered.sort_unstable();
    covered.dedup();
    let mut checks: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
    checks.sort_unstable();
    assert_eq!(covered, checks);
}

#[test]
fn what_does_not_load_is_told_and_nothing_else_is_tried() {
    let folder = Folder::new(None);
    let core = folder.path.path().join("core.wasm");
    fs::write(&core, b"\0asm\x01\0\0\0").unwrap();
    let check = |module: &std::path::Path| -> Report {
        run(&Project::open_with_module(folder.path.path(), module).unwrap(), &quick()).unwrap()
    };
    let report = check(&core);
    let (ended, told) = said(&report, "loads");
    assert!(ended == Status::Failed && told.contains("a core module and not a component"), "{told}");
    assert_eq!(said(&report, "empty-input"), (Status::Skipped, "the plugin does not load".to_owned()));
    assert!(!report.passed() && report.module.is_none());

    let report = check(&guest("foreign-import"));
    let (ended, told) = said(&report, "imports");
    assert!(ended == Status::Failed && told.contains("which no plugin may"), "{told}");
    assert_eq!(said(&report, "loads").0, Status::Failed);
}

/// It exports the rendered-output contract too, about which there is no case.
#[test]
fn what_no_case_asks_is_asked_with_a_config_that_the_plugin_takes() {
    let folder = Folder::new(None);
    folder.write("plugin.yaml", "name: fallible\nlanguage: rust\nlimits: { timeout: 400ms }\nconfig: { weight: no }\n");
    let report = run(&folder.project(), &only("repeat")).unwrap();
    assert_eq!(said(&report, "repeat").0, Status::Passed, "{}", text(&report));
}

#[test]
fn a_project_that_says_pure_must_be() {
    let folder = Folder::new(None);
    folder.write("plugin.yaml", "name: fallible\nlanguage: rust\npure: true\n");
    let report = run(&folder.project(), &only("imports")).unwrap();
    let (ended, told) = said(&report, "imports");
    assert!(ended == Status::Failed && told.contains("plugin.yaml says `pure: true`"), "{told}");
}

#[test]
fn a_deadline_that_is_always_met_fails_every_case_by_name() {
    let folder = Folder::new(Some("loop-on-empty"));
    folder.write("cases/empty/files/maps/a.map", "");
    let case = r#"{"description":"empty","config":{"mistake":"loop-on-empty"},"file":"maps/a.map"}"#;
    folder.write("cases/empty/case.json", case);
    let report = run(&folder.project(), &only("empty")).unwrap();
    let (ended, told) = said(&report, "empty");
    assert!(ended == Status::Failed && told.contains("ran longer than its limit of 400 ms"), "{told}");
}
