//! The runner for `spec.validationTests`: fixtures in, assertions about the render out. The load gate and
//! `haptic validate` call it and say the same.
//!
//! Tests run beside each other; results are in the order of their names. The test `_global` is none: its fixtures and
//! assertions are added to every other test. Blocks.

mod assertion;
mod fixtures;

use std::{
    collections::BTreeMap,
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use haptic_api::{AssertionType, ValidationTest};
use haptic_model::{Finding, FindingCode, ports::Now};
use haptic_plugins::PluginSet;
use haptic_render::Renderer;
use haptic_store::WatchedResource;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use crate::{
    check::{Cancellation, ConfigCheck},
    config::Candidate,
    validation_tests::{assertion::Subject, fixtures::prepare},
};

/// Its fixtures and assertions are added to every other test.
pub const GLOBAL_TEST: &str = "_global";
/// Tests that run beside each other at most.
const MAX_WORKERS: usize = 8;

/// Everything that the tests of one candidate need.
pub struct TestRun<'a> {
    pub candidate: &'a Candidate,
    pub renderer: Arc<Renderer>,
    pub resources: &'a [WatchedResource],
    pub plugins: Arc<PluginSet>,
    pub check: &'a dyn ConfigCheck,
    pub haproxy: (u16, u16),
    pub now: Now,
    pub cancelled: &'a Cancellation,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestSelection {
    All,
    Named(Vec<String>),
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestResults {
    pub total_tests: usize,
    pub passed_tests: usize,
    pub failed_tests: usize,
    #[serde(serialize_with = "seconds")]
    pub duration: Duration,
    /// By name.
    pub tests: Vec<TestResult>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestResult {
    pub test_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub passed: bool,
    #[serde(serialize_with = "seconds")]
    pub duration: Duration,
    /// What the pipeline said when the render failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub render_error: Option<String>,
    pub assertions: Vec<AssertionResult>,
    /// What was rendered, by path; certificates by name only.
    #[serde(skip)]
    pub rendered: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AssertionResult {
    #[serde(rename = "type")]
    pub kind: AssertionType,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub passed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Bytes of the target, if it is a rendered text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_size: Option<usize>,
    /// Its first characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_preview: Option<String>,
}

// === impl TestRun ===

impl TestRun<'_> {
    pub fn run(&self, selection: &TestSelection) -> TestResults {
        let began = Instant::now();
        let global = self.candidate.tests.get(GLOBAL_TEST);
        let selected: Vec<_> = self
            .candidate
            .tests
            .iter()
            .filter(|(name, _)| *name != GLOBAL_TEST && selection.takes(name))
            .map(|(name, test)| (name.as_str(), prepare(test, global)))
            .collect();
        let mut tests = self.run_all(&selected);
        tests.extend(selection.unknown(&self.candidate.tests));
        tests.sort_by(|a, b| a.test_name.cmp(&b.test_name));
        let passed_tests = tests.iter().filter(|test| test.passed).count();
        TestResults {
            total_tests: tests.len(),
            passed_tests,
            failed_tests: tests.len() - passed_tests,
            duration: began.elapsed(),
            tests,
        }
    }

    fn run_all(&self, tests: &[(&str, ValidationTest)]) -> Vec<TestResult> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::with_capacity(tests.len()));
        let work = || {
            while let Some((name, test)) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = self.run_one(name, test);
                results.lock().push(result);
            }
        };
        thread::scope(|scope| {
            for _ in 1..tests.len().min(cores).min(MAX_WORKERS) {
                scope.spawn(work);
            }
            work();
        });
        results.into_inner()
    }

    fn run_one(&self, name: &str, test: &ValidationTest) -> TestResult {
        let began = Instant::now();
        let subject = Subject::render(self, test);
        let assertions: Vec<_> = test.assertions.iter().map(|assertion| subject.judge(assertion)).collect();
        let render_error = subject.render_error();
        // A render error is what a test may be about: then it passes if every assertion about it does.
        let expected = test.assertions.iter().any(|assertion| assertion.target.as_deref() == Some("rendering_error"));
        let failed_render = render_error.is_some() && !expected;
        TestResult {
            test_name: name.to_owned(),
            description: test.description.clone(),
            passed: !failed_render && !assertions.is_empty() && assertions.iter().all(|result| result.passed),
            duration: began.elapsed(),
            render_error: render_error.or_else(|| assertions.is_empty().then(|| "it asserts nothing".to_owned())),
            assertions,
            rendered: subject.texts(),
        }
    }
}

// === impl TestSelection ===

impl TestSelection {
    fn takes(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.iter().any(|wanted| wanted == name),
        }
    }

    /// A name that no test has fails, or a mistyped `--test` would pass.
    fn unknown(&self, tests: &BTreeMap<String, ValidationTest>) -> Vec<TestResult> {
        let Self::Named(names) = self else { return Vec::new() };
        let unknown = names.iter().filter(|name| !tests.contains_key(*name) || *name == GLOBAL_TEST);
        unknown
            .map(|name| TestResult {
                test_name: name.clone(),
                description: None,
                passed: false,
                duration: Duration::ZERO,
                render_error: Some("there is no test of this name".to_owned()),
                assertions: Vec::new(),
                rendered: BTreeMap::new(),
            })
            .collect()
    }
}

// === impl TestResults ===

impl TestResults {
    /// One finding for each failed test.
    pub fn failures(&self) -> impl Iterator<Item = Finding> {
        self.tests.iter().filter(|test| !test.passed).map(|test| {
            let first = test.assertions.iter().find(|assertion| !assertion.passed);
            let said = match (first, &test.render_error) {
                (Some(assertion), _) => assertion.error.clone().unwrap_or_default(),
                (None, Some(error)) => error.clone(),
                (None, None) => String::new(),
            };
            let message = format!("the validation test `{}` fails: {said}", test.test_name);
            Finding::error(FindingCode::ConfigInvalid, message)
                .hint("see it with `haptic validate --test`, and correct the template or the test")
        })
    }
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

#[cfg(test)]
mod tests;
