//! Honest plugins and the host itself while hostile ones do their worst.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use haptic_model::ports::OutputValidators as _;
use serde_json::json;

use crate::{
    built::{LIMITS, NOW, files, hurried, load_fault, set_of, settings, shared_host, unique},
    wat,
};

/// Enough for every hostile guest to be called several times.
const HONEST_CALLS: usize = 200;

/// No honest call may wait for a hostile one to meet its timeout, even on a machine with other work.
const SLOWEST: Duration = Duration::from_secs(5);

fn resident_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn honest_calls_succeed_and_memory_stays_bounded_and_returns() {
    let mut hostile: Vec<_> = ["loop", "memory-hog", "panic", "huge-output", "log-flood", "error-flood", "recursion"]
        .map(|fault| load_fault(fault, &hurried(json!({ "on_call": fault }))))
        .into();
    hostile.extend(
        ["handle-flood", "resource-flood", "table-bomb", "loop-in-post-return"]
            .map(|name| shared_host().load(&unique(name), &wat::component(name), None, &hurried(json!({}))).unwrap()),
    );
    let honest = set_of([load_fault("honest", &settings(json!({})))]);
    let request = files([("general/a", "one\ntwo\n")]);
    let before = resident_bytes();

    let done = AtomicBool::new(false);
    let stopped = AtomicUsize::new(0);
    let mut highest = before;
    thread::scope(|scope| {
        for half in hostile.chunks(hostile.len().div_ceil(2)) {
            let (done, stopped, request) = (&done, &stopped, &request);
            let sets: Vec<_> = half.iter().map(|plugin| set_of([Arc::clone(plugin)])).collect();
            scope.spawn(move || {
                for set in sets.iter().cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                    let reports = set.validate_auxiliary(request, NOW);
                    assert!(reports[0].failure.is_some(), "{:?}", reports[0]);
                    stopped.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut calls = 0;
        while calls < HONEST_CALLS || stopped.load(Ordering::Relaxed) < 2 * hostile.len() {
            let started = Instant::now();
            let report = honest.validate_auxiliary(&request, NOW).remove(0);
            let (elapsed, failure) = (started.elapsed(), report.failure);
            highest = highest.max(resident_bytes());
            calls += 1;
            if failure.is_some() || elapsed > SLOWEST {
                done.store(true, Ordering::Relaxed);
                panic!("call {calls} took {elapsed:?} and gave {failure:?}");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    for plugin in &hostile {
        let counter = plugin.counter();
        assert!(counter.calls > 0 && counter.failures == counter.calls, "{}: {counter:?}", plugin.name());
    }

    // Two hostile calls at a time, each within its limit, and as much again for the copies and the other tests' calls.
    let bound = 8 * LIMITS.memory_bytes + (128 << 20);
    assert!(highest < before + bound, "{before} grew to {highest}");
    let after = resident_bytes();
    assert!(after < before + (128 << 20), "{before} stayed at {after}");
}
