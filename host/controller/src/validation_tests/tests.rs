#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeMap, sync::Arc};

use haptic_api::ValidationTest;
use haptic_model::ports::Now;
use haptic_plugins::PluginSet;
use haptic_render::Renderer;
use serde_json::{Value, json};

use crate::{
    check::{Answer, Cancellation},
    config::Candidate,
    testing::{ScriptedCheck, candidate, passed, refused_at},
    validation_tests::{GLOBAL_TEST, TestResults, TestRun, TestSelection},
};

const TEMPLATE: &str =
    "global\n# first {{ resources.services.list() | length }}\n# second\n# {{ tier | default('none') }}\n";

#[test]
fn every_type_of_assertion_passes_and_fails_for_its_own_reason() {
    let cases = [
        (json!({ "type": "contains", "pattern": "first \\d" }), None),
        (json!({ "type": "contains", "pattern": "third" }), Some("is not found")),
        (json!({ "type": "not_contains", "pattern": "third" }), None),
        (json!({ "type": "not_contains", "pattern": "second" }), Some("is found in line 3")),
        (json!({ "type": "equals", "expected": "global\n  # first 1\n  # second\n  # none\n" }), None),
        (json!({ "type": "equals", "expected": "global\n  # first 2\n" }), Some("line 2 is `  # first 1`")),
        (json!({ "type": "match_count", "pattern": "^ +#", "expected": 3 }), None),
        (json!({ "type": "match_count", "pattern": "^ +#", "expected": "3" }), None),
        (json!({ "type": "match_count", "pattern": "^ +#", "expected": 4 }), Some("is found 3 times, not 4")),
        (json!({ "type": "match_order", "patterns": ["first", "second"] }), None),
        (json!({ "type": "match_order", "patterns": ["second", "first"] }), Some("stands before")),
        (json!({ "type": "jsonpath", "jsonpath": "{.resources.services[0].metadata.name}", "expected": "web" }), None),
        (
            json!({ "type": "jsonpath", "jsonpath": ".resources.services[0].metadata.name", "expected": "x" }),
            Some("is expected"),
        ),
        (json!({ "type": "jsonpath", "jsonpath": ".resources.absent" }), Some("leads nowhere")),
        (json!({ "type": "deterministic" }), None),
        (json!({ "type": "haproxy_valid" }), None),
    ];
    for (assertion, expected) in cases {
        let results = run_one(test(&json!([assertion])), passed());
        let result = &results.tests[0].assertions[0];
        match expected {
            None => assert!(result.passed, "{assertion}: {:?}", result.error),
            Some(words) => {
                let error = result.error.as_deref().unwrap_or_default();
                assert!(!result.passed && error.contains(words), "{assertion}: {error}");
            }
        }
        assert_eq!(results.tests[0].passed, expected.is_none());
    }
}

#[test]
fn what_haproxy_refuses_is_not_valid() {
    let results = run_one(test(&json!([{ "type": "haproxy_valid" }])), refused_at(1));
    let error = results.tests[0].assertions[0].error.as_deref().unwrap();
    assert!(error.contains("unknown keyword `bogus`"), "{error}");
}

#[test]
fn an_unknown_target_is_an_error_and_never_another_text() {
    for target in ["map:absent.map", "haproxy.cgf", "secret:x"] {
        let results = run_one(test(&json!([{ "type": "not_contains", "target": target, "pattern": "x" }])), passed());
        assert!(!results.tests[0].passed, "{target}");
    }
}

#[test]
fn a_render_error_is_what_a_test_may_be_about() {
    let fixtures = json!({ "unknown": [{ "metadata": { "name": "x" } }] });
    let about = json!([{ "type": "contains", "target": "rendering_error", "pattern": "no watched resource" }]);
    let results = run_one(with_fixtures(&fixtures, &about), passed());
    assert!(results.tests[0].passed, "{:?}", results.tests[0]);
    let results = run_one(with_fixtures(&fixtures, &json!([{ "type": "deterministic" }])), passed());
    assert!(!results.tests[0].passed);
    let none = run_one(test(&json!([{ "type": "contains", "target": "rendering_error", "pattern": "x" }])), passed());
    assert!(!none.tests[0].passed, "the render did not fail");
}

#[test]
fn the_global_test_is_added_to_every_other_and_is_none_itself() {
    let global = with_fixtures(
        &json!({ "services": [service("web", "global"), service("other", "global")] }),
        &json!([{ "type": "contains", "pattern": "first 2" }]),
    );
    let own = test(
        &json!([{ "type": "jsonpath", "jsonpath": ".resources.services[1].metadata.labels.from", "expected": "own" }]),
    );
    let tests =
        BTreeMap::from([(GLOBAL_TEST.to_owned(), global), ("b".to_owned(), own.clone()), ("a".to_owned(), own)]);
    let results = run(tests, passed(), &TestSelection::All);
    let names: Vec<_> = results.tests.iter().map(|test| test.test_name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(results.passed_tests, 2, "{results:?}");
}

#[test]
fn extra_context_of_a_test_wins_and_unknown_names_fail() {
    let mut own = test(&json!([{ "type": "contains", "pattern": "# gold" }]));
    own.extra_context.insert("tier".to_owned(), json!("gold"));
    let selection = TestSelection::Named(vec!["tier".to_owned(), "mistyped".to_owned()]);
    let results = run(BTreeMap::from([("tier".to_owned(), own)]), passed(), &selection);
    assert_eq!((results.passed_tests, results.failed_tests), (1, 1), "{results:?}");
}

#[test]
fn fixtures_stand_in_any_namespace_unless_the_test_asks_for_the_watched_ones() {
    let mut own = test(&json!([{ "type": "contains", "pattern": "first 1" }]));
    let mut narrow = candidate(TEMPLATE);
    narrow.watched.get_mut("services").unwrap().namespaces = vec!["elsewhere".to_owned()];
    narrow.tests = BTreeMap::from([("test".to_owned(), own.clone())]);
    let anywhere = run_all(&narrow, passed(), &TestSelection::All);
    assert_eq!(anywhere.passed_tests, 1, "{anywhere:?}");
    own.use_deployment_watch_scopes = true;
    narrow.tests = BTreeMap::from([("test".to_owned(), own)]);
    let watched = run_all(&narrow, passed(), &TestSelection::All);
    assert_eq!(watched.failed_tests, 1, "{watched:?}");
}

fn service(name: &str, from: &str) -> Value {
    json!({ "metadata": { "namespace": "shop", "name": name, "labels": { "from": from } } })
}

fn test(assertions: &Value) -> ValidationTest {
    with_fixtures(&json!({ "services": [service("web", "own")] }), assertions)
}

fn with_fixtures(fixtures: &Value, assertions: &Value) -> ValidationTest {
    serde_json::from_value(json!({ "fixtures": fixtures, "assertions": assertions })).unwrap()
}

fn run_one(test: ValidationTest, answer: Answer) -> TestResults {
    run(BTreeMap::from([("test".to_owned(), test)]), answer, &TestSelection::All)
}

fn run(tests: BTreeMap<String, ValidationTest>, answer: Answer, selection: &TestSelection) -> TestResults {
    let mut candidate = candidate(TEMPLATE);
    candidate.tests = tests;
    run_all(&candidate, answer, selection)
}

fn run_all(candidate: &Candidate, answer: Answer, selection: &TestSelection) -> TestResults {
    let plugins = Arc::new(PluginSet::new(Vec::new()).unwrap());
    let run = TestRun {
        renderer: Arc::new(Renderer::compile(candidate.templates.clone(), plugins.clone()).unwrap()),
        resources: &candidate.resources().unwrap(),
        candidate,
        plugins,
        check: &*ScriptedCheck::new([answer]),
        haproxy: (3, 2),
        now: Now(0),
        cancelled: &Cancellation::new(),
    };
    run.run(selection)
}
