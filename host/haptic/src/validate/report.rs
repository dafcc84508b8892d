//! Results of validation tests as text and JUnit.

use std::{fmt::Write as _, time::Duration};

use haptic_controller::validation_tests::{TestResult, TestResults};

pub(super) fn none() -> TestResults {
    TestResults { total_tests: 0, passed_tests: 0, failed_tests: 0, duration: Duration::ZERO, tests: Vec::new() }
}

pub(super) fn text(results: &TestResults) -> String {
    let mut text = String::new();
    for test in &results.tests {
        let _ = writeln!(text, "{} {} ({} ms)", mark(test.passed), test.test_name, test.duration.as_millis());
        if test.passed {
            continue;
        }
        for problem in problems(test) {
            let _ = writeln!(text, "    {problem}");
        }
    }
    let _ = writeln!(
        text,
        "{} tests, {} passed, {} failed, in {} ms",
        results.total_tests,
        results.passed_tests,
        results.failed_tests,
        results.duration.as_millis()
    );
    text
}

pub(super) fn junit(results: &TestResults) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        xml,
        "<testsuite name=\"haptic validate\" tests=\"{}\" failures=\"{}\" time=\"{:.3}\">",
        results.total_tests,
        results.failed_tests,
        results.duration.as_secs_f64()
    );
    for test in &results.tests {
        let _ = write!(
            xml,
            "  <testcase name=\"{}\" time=\"{:.3}\"",
            escaped(&test.test_name),
            test.duration.as_secs_f64()
        );
        if test.passed {
            xml.push_str("/>\n");
        } else {
            let problems = problems(test).join("\n");
            let _ = writeln!(xml, "><failure>{}</failure></testcase>", escaped(&problems));
        }
    }
    xml.push_str("</testsuite>\n");
    xml
}

/// Every rendered text but certificates, which hold keys.
pub(super) fn rendered(results: &TestResults) -> String {
    let mut text = String::new();
    for test in &results.tests {
        for (path, content) in &test.rendered {
            let _ = writeln!(text, "=== {}: {path}\n{content}", test.test_name);
        }
    }
    text
}

fn problems(test: &TestResult) -> Vec<String> {
    let mut problems: Vec<String> = test.render_error.iter().map(|error| format!("render: {error}")).collect();
    for assertion in test.assertions.iter().filter(|assertion| !assertion.passed) {
        let what = assertion.description.clone().unwrap_or_else(|| format!("{:?}", assertion.kind));
        problems.push(format!("{what}: {}", assertion.error.as_deref().unwrap_or("failed")));
    }
    problems
}

fn mark(passed: bool) -> &'static str {
    if passed { "ok  " } else { "FAIL" }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML 1.0 has no place for other control characters, not even escaped.
            c if c.is_control() && !matches!(c, '\n' | '\t') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
