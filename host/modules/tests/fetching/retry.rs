//! A module that is not there is tried again by itself, and a cache that was changed is as good as none.

use std::{fs, sync::Arc, time::Duration};

use haptic_e2e::{Doors, eventually};
use haptic_model::Digest;
use haptic_modules::{Backoff, Fetcher, ModuleState, Modules, Reason, Source, Wanted};
use tokio::time::Instant;

use crate::parts::{MODULE, Parts, caching, fetcher, wanted};

const QUICK: Backoff = Backoff {
    first: Duration::from_millis(20),
    longest: Duration::from_millis(100),
    permanent: Duration::from_millis(20),
};

fn started(fetcher: Fetcher, backoff: Backoff) -> Arc<Modules> {
    let modules = Modules::new(fetcher, backoff);
    tokio::spawn(modules.clone().run());
    modules
}

async fn becomes(modules: &Modules, wanted: &Wanted, what: &str, fits: impl Fn(&ModuleState) -> bool) {
    eventually(what, async || fits(&modules.state(wanted)).then_some(())).await;
}

fn failed_with(reason: Reason) -> impl Fn(&ModuleState) -> bool {
    move |state| matches!(state, ModuleState::Failed(error) if error.reason == reason)
}

#[tokio::test]
async fn a_registry_that_starts_later_is_found_without_another_trigger() {
    let mut parts = Parts::start(Doors::Open).await;
    parts.push("acme/guard:1", MODULE, None).await;
    parts.registry = None;

    let folder = tempfile::tempdir().unwrap();
    let modules = started(caching(folder.path()), QUICK);
    let wanted = parts.image("acme/guard:1");
    modules.want([wanted.clone()]);
    assert_eq!(modules.open(&wanted), None);
    becomes(&modules, &wanted, "the failure", failed_with(Reason::Unreachable)).await;

    parts.registry = Some(parts.folder.start().await.unwrap());
    becomes(&modules, &wanted, "the module", |state| *state == ModuleState::Ready).await;
    assert_eq!(modules.open(&wanted).unwrap(), MODULE);
}

#[tokio::test]
async fn a_tag_that_is_pushed_later_is_found() {
    let parts = Parts::start(Doors::Open).await;
    let modules = started(fetcher(), QUICK);
    let wanted = parts.image("acme/guard:1");
    modules.want([wanted.clone()]);
    becomes(&modules, &wanted, "the failure", failed_with(Reason::NotFound)).await;
    parts.push("acme/guard:1", MODULE, None).await;
    becomes(&modules, &wanted, "the module", |state| *state == ModuleState::Ready).await;
    assert_eq!(modules.open(&wanted).unwrap(), MODULE, "without a cache it is held in memory");
    modules.want([]);
    assert_eq!(modules.open(&wanted), None, "what is wanted no more is held no more");
}

#[tokio::test]
async fn a_changed_cache_file_is_never_opened_and_fetched_again() {
    let parts = Parts::start(Doors::Open).await;
    parts.push("acme/guard:1", MODULE, None).await;
    let folder = tempfile::tempdir().unwrap();
    let modules = started(caching(folder.path()), QUICK);
    let wanted = parts.image("acme/guard:1");
    modules.want([wanted.clone()]);
    becomes(&modules, &wanted, "the module", |state| *state == ModuleState::Ready).await;

    let file = folder.path().join(format!("{}.wasm", Digest::of(MODULE)));
    fs::write(&file, b"\0asm the mOdule").unwrap();
    assert_eq!(modules.open(&wanted), None);
    becomes(&modules, &wanted, "the module again", |state| *state == ModuleState::Ready).await;
    assert_eq!(modules.open(&wanted).unwrap(), MODULE);
}

#[tokio::test]
async fn a_kept_module_needs_no_registry() {
    let mut parts = Parts::start(Doors::Open).await;
    parts.push("acme/guard:1", MODULE, None).await;
    let folder = tempfile::tempdir().unwrap();
    let wanted = parts.image("acme/guard:1");
    caching(folder.path()).fetch(&wanted).await.unwrap();
    parts.registry = None;
    let modules = started(caching(folder.path()), QUICK);
    modules.want([wanted.clone()]);
    modules.settled(std::slice::from_ref(&wanted), Instant::now() + Duration::from_secs(10)).await;
    assert_eq!(modules.state(&wanted), ModuleState::Ready);
    assert_eq!(modules.open(&wanted).unwrap(), MODULE);
}

/// Paused time moves only while nothing else happens, so this takes no time and tells the pauses exactly.
#[tokio::test(start_paused = true)]
async fn pauses_double_up_to_five_minutes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.wasm");
    let wanted = wanted(Source::File { path: path.clone() });
    let modules = Modules::new(fetcher(), Backoff::default());
    let running = tokio::spawn(modules.clone().run());
    modules.want([wanted.clone()]);
    modules.settled(std::slice::from_ref(&wanted), Instant::now() + Duration::from_mins(1)).await;
    assert!(failed_with(Reason::NotFound)(&modules.state(&wanted)));
    // Attempts come after 0, 1, 3, 7, 15, 31, 63, 127, 255, 511 (pauses of 256 s), then every 300 s: 811, 1111.
    let passing = std::future::pending::<()>();
    tokio::time::timeout(Duration::from_millis(811_500), passing).await.unwrap_err();
    fs::write(&path, MODULE).unwrap();
    let appeared = Instant::now();
    modules.settled(std::slice::from_ref(&wanted), Instant::now()).await;
    let mut changed = modules.changed();
    tokio::time::timeout(Duration::from_mins(10), changed.changed()).await.unwrap().unwrap();
    assert_eq!(modules.state(&wanted), ModuleState::Ready);
    let waited = appeared.elapsed();
    assert!((Duration::from_secs(298)..Duration::from_secs(301)).contains(&waited), "{waited:?}");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn what_does_not_pass_by_itself_is_tried_slowly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.wasm");
    fs::write(&path, b"another").unwrap();
    let wanted = wanted(Source::File { path: path.clone() });
    let modules = started(fetcher(), Backoff::default());
    modules.want([wanted.clone()]);
    modules.settled(std::slice::from_ref(&wanted), Instant::now() + Duration::from_mins(1)).await;
    assert!(failed_with(Reason::DigestMismatch)(&modules.state(&wanted)), "it is told at once");
    fs::write(&path, MODULE).unwrap();
    let begun = Instant::now();
    modules.changed().changed().await.unwrap();
    assert_eq!(modules.state(&wanted), ModuleState::Ready);
    assert!(begun.elapsed() >= Duration::from_secs(59), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_is_wanted_again_is_tried_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.wasm");
    let wanted = wanted(Source::File { path: path.clone() });
    let modules = started(fetcher(), Backoff::default());
    modules.want([wanted.clone()]);
    modules.settled(std::slice::from_ref(&wanted), Instant::now() + Duration::from_mins(1)).await;
    // Until the pauses are long.
    tokio::time::timeout(Duration::from_millis(811_500), std::future::pending::<()>()).await.unwrap_err();
    fs::write(&path, MODULE).unwrap();
    let begun = Instant::now();
    // The worker sees both as one change.
    modules.want([]);
    modules.want([wanted.clone()]);
    modules.settled(std::slice::from_ref(&wanted), begun + Duration::from_mins(10)).await;
    assert_eq!(modules.state(&wanted), ModuleState::Ready);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}
