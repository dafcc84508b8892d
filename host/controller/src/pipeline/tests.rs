#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

use haptic_haproxy::check::{CheckLimits, Checker};
use haptic_model::ports::Now;
use haptic_render::Memo;

use crate::{
    check::{Cancellation, Checkers, ConfigCheck},
    pipeline::{Phase, PipelineError},
    quarantine::LeftOut,
    testing::{ScriptedCheck, core, passed},
};

const GOOD: &str = "defaults\n  mode http\n  timeout connect 1s\n  timeout client 1s\n  timeout server 1s\n\
    frontend web\n  {{ bind('web', 18080, address='127.0.0.1') }}\n";

#[test]
fn the_strict_path_asks_a_real_haproxy_and_names_the_template_line() {
    let (check, version) = real();
    strict(GOOD, &check, version).unwrap();
    let error = strict(&format!("{GOOD}  bogus keyword\n"), &check, version).unwrap_err();
    assert_eq!(error.phase, Phase::Semantic);
    let text = error.to_string();
    for words in ["bogus", "haproxyConfig:8", "rendered as haproxy.cfg:", "next step"] {
        assert!(text.contains(words), "{words} is not in: {text}");
    }
}

#[test]
fn the_reconcile_path_leaves_haproxys_verdict_to_the_gate() {
    let core = core("defaults\n  bogus keyword\n");
    let snapshot = core.store.lock().snapshot();
    let output = core.pipeline.execute(&snapshot, (3, 2), LeftOut::default(), &mut Memo::default(), Now(0)).unwrap();
    assert!(output.timing.semantic.is_zero());
}

#[test]
fn a_template_that_fails_stops_the_render_phase() {
    let error = strict("{{ nothing.at.all }}\n", &*ScriptedCheck::new([passed()]), (3, 2)).unwrap_err();
    assert_eq!(error.phase, Phase::Render);
    assert!(error.findings[0].location.is_some(), "{error}");
}

#[test]
fn without_a_checker_the_strict_path_refuses() {
    let error = strict(GOOD, &Checkers::default(), (3, 2)).unwrap_err();
    assert!(error.to_string().contains("NoCheckerForVersion"), "{error}");
}

fn strict(text: &str, check: &dyn ConfigCheck, version: (u16, u16)) -> Result<(), PipelineError> {
    let core = core(text);
    let snapshot = core.store.lock().snapshot();
    core.pipeline
        .execute_strict(&snapshot, version, check, Now(0), &mut Memo::default(), &Cancellation::new())
        .map(|_| ())
}

fn real() -> (Checkers, (u16, u16)) {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let folder =
        std::env::var_os("HAPTIC_HAPROXY_DIR").map_or_else(|| home.join(".cache/haptic/haproxy/bin"), PathBuf::from);
    let binary = folder.join("haproxy-3.2");
    assert!(Path::new(&binary).exists(), "{} is missing; run `make haproxies`", binary.display());
    let checker = Checker::new(binary, CheckLimits::STANDARD).unwrap();
    let version = checker.minor();
    (Checkers::new([checker]), version)
}
