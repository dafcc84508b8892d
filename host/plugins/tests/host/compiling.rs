//! What the host makes of a process that should compile and does something else. A shell stands for it here; the real
//! one is held to the same in the tests of the binary.

use std::time::Duration;

use haptic_plugins::{CompileFailure, CompileLimits, Compiler, CompilerProcess, LoadErrorReason, PluginHost};
use serde_json::Value;

use crate::built::{plugin, settings};

const LIMITS: CompileLimits =
    CompileLimits { memory_bytes: 64 << 20, processor_time: Duration::from_secs(20), time: Duration::from_mins(1) };

fn host(script: &str, limits: CompileLimits) -> PluginHost {
    let arguments = vec!["-c".into(), script.into()];
    let process = CompilerProcess::new("/bin/sh".into(), arguments, limits);
    PluginHost::with_compiler(None, Compiler::Process(process)).unwrap()
}

/// Why nothing is loaded that this script was to compile.
fn refusal(script: &str, limits: CompileLimits) -> LoadErrorReason {
    let refused = host(script, limits).load("network", &plugin("network"), None, &settings(Value::Null)).err().unwrap();
    assert_eq!(&*refused.plugin, "network");
    refused.reason
}

fn failure(script: &str, limits: CompileLimits) -> CompileFailure {
    match refusal(script, limits) {
        LoadErrorReason::Compile(failure) => failure,
        other => panic!("{script}: {other:?}"),
    }
}

/// How a process died that gave no answer.
fn death(script: &str) -> String {
    match failure(script, LIMITS) {
        CompileFailure::Died { how } => how,
        other => panic!("{script}: {other:?}"),
    }
}

#[test]
fn a_compiler_that_dies_is_told_with_its_last_words() {
    let how = death("cat > /dev/null; echo out of ideas >&2; kill -SEGV $$");
    assert!(how.contains("signal: 11") && how.contains("out of ideas"), "{how}");
    assert!(death("exit 3").contains("exit status: 3"), "before it has read a byte");
    assert!(death("cat > /dev/null").contains("exit status: 0"), "without an answer");
    assert!(death("cat > /dev/null; printf ?what").contains("exit status: 0"), "with an answer of no kind");
}

#[test]
fn a_compiler_that_is_refused_memory_is_told_by_the_limit() {
    let refused = failure("cat > /dev/null; echo memory allocation of 8 bytes failed >&2; kill -ABRT $$", LIMITS);
    assert!(matches!(refused, CompileFailure::Memory { limit_bytes } if limit_bytes <= LIMITS.memory_bytes));
}

#[test]
fn a_compiler_that_never_ends_is_stopped_by_its_processor_time() {
    let limits = CompileLimits { processor_time: Duration::from_secs(1), ..LIMITS };
    let refused = failure("cat > /dev/null; while :; do :; done", limits);
    assert!(matches!(refused, CompileFailure::ProcessorTime { limit_ms: 1000 }), "{refused:?}");
}

#[test]
fn a_compiler_that_only_waits_is_stopped_by_its_time() {
    let limits = CompileLimits { time: Duration::from_millis(100), ..LIMITS };
    for script in ["exec tail -f /dev/null", "exec >&- 2>&- <&-; kill -STOP $$"] {
        let refused = failure(script, limits);
        assert!(matches!(refused, CompileFailure::Time { limit_ms: 100 }), "{script}: {refused:?}");
    }
}

#[test]
fn an_answer_without_end_is_not_read_to_its_end() {
    let refused = failure("cat > /dev/null; exec yes I", LIMITS);
    assert!(matches!(refused, CompileFailure::Pipe(_)), "{refused:?}");
}

#[test]
fn what_is_no_image_is_not_run() {
    for script in ["cat > /dev/null; printf I", "cat > /dev/null; printf Imachine-code", "printf I; cat"] {
        let refused = refusal(script, LIMITS);
        assert!(matches!(refused, LoadErrorReason::NotAComponent(_)), "{script}: {refused:?}");
    }
}

#[test]
fn the_compilers_reason_is_the_hosts() {
    let refused = refusal("cat > /dev/null; printf 'Rit has no head'", LIMITS).to_string();
    assert!(refused.contains("it has no head"), "{refused}");
}

#[test]
fn limits_stand_before_the_first_byte_and_there_is_no_environment() {
    let how = death(
        "cat > /dev/null; echo data $(ulimit -d) time $(ulimit -t) >&2; tr '\\0' ' ' < /proc/$$/environ >&2; exit 1",
    );
    assert!(how.contains("time 20") && how.contains("RAYON_NUM_THREADS="), "{how}");
    let data: u64 = how.split(' ').skip_while(|word| *word != "data").nth(1).unwrap().parse().unwrap();
    assert!(data << 10 <= LIMITS.memory_bytes, "{how}");
    assert!(!how.contains("HOME="), "{how}");
}

#[test]
fn a_compiler_that_is_not_there_is_named() {
    let process = CompilerProcess::new("/no/such/haptic".into(), Vec::new(), LIMITS);
    let host = PluginHost::with_compiler(None, Compiler::Process(process)).unwrap();
    let refused = host.load("network", &plugin("network"), None, &settings(Value::Null)).err().unwrap();
    assert!(matches!(refused.reason, LoadErrorReason::Compile(CompileFailure::Start { .. })), "{refused}");
    assert!(refused.to_string().contains("/no/such/haptic"), "{refused}");
}
