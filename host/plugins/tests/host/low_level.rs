//! Guests below what a language lets an author write: each of `tests/guests/wat`, its one fault, and what stops it.

use std::{sync::Arc, thread, time::Instant};

use haptic_model::{
    File, FileKind, FilePath,
    ports::{FilterCall, FilterError, OutputValidators as _, PluginFailureKind, TemplateFilters as _},
};
use haptic_plugins::{LoadErrorReason, LoadedPlugin, PluginSettings};
use serde_json::Value;

use crate::{
    built::{HURRIED, LIMITS, NOW, SLACK, check_file, hurried, set_of, settings, shared_host, unique},
    wat,
};

const TIMEOUT: PluginFailureKind = PluginFailureKind::Timeout { limit_ms: 500 };
const MEMORY: PluginFailureKind = PluginFailureKind::MemoryLimit { limit_bytes: 16 << 20 };
const HANDLES: PluginFailureKind = PluginFailureKind::HandleLimit { limit: 4096 };

fn load(guest: &str) -> Arc<LoadedPlugin> {
    load_under(guest, &settings(Value::Null))
}

fn load_under(guest: &str, settings: &PluginSettings) -> Arc<LoadedPlugin> {
    let loaded = shared_host().load(&unique(guest), &wat::component(guest), None, settings);
    loaded.unwrap_or_else(|error| panic!("{guest}: {error}"))
}

/// Why a guest that can be loaded gives no answer to one request.
fn failure(guest: &str) -> PluginFailureKind {
    failure_under(guest, &settings(Value::Null))
}

/// A guest that never ends is stopped by the timeout.
fn assert_timeout(guest: &str) {
    assert_eq!(failure_under(guest, &hurried(Value::Null)), TIMEOUT, "{guest}");
}

fn failure_under(guest: &str, settings: &PluginSettings) -> PluginFailureKind {
    let plugin = load_under(guest, settings);
    let started = Instant::now();
    let report = check_file(&set_of([Arc::clone(&plugin)]), "general/a", "one\n");
    let elapsed = started.elapsed();
    assert!(elapsed < settings.limits.timeout + SLACK, "{guest} took {elapsed:?}");
    let failure = report.failure.unwrap_or_else(|| panic!("{guest} was believed"));
    assert_eq!(&failure.plugin, plugin.name());
    assert!(report.errors.is_empty() && report.warnings.is_empty());
    let counter = plugin.counter();
    assert_eq!((counter.calls, counter.failures), (1, 1), "{guest}");
    failure.kind
}

/// Why a guest cannot be loaded.
fn load_failure(guest: &str) -> PluginFailureKind {
    load_failure_under(guest, &settings(Value::Null))
}

fn load_failure_under(guest: &str, settings: &PluginSettings) -> PluginFailureKind {
    let started = Instant::now();
    let refused = shared_host().load(&unique(guest), &wat::component(guest), None, settings);
    let elapsed = started.elapsed();
    // A plugin with two contracts is tried twice.
    assert!(elapsed < 2 * settings.limits.timeout + SLACK, "{guest} took {elapsed:?}");
    let refused = refused.err().unwrap_or_else(|| panic!("{guest} was loaded"));
    assert!(refused.plugin.starts_with(guest));
    match refused.reason {
        LoadErrorReason::Start(kind) => kind,
        other => panic!("{guest}: {other:?}"),
    }
}

fn filter_failure(guest: &str, settings: &PluginSettings) -> PluginFailureKind {
    let set = set_of([load_under(guest, settings)]);
    let call = FilterCall { filter: "echo", value: "1", positional: &[], named: &[] };
    match set.session().call(call).unwrap_err() {
        FilterError::Failed(failure) => failure.kind,
        FilterError::Refused { .. } => panic!("{guest}: a fault of the plugin is none of the data"),
    }
}

fn assert_contract(guest: &str, words: &str) {
    match failure(guest) {
        PluginFailureKind::Contract { message } => assert!(message.contains(words), "{guest}: {message}"),
        other => panic!("{guest}: {other:?}"),
    }
}

fn assert_trap(guest: &str, words: &str) {
    match failure(guest) {
        PluginFailureKind::Trap { message } => assert!(message.contains(words), "{guest}: {message}"),
        other => panic!("{guest}: {other:?}"),
    }
}

#[test]
fn the_honest_guest_answers() {
    let set = set_of([load("honest")]);
    let report = check_file(&set, "general/a", "one\n");
    assert!(report.failure.is_none() && !report.stops(), "{report:?}");
    let call = FilterCall { filter: "echo", value: "[1]", positional: &[], named: &[] };
    assert_eq!(set.session().call(call).unwrap(), "[1]");
}

#[test]
fn loops_before_the_first_call_are_stopped_by_the_timeout_at_load() {
    for guest in ["loop-in-start", "loop-in-configure", "loop-in-declarations", "loop-in-realloc"] {
        assert_eq!(load_failure_under(guest, &hurried(Value::Null)), TIMEOUT, "{guest}");
    }
}

#[test]
fn loops_in_a_call_are_stopped_by_the_timeout() {
    assert_timeout("loop-in-validate");
    assert_eq!(filter_failure("loop-in-call", &hurried(Value::Null)), TIMEOUT);
}

#[test]
fn a_loop_after_the_answer_is_stopped_and_the_answer_is_lost() {
    assert_timeout("loop-in-post-return");
}

#[test]
fn a_trap_after_the_answer_is_a_failure() {
    assert_trap("trap-after-output", "unreachable");
}

#[test]
fn what_begins_above_the_memory_limit_does_not_begin() {
    for guest in ["memory-minimum", "memory64-minimum", "table-minimum"] {
        assert_eq!(load_failure(guest), MEMORY, "{guest}");
    }
}

#[test]
fn a_table_that_grows_without_end_is_stopped_by_the_memory_limit() {
    assert_eq!(failure("table-bomb"), MEMORY);
}

#[test]
fn a_guest_may_be_refused_memory_and_answer_all_the_same() {
    let plugin = load("memory-bomb");
    let report = check_file(&set_of([Arc::clone(&plugin)]), "general/a", "one\n");
    assert_eq!(report.failure, None);
    let peak = plugin.counter().memory_peak_bytes;
    assert!((15 << 20..=LIMITS.memory_bytes).contains(&peak), "{peak}");
}

#[test]
fn a_component_of_too_many_parts_is_refused_and_the_part_is_named() {
    for (guest, part) in [("many-instances", "module instances"), ("many-memories", "memories")] {
        match load_failure(guest) {
            PluginFailureKind::PartsLimit { message } => assert!(message.contains(part), "{guest}: {message}"),
            other => panic!("{guest}: {other:?}"),
        }
    }
}

#[test]
fn recursion_is_stopped_by_the_depth_limit() {
    assert_eq!(failure("deep-recursion"), PluginFailureKind::StackLimit);
    assert_eq!(filter_failure("deep-recursion", &settings(Value::Null)), PluginFailureKind::StackLimit);
    assert_eq!(failure("deep-recursion-into-the-host"), PluginFailureKind::StackLimit);
}

#[test]
fn recursion_is_stopped_on_a_thread_with_less_stack_than_the_limit() {
    for guest in ["deep-recursion", "deep-recursion-into-the-host"] {
        let small = thread::Builder::new().stack_size(256 << 10);
        let failed = small.spawn(move || failure(guest)).unwrap().join().unwrap();
        assert_eq!(failed, PluginFailureKind::StackLimit, "{guest}");
    }
}

#[test]
fn pointers_and_lengths_that_lie_are_found_out() {
    assert_contract("lying-length", "out of bounds");
    assert_contract("lying-string", "out of bounds");
    assert_contract("unaligned-list", "not aligned");
    assert_contract("answer-out-of-bounds", "out of bounds");
    assert_contract("note-out-of-bounds", "out of bounds");
    match load_failure("realloc-out-of-bounds") {
        PluginFailureKind::Contract { message } => assert!(message.contains("realloc"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_that_a_type_does_not_have_are_found_out() {
    assert_contract("no-such-verdict", "discriminant");
    assert_contract("no-such-level", "discriminant");
}

#[test]
fn handles_that_were_not_given_open_nothing() {
    assert_contract("use-after-drop", "unknown handle");
    assert_contract("double-drop", "unknown handle");
    assert_contract("forged-handle", "unknown handle");
    assert_contract("handle-of-another-type", "handle");
}

#[test]
fn floods_of_handles_are_stopped_by_the_handle_limit() {
    assert_eq!(failure("handle-flood"), HANDLES);
    assert_eq!(failure("resource-flood"), HANDLES);
    assert_eq!(failure("poll-too-many"), HANDLES);
}

#[test]
fn handles_that_are_given_back_are_not_counted() {
    let report = check_file(&set_of([load("handle-churn")]), "general/a", "one\n");
    assert_eq!(report.failure, None);
}

#[test]
fn many_files_leave_as_many_handles_as_few_do() {
    let plugin = load("honest");
    let files = (0..6000).map(|number| {
        let path = FilePath::new(&format!("general/{number}")).unwrap();
        (path.clone(), File::new(path, FileKind::General, "x\n".to_owned()))
    });
    let scope = haptic_plugins::ValidatorScope {
        files: vec!["general/0".to_owned()],
        data_files: vec!["general/?*[1-9]".to_owned(), "general/?*0".to_owned()],
    };
    let used = haptic_plugins::PluginUse { plugin, validators: vec![scope] };
    let set = haptic_plugins::PluginSet::new(vec![used]).unwrap();
    let reports = set.validate_auxiliary(&files.collect(), NOW);
    assert_eq!(reports.iter().filter(|report| report.path == "general/0").count(), 1);
    assert!(reports.iter().all(|report| report.failure.is_none()));
}

#[test]
fn handles_that_a_guest_keeps_end_with_its_call() {
    let set = set_of([load("keeps-its-files")]);
    let path = FilePath::new("general/a").unwrap();
    let file = File::new(path.clone(), FileKind::General, "one\n".repeat(1000));
    let files = haptic_model::FileSet::from([(path.clone(), file)]);
    for _ in 0..50 {
        assert_eq!(set.validate_auxiliary(&files, NOW)[0].failure, None);
    }
    assert!(files[&path].content.is_unique(), "the host still holds what a guest kept");
}

#[test]
fn waiting_takes_no_time_and_waiting_for_ever_is_stopped_by_the_timeout() {
    assert_timeout("block-for-ever");
    assert_timeout("poll-many");
    assert_contract("poll-nothing", "empty list");
}

#[test]
fn more_random_bytes_than_there_are_memory_are_refused() {
    assert!(matches!(failure("random-flood"), PluginFailureKind::Contract { .. }));
}

#[test]
fn a_note_longer_than_an_answer_may_be_is_not_read() {
    assert_eq!(failure("huge-note"), PluginFailureKind::OutputLimit { limit_bytes: 1 << 20 });
}

#[test]
fn a_timeout_counts_from_before_the_start_function() {
    let started = Instant::now();
    assert_eq!(load_failure_under("loop-in-start", &hurried(Value::Null)), TIMEOUT);
    assert!(started.elapsed() >= HURRIED.timeout, "{:?}", started.elapsed());
}
