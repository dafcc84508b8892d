//! Guests that break every rule: each is stopped within its limit, named and counted, and the others go on.

use std::{sync::Arc, time::Instant};

use haptic_model::ports::{
    FilterCall, FilterError, FilterSession, OutputValidators as _, PluginFailureKind, PluginReport,
    TemplateFilters as _,
};
use haptic_plugins::{Limits, LoadErrorReason, LoadedPlugin, PluginSettings};
use serde_json::json;

use crate::built::{
    HURRIED, LIMITS, NOW, SLACK, check_file, files, guest, host, hurried, load_fault, set_of, settings, shared_host,
};

const TIMEOUT: PluginFailureKind = PluginFailureKind::Timeout { limit_ms: 500 };

fn load(fault: &str) -> Arc<LoadedPlugin> {
    load_fault(fault, &settings(json!({ "on_call": fault })))
}

fn commit(fault: &str) -> (PluginReport, Arc<LoadedPlugin>) {
    let plugin = load(fault);
    let started = Instant::now();
    let report = check_file(&set_of([Arc::clone(&plugin)]), "general/a", "one\ntwo\n");
    let elapsed = started.elapsed();
    assert!(elapsed < LIMITS.timeout + SLACK, "{fault} took {elapsed:?}");
    (report, plugin)
}

fn failure(fault: &str) -> (PluginFailureKind, Arc<LoadedPlugin>) {
    failure_of(fault, commit(fault))
}

/// A fault that never ends is stopped by the timeout.
fn assert_timeout(fault: &str) {
    let plugin = load_fault(fault, &hurried(json!({ "on_call": fault })));
    let started = Instant::now();
    let report = check_file(&set_of([Arc::clone(&plugin)]), "general/a", "one\ntwo\n");
    let elapsed = started.elapsed();
    assert!((HURRIED.timeout..HURRIED.timeout + SLACK).contains(&elapsed), "{fault} took {elapsed:?}");
    let (kind, plugin) = failure_of(fault, (report, plugin));
    assert_eq!(kind, TIMEOUT, "{fault}");
    assert_eq!(plugin.counter().timeouts, 1);
}

fn failure_of(
    fault: &str,
    (report, plugin): (PluginReport, Arc<LoadedPlugin>),
) -> (PluginFailureKind, Arc<LoadedPlugin>) {
    let failure = report.failure.clone().unwrap_or_else(|| panic!("{fault} was believed: {report:?}"));
    assert_eq!(&failure.plugin, plugin.name());
    assert!(report.stops() && report.errors.is_empty() && report.warnings.is_empty());
    let counter = plugin.counter();
    assert_eq!((counter.calls, counter.failures), (1, 1), "{fault}");
    (failure.kind, plugin)
}

#[test]
fn a_looping_validator_is_stopped_by_its_timeout() {
    assert_timeout("loop");
}

#[test]
fn a_memory_hog_is_stopped_by_its_memory_limit() {
    let (kind, plugin) = failure("memory-hog");
    assert_eq!(kind, PluginFailureKind::MemoryLimit { limit_bytes: 16 << 20 });
    assert_eq!(plugin.counter().memory_denials, 1);
}

#[test]
fn a_contradictory_verdict_is_no_verdict() {
    assert_contract("contradictory-verdict", "the verdict `valid` contradicts 1 errors");
}

#[test]
fn every_verdict_that_contradicts_its_lists_is_refused() {
    let (none, one): (&[[u32; 2]], &[[u32; 2]]) = (&[], &[[1, 1]]);
    for (verdict, warnings, errors, due) in [
        ("valid", one, none, "which make `warning`"),
        ("valid", none, one, "which make `error`"),
        ("valid", one, one, "which make `error`"),
        ("warning", none, none, "which make `valid`"),
        ("warning", none, one, "which make `error`"),
        ("warning", one, one, "which make `error`"),
        ("error", none, none, "which make `valid`"),
        ("error", one, none, "which make `warning`"),
    ] {
        let told = contract_failure(json!({ "verdict": verdict, "warnings": warnings, "errors": errors }));
        assert!(told.contains(due), "{verdict}: {told}");
    }
    for (verdict, warnings, errors) in [("valid", none, none), ("warning", one, none), ("error", one, one)] {
        let report = answer(json!({ "verdict": verdict, "warnings": warnings, "errors": errors }));
        assert_eq!(report.failure, None, "{verdict}");
        assert_eq!((report.warnings.len(), report.errors.len()), (warnings.len(), errors.len()));
    }
}

#[test]
fn positions_that_no_file_has_are_refused_in_warnings_and_errors() {
    for position in [[0, 1], [0, u32::MAX], [1, 5], [3, 2], [4, 0], [u32::MAX, 0], [u32::MAX, u32::MAX]] {
        let told = contract_failure(json!({ "verdict": "error", "errors": [position] }));
        assert!(told.contains("`general/a`"), "{position:?}: {told}");
        let told = contract_failure(json!({ "verdict": "warning", "warnings": [position] }));
        assert!(told.contains("`general/a`"), "{position:?}: {told}");
    }
    for position in [[0, 0], [1, 0], [1, 4], [3, 0], [3, 1]] {
        assert_eq!(answer(json!({ "verdict": "error", "errors": [position] })).failure, None, "{position:?}");
    }
}

#[test]
fn a_flood_of_findings_is_held_to_the_output_limit() {
    let flood =
        |times: usize| answer(json!({ "verdict": "error", "errors": [[1, 1]], "times": times, "message": "x" }));
    let report = flood(40_000);
    assert_eq!(report.failure.unwrap().kind, PluginFailureKind::OutputLimit { limit_bytes: 1 << 20 });
    let report = flood(10_000);
    assert_eq!((report.failure, report.errors.len()), (None, 10_000));
}

/// What becomes of the report that a guest gives about `one\ntwo\n`.
fn answer(answer: serde_json::Value) -> PluginReport {
    let config = json!({ "on_call": "answer", "answer": answer });
    check_file(&set_of([load_fault("answer", &settings(config))]), "general/a", "one\ntwo\n")
}

fn contract_failure(told: serde_json::Value) -> String {
    match answer(told.clone()).failure.unwrap_or_else(|| panic!("{told} was believed")).kind {
        PluginFailureKind::Contract { message } => message,
        other => panic!("{told}: {other:?}"),
    }
}

#[test]
fn floods_of_output_are_stopped_by_the_timeout_and_kept_nowhere() {
    assert_timeout("output-flood");
    assert_timeout("error-flood");
}

#[test]
fn plugins_that_share_a_module_share_nothing_else() {
    let load = |tag: &str| load_fault(tag, &settings(json!({ "on_call": "tag", "tag": tag, "filters": [tag] })));
    let (red, blue) = (load("red"), load("blue"));
    assert_eq!(red.digest(), blue.digest());
    let set = set_of([Arc::clone(&red), Arc::clone(&blue)]);
    let request = files([("general/a", "one\n"), ("general/b", "two\n")]);
    for _ in 0..2 {
        let reports = set.validate_auxiliary(&request, NOW);
        let told: Vec<_> = reports.iter().map(|report| report.errors[0].message.as_str()).collect();
        // Each call has an instance of its own, so none was asked before.
        assert_eq!(told, ["red 1", "red 1", "blue 1", "blue 1"]);
    }
    let mut session = set.session();
    let mut call =
        |filter: &str, value: &str| session.call(FilterCall { filter, value, positional: &[], named: &[] }).unwrap();
    // A filter's instance lives as long as the render, but only for its own plugin.
    assert_eq!(call("red", "\"now\""), "\"red 1\"");
    assert_eq!(call("blue", "\"now\""), "\"blue 1\"");
    assert_eq!((red.counter().calls, blue.counter().calls), (5, 5));
}

#[test]
fn a_position_outside_the_file_is_no_position() {
    assert_contract("position-outside-file", "line 4 of `general/a`");
    assert_contract("column-outside-line", "column 1000000 of `general/a` line 1");
}

#[test]
fn a_file_that_was_not_in_the_request_cannot_be_blamed() {
    assert_contract("unknown-path", "`/etc/passwd`, which was not in the request");
}

#[test]
fn a_finding_needs_words() {
    assert_contract("empty-message", "no message");
}

#[test]
fn an_answer_that_is_no_text_is_no_answer() {
    assert_contract("invalid-utf8", "utf-8");
}

fn assert_contract(fault: &str, words: &str) {
    match failure(fault).0 {
        PluginFailureKind::Contract { message } => assert!(message.contains(words), "{fault}: {message}"),
        other => panic!("{fault}: {other:?}"),
    }
}

#[test]
fn a_huge_answer_is_stopped_by_the_output_limit() {
    assert_eq!(failure("huge-output").0, PluginFailureKind::OutputLimit { limit_bytes: 1 << 20 });
}

#[test]
fn a_panic_is_told_in_its_own_words() {
    let (kind, plugin) = failure("panic");
    assert!(matches!(&kind, PluginFailureKind::Trap { message } if message.contains("I give up")), "{kind:?}");
    assert_eq!(plugin.counter().traps, 1);
}

#[test]
fn an_exit_ends_the_call_and_not_the_host() {
    let (kind, _) = failure("exit");
    assert!(matches!(&kind, PluginFailureKind::Trap { message } if message.contains("exit")), "{kind:?}");
}

#[test]
fn endless_recursion_is_stopped() {
    let (kind, _) = failure("recursion");
    assert!(matches!(kind, PluginFailureKind::Trap { .. } | PluginFailureKind::StackLimit), "{kind:?}");
}

#[test]
fn a_sleep_does_not_wait() {
    let (report, _) = commit("sleep");
    assert_eq!(report.failure, None);
    assert!(report.elapsed < LIMITS.timeout, "{:?}", report.elapsed);
}

#[test]
fn waiting_for_a_clock_that_stands_still_is_stopped_by_the_timeout() {
    assert_timeout("wait-for-clock");
}

#[test]
fn reading_without_end_is_stopped_by_the_input_limit() {
    let plugin = load("read-forever");
    let content = "x".repeat(1 << 20);
    let report = check_file(&set_of([plugin]), "general/a", &content);
    let kind = report.failure.unwrap().kind;
    // `validate` itself reads once more than the loop that meets the limit.
    assert_eq!(kind, PluginFailureKind::InputLimit { limit_bytes: 4 << 20, bytes: 5 << 20 });
}

#[test]
fn a_flood_of_notes_is_stopped_by_the_timeout() {
    assert_timeout("log-flood");
}

#[test]
fn many_notes_are_dropped_and_harm_nothing() {
    assert_eq!(commit("many-notes").0.failure, None);
}

#[test]
fn a_guest_finds_no_files_environment_arguments_input_or_clock() {
    assert_eq!(commit("snoop").0.failure, None);
}

#[test]
fn a_plugin_that_cannot_answer_is_a_failure_in_its_own_words() {
    let message = "the moon is in the wrong house".to_owned();
    assert_eq!(failure("error").0, PluginFailureKind::Reported { message });
}

#[test]
fn the_rendered_output_contract_has_the_same_limits() {
    let set = set_of([load_fault("loop", &hurried(json!({ "on_call": "loop" })))]);
    let reports = set.validate_output(&files([("haproxy.cfg", "global\n")]), NOW);
    assert_eq!(reports[0].failure.as_ref().unwrap().kind, TIMEOUT);
}

#[test]
fn hostile_guests_do_not_keep_the_others_from_answering() {
    // A host of its own, because the plugins have the names that are looked for.
    let host = host();
    let load = |fault: &str| {
        let config = json!({ "on_call": fault, "filters": [] });
        host.load(fault, &guest("fault"), None, &hurried(config)).unwrap()
    };
    let honest = host.load("honest", &guest("fault"), None, &settings(json!({}))).unwrap();
    let set = set_of([load("loop"), load("memory-hog"), honest, load("panic")]);
    let reports = set.validate_auxiliary(&files([("general/a", "one\n")]), NOW);
    let failed: Vec<_> = reports.iter().map(|report| (&*report.plugin, report.failure.is_some())).collect();
    assert_eq!(failed, [("loop", true), ("memory-hog", true), ("honest", false), ("panic", true)]);
    let counters = set.counters();
    assert_eq!(counters["loop"].timeouts, 1);
    assert_eq!(counters["honest"].failures, 0);
}

#[test]
fn limits_hold_while_a_plugin_is_configured() {
    for (fault, limit) in [("loop", TIMEOUT), ("memory-hog", PluginFailureKind::MemoryLimit { limit_bytes: 16 << 20 })]
    {
        let loaded = shared_host().load("p", &guest("fault"), None, &hurried(json!({ "on_configure": fault })));
        match loaded.unwrap_err().reason {
            LoadErrorReason::Start(kind) => assert_eq!(kind, limit),
            other => panic!("{fault}: {other:?}"),
        }
    }
}

#[test]
fn memory_below_what_the_module_begins_with_is_told_as_the_limit() {
    let limits = Limits { memory_bytes: 64 << 10, ..LIMITS };
    let settings = PluginSettings { limits, ..PluginSettings::default() };
    match shared_host().load("p", &guest("fault"), None, &settings).unwrap_err().reason {
        LoadErrorReason::Start(kind) => assert_eq!(kind, PluginFailureKind::MemoryLimit { limit_bytes: 64 << 10 }),
        other => panic!("{other:?}"),
    }
}

fn echo(session: &mut dyn FilterSession, value: &str) -> Result<String, FilterError> {
    session.call(FilterCall { filter: "echo", value, positional: &[], named: &[] })
}

fn filter_failure(fault: &str) -> PluginFailureKind {
    filter_failure_under(fault, &settings(json!({ "on_call": fault })))
}

fn filter_failure_under(fault: &str, settings: &PluginSettings) -> PluginFailureKind {
    let set = set_of([load_fault(fault, settings)]);
    let mut session = set.session();
    assert_eq!(echo(&mut *session, "1").unwrap(), "1");
    let started = Instant::now();
    let failed = echo(&mut *session, "\"now\"").unwrap_err();
    assert!(started.elapsed() < settings.limits.timeout + SLACK, "{fault} took {:?}", started.elapsed());
    // The broken instance is gone and a new one answers.
    assert_eq!(echo(&mut *session, "2").unwrap(), "2");
    match failed {
        FilterError::Failed(failure) => {
            assert!(failure.plugin.starts_with(fault), "{failure}");
            failure.kind
        }
        FilterError::Refused { .. } => panic!("{fault}: {failed:?}"),
    }
}

#[test]
fn hostile_filters_are_stopped_and_the_session_goes_on() {
    assert_eq!(filter_failure_under("loop", &hurried(json!({ "on_call": "loop" }))), TIMEOUT);
    assert_eq!(filter_failure("memory-hog"), PluginFailureKind::MemoryLimit { limit_bytes: 16 << 20 });
    assert_eq!(filter_failure("huge-output"), PluginFailureKind::OutputLimit { limit_bytes: 1 << 20 });
    assert!(matches!(filter_failure("panic"), PluginFailureKind::Trap { .. }));
    assert!(matches!(filter_failure("not-json"), PluginFailureKind::Contract { .. }));
    assert!(matches!(filter_failure("invalid-utf8"), PluginFailureKind::Contract { .. }));
    assert!(matches!(filter_failure("error"), PluginFailureKind::Reported { .. }));
}

#[test]
fn arguments_over_the_input_limit_never_reach_a_filter() {
    let set = set_of([load("none")]);
    let value = format!("\"{}\"", "x".repeat(5 << 20));
    match echo(&mut *set.session(), &value).unwrap_err() {
        FilterError::Failed(failure) => {
            let bytes = value.len() as u64;
            assert_eq!(failure.kind, PluginFailureKind::InputLimit { limit_bytes: 4 << 20, bytes });
        }
        FilterError::Refused { .. } => panic!("a limit is no fault of the data"),
    }
}
