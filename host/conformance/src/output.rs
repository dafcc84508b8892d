//! A report for people and for machines. JSON is the report's own [`serde::Serialize`].

use std::fmt::Write as _;

use quick_junit::{NonSuccessKind, SerializeError, TestCase, TestCaseStatus, TestSuite};
use thiserror::Error;

use crate::report::{CaseCost, CheckResult, Group, ModuleFacts, Report, Status, Summary};

/// A report cannot be written.
#[derive(Debug, Error)]
#[error("writing the report as JUnit")]
pub struct OutputError(#[from] SerializeError);

/// For a terminal: what it is, every case and check on a line, costs, and the summary last.
pub fn text(report: &Report) -> String {
    let mut text = format!("plugin {}\n", report.plugin);
    match &report.module {
        Some(module) => facts(&mut text, module),
        None => text.push_str("  the module is no component\n"),
    }
    for (group, title) in [(Group::Case, "cases"), (Group::Check, "checks")] {
        let results: Vec<_> = report.results.iter().filter(|result| result.group == group).collect();
        if results.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{title}");
        let width = results.iter().map(|result| result.name.chars().count()).max().unwrap_or(0);
        for CheckResult { name, status, says, .. } in results {
            let mut lines = says.lines();
            let _ = writeln!(text, "  {}  {name:<width$}  {}", mark(*status), lines.next().unwrap_or_default());
            for line in lines {
                let _ = writeln!(text, "        {line}");
            }
        }
    }
    costs(&mut text, &report.costs);
    let Summary { passed, warned, failed, skipped } = report.summary;
    let _ = writeln!(text, "\n{passed} passed, {warned} warned, {failed} failed, {skipped} skipped");
    text
}

/// For a CI server: one suite for the cases and one for the checks.
pub fn junit(report: &Report) -> Result<String, OutputError> {
    let mut document = quick_junit::Report::new(format!("haptic plugin test {}", report.plugin));
    for (group, title) in [(Group::Case, "cases"), (Group::Check, "checks")] {
        let mut suite = TestSuite::new(format!("{} {title}", report.plugin));
        for result in report.results.iter().filter(|result| result.group == group) {
            let mut case = TestCase::new(result.name.as_str(), status(result));
            case.set_classname(format!("{}.{title}", report.plugin)).set_time(result.elapsed);
            if matches!(result.status, Status::Passed | Status::Warned) {
                case.set_system_out(printable(&format!("{}: {}", mark(result.status).trim(), result.says)));
            }
            suite.add_test_case(case);
        }
        document.add_test_suite(suite);
    }
    Ok(document.to_string()?)
}

fn facts(text: &mut String, module: &ModuleFacts) {
    let ModuleFacts { bytes, sha256, generation, contracts, pure } = module;
    let contracts = if contracts.is_empty() { "none".to_owned() } else { contracts.join(", ") };
    let _ = writeln!(text, "  module      {bytes} bytes, sha256 {sha256}");
    let _ = writeln!(text, "  generation  {}", generation.as_deref().unwrap_or("none"));
    let _ = writeln!(text, "  contracts   {contracts}");
    let _ = writeln!(text, "  imports     {}", if *pure { "haptic:plugin alone" } else { "haptic:plugin and WASI" });
}

fn costs(text: &mut String, costs: &[CaseCost]) {
    if costs.is_empty() {
        return;
    }
    let width = costs.iter().map(|cost| cost.case.chars().count()).max().unwrap_or(0).max("case".len());
    let _ =
        writeln!(text, "\ncost of a call, the fastest of a few\n  {:<width$}      time     memory       read", "case");
    for CaseCost { case, elapsed, memory_bytes, input_bytes } in costs {
        let millis = elapsed.as_secs_f64() * 1e3;
        let _ = writeln!(text, "  {case:<width$}  {millis:>5.2} ms  {:>5} KiB  {input_bytes:>7} B", memory_bytes >> 10);
    }
}

fn mark(status: Status) -> &'static str {
    match status {
        Status::Passed => "ok  ",
        Status::Warned => "warn",
        Status::Failed => "FAIL",
        Status::Skipped => "skip",
    }
}

fn status(result: &CheckResult) -> TestCaseStatus {
    let mut status = match result.status {
        Status::Passed | Status::Warned => return TestCaseStatus::success(),
        Status::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Status::Skipped => TestCaseStatus::skipped(),
    };
    let says = printable(&result.says);
    status.set_message(says.lines().next().unwrap_or_default());
    if result.status == Status::Failed {
        status.set_description(says);
    }
    status
}

/// What a plugin says may hold what no terminal and no XML can.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::time::Duration;

    use super::*;

    fn report() -> Report {
        let result = |group, name: &str, status, says: &str| CheckResult {
            group,
            name: name.to_owned(),
            status,
            says: says.to_owned(),
            elapsed: Duration::from_micros(1500),
        };
        let results = vec![
            result(Group::Case, "good", Status::Passed, "the answer as expected"),
            result(
                Group::Case,
                "bad",
                Status::Failed,
                "another answer than expected:\n- result <valid>\n+ result error",
            ),
            result(Group::Check, "loads", Status::Passed, "auxiliary-file validator"),
            result(Group::Check, "config-unknown-field", Status::Warned, "it ignores a field"),
            result(Group::Check, "filter-purity", Status::Skipped, "it exports no filters"),
        ];
        let module = ModuleFacts {
            bytes: 1234,
            sha256: "ab".repeat(32),
            generation: Some("1.0.0".to_owned()),
            contracts: vec!["auxiliary-file validator".to_owned()],
            pure: false,
        };
        let cost = CaseCost {
            case: "good".to_owned(),
            elapsed: Duration::from_micros(250),
            memory_bytes: 1 << 20,
            input_bytes: 77,
        };
        Report {
            plugin: "maps".to_owned(),
            haptic: "0.1.0",
            module: Some(module),
            summary: Summary::of(&results),
            results,
            costs: vec![cost],
        }
    }

    #[test]
    fn text_has_a_line_for_each_and_the_summary_last() {
        let expected = "plugin maps
  module      1234 bytes, sha256 abababababababababababababababababababababababababababababababab
  generation  1.0.0
  contracts   auxiliary-file validator
  imports     haptic:plugin and WASI

cases
  ok    good  the answer as expected
  FAIL  bad   another answer than expected:
        - result <valid>
        + result error

checks
  ok    loads                 auxiliary-file validator
  warn  config-unknown-field  it ignores a field
  skip  filter-purity         it exports no filters

cost of a call, the fastest of a few
  case      time     memory       read
  good   0.25 ms   1024 KiB       77 B

2 passed, 1 warned, 1 failed, 1 skipped
";
        assert_eq!(text(&report()), expected);
    }

    #[test]
    fn junit_has_a_suite_for_cases_and_one_for_checks() {
        let expected = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="haptic plugin test maps" tests="5" skipped="1" failures="1" errors="0">
    <testsuite name="maps cases" tests="2" skipped="0" errors="0" failures="1">
        <testcase name="good" classname="maps.cases" time="0.002">
            <system-out>ok: the answer as expected</system-out>
        </testcase>
        <testcase name="bad" classname="maps.cases" time="0.002">
            <failure message="another answer than expected:">another answer than expected:
- result &lt;valid&gt;
+ result error</failure>
        </testcase>
    </testsuite>
    <testsuite name="maps checks" tests="3" skipped="1" errors="0" failures="0">
        <testcase name="loads" classname="maps.checks" time="0.002">
            <system-out>ok: auxiliary-file validator</system-out>
        </testcase>
        <testcase name="config-unknown-field" classname="maps.checks" time="0.002">
            <system-out>warn: it ignores a field</system-out>
        </testcase>
        <testcase name="filter-purity" classname="maps.checks" time="0.002">
            <skipped message="it exports no filters"/>
        </testcase>
    </testsuite>
</testsuites>
"#;
        assert_eq!(junit(&report()).unwrap(), expected);
    }

    #[test]
    fn json_says_the_same() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["summary"], serde_json::json!({ "passed": 2, "warned": 1, "failed": 1, "skipped": 1 }));
        let bad = serde_json::json!({
            "group": "case",
            "name": "bad",
            "status": "failed",
            "says": "another answer than expected:\n- result <valid>\n+ result error",
            "millis": 1.5,
        });
        assert_eq!(json["results"][1], bad);
        let cost = serde_json::json!({ "case": "good", "micros": 250.0, "memoryBytes": 1 << 20, "inputBytes": 77 });
        assert_eq!(json["costs"][0], cost);
        assert_eq!(json["module"]["contracts"][0], "auxiliary-file validator");
    }

    #[test]
    fn what_xml_cannot_hold_is_replaced() {
        let mut report = report();
        report.results[1].says = "a\u{0}b\u{1b}".to_owned();
        assert!(junit(&report).unwrap().contains("a\u{fffd}b\u{fffd}"));
    }
}
