#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use tokio::sync::Notify;

use super::*;
use crate::{Limits, Source, Transport};

fn modules() -> Arc<Modules> {
    Modules::new(Fetcher::new(Transport::new(Limits::default()).unwrap(), None), Backoff::default())
}

fn wanted(source: Source) -> Wanted {
    Wanted { name: "guard".to_owned(), source, pin: Some(Digest::of(b"module")), cosign_key: None }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_when_its_task_ends_is_tried_by_another() {
    let wanted = wanted(Source::File { path: "/nonexistent/m.wasm".into() });
    let (modules, key) = (modules(), wanted.key());
    modules.want([wanted]);
    let (mut attempts, gate) = (Attempts::default(), Arc::new(Notify::new()));
    let opened = gate.clone();
    let task = attempts.tasks.spawn(async move { opened.notified().await });
    let number = modules.wanted.borrow()[&key].number;
    attempts.running.insert(key, Attempt { number, task });
    attempts.see_to(&modules);
    assert_eq!(attempts.tasks.len(), 1, "one task for a module");
    gate.notify_one();
    attempts.one_ended().await;
    attempts.see_to(&modules);
    assert_eq!(attempts.tasks.len(), 1, "another took its place");
    assert!(!attempts.running[&key].task.is_finished());
}

/// A runtime on which no connection can be made: whoever tries panics.
#[test]
fn a_panic_is_told_and_does_not_end_the_attempts() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let wanted = wanted(Source::Http { url: "http://127.0.0.1:1/m.wasm?token=hunter2".to_owned() });
        let modules = modules();
        modules.want([wanted.clone()]);
        let mut attempts = Attempts::default();
        attempts.see_to(&modules);
        modules.settled(std::slice::from_ref(&wanted), Instant::now() + Duration::from_secs(1)).await;
        let ModuleState::Failed(error) = modules.state(&wanted) else { panic!("{:?}", modules.state(&wanted)) };
        assert_eq!(error.reason, Reason::ServerError);
        assert!(error.message.contains("ended early") && !error.message.contains("hunter2"), "{error}");
        let task = &attempts.running[&wanted.key()].task;
        assert!(!task.is_finished(), "it waits for its next attempt");
    });
}
