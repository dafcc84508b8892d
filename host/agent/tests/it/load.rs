//! Starts, reloads, their refusals, pacing and the last known good.

use std::time::Duration;

use haptic_model::{FileKind, Mode, Op};
use haptic_wire::{ApplyMode, BindAddress};

use crate::common::{Pod, Set, VERSIONS, backend, echo, path, until};

async fn set_for(pod: &Pod) -> Set {
    Set::new(pod, &backend("be_one", &[("s1", echo("one").await)]), "one.test be_one\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_set_that_haproxy_refuses_leaves_nothing_and_a_good_one_starts_it() {
    for version in VERSIONS {
        let mut pod = Pod::new(version).await;
        assert!(!pod.client().ready().await.unwrap());
        let set = set_for(&pod).await;
        let bad = set.with("haproxy.cfg", FileKind::Config, format!("{}    bogus word\n", set.text("haproxy.cfg")));
        let result = pod.reload(&bad).await;
        assert!(!result.ok && result.rolled_back, "{version}: {result:?}");
        assert!(result.error.unwrap().contains("unknown keyword 'bogus'"), "{version}: HAProxy's own words");
        pod.assert_on_disk(&Set { files: Vec::new() });
        assert_eq!(pod.state().await.applied_plan, None, "{version}");

        let result = pod.reload(&set).await;
        assert!(result.ok && result.mode == Mode::Reload, "{version}: {result:?}");
        assert_eq!(pod.get("one.test").await, "one", "{version}");
        assert!(pod.client().ready().await.unwrap());
        let state = pod.state().await;
        assert_eq!((state.applied_plan, state.running_plan, state.lkg_plan), {
            let plan = Some(set.plan());
            (plan, plan, plan)
        });
        assert_eq!(state.inventory.maps, [path("maps/hosts.map")], "{version}");
        assert_eq!(state.inventory.crt_lists, [path("lists/certs.list")], "{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_reload_restores_the_set_and_keeps_serving() {
    for version in VERSIONS {
        let mut pod = Pod::new(version).await;
        let set = set_for(&pod).await;
        let worker = pod.reload(&set).await.worker;
        let bad = set
            .with("haproxy.cfg", FileKind::Config, format!("{}    bogus word\n", set.text("haproxy.cfg")))
            .with("extra.txt", FileKind::General, "new file")
            .with("maps/hosts.map", FileKind::Map, "one.test be_none\n");
        let result = pod.reload(&bad).await;
        assert!(!result.ok && result.rolled_back && result.mode == Mode::Rejected, "{version}: {result:?}");
        assert!(result.error.unwrap().contains("unknown keyword 'bogus'"), "{version}");
        assert_eq!(result.worker, worker, "{version}: the old worker serves on");
        pod.assert_on_disk(&set);
        assert_eq!(pod.get("one.test").await, "one", "{version}");
        assert_eq!(pod.state().await.running_plan, Some(set.plan()), "{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_cannot_be_bound_is_found_before_the_reload() {
    let mut pod = Pod::new("3.4").await;
    let set = set_for(&pod).await;
    let worker = pod.reload(&set).await.worker;
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let config =
        set.text("haproxy.cfg").replace("frontend https", &format!("    bind 127.0.0.1:{port}\nfrontend https"));
    let next = set.with("haproxy.cfg", FileKind::Config, config);
    let (mut manifest, parts) = pod.manifest(&next, ApplyMode::Reload, Vec::new()).await;
    manifest.binds.push(BindAddress { address: Some([127, 0, 0, 1].into()), port });
    let result = pod.client().apply(&manifest, &parts).await.unwrap();
    assert!(!result.ok && result.error.as_ref().unwrap().contains(&format!("127.0.0.1:{port}")), "{result:?}");
    assert_eq!(result.worker, worker);
    pod.assert_on_disk(&set);
    drop(holder);
    let result = pod.client().apply(&manifest, &parts).await.unwrap();
    assert!(result.ok && result.mode == Mode::Reload, "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_inside_the_window_is_scheduled_and_the_newest_set_is_loaded_once() {
    let mut pod = Pod::stopped("3.2", Duration::from_millis(1500));
    pod.open(None).await;
    let set = set_for(&pod).await;
    assert_eq!(pod.reload(&set).await.mode, Mode::Reload);
    let worker = pod.state().await.haproxy.unwrap().worker;

    let second = set.with("maps/hosts.map", FileKind::Map, "one.test be_one\ntwo.test be_one\n");
    let (mut manifest, parts) = pod.manifest(&second, ApplyMode::Reload, Vec::new()).await;
    manifest.in_place_ops =
        vec![Op::MapAdd { map: path("maps/hosts.map"), key: "two.test".into(), value: "be_one".into() }];
    let result = pod.client().apply(&manifest, &parts).await.unwrap();
    assert!(result.ok && result.mode == Mode::Scheduled && result.ops_run == 1, "{result:?}");
    assert_eq!((result.applied_plan, result.running_plan), (Some(second.plan()), Some(set.plan())));
    assert_eq!(pod.get("two.test").await, "one", "the in-place operation ran");
    pod.assert_on_disk(&second);

    let third = second.with("maps/hosts.map", FileKind::Map, "three.test be_one\n");
    let result = pod.run(&third, Vec::new()).await;
    assert_eq!(result.mode, Mode::Scheduled, "while a reload is pending, files land and nothing else: {result:?}");
    assert!(pod.state().await.reload_pending);

    until("the scheduled reload", async || !pod.state().await.reload_pending).await;
    let state = pod.state().await;
    assert_eq!((state.running_plan, state.reloads), (Some(third.plan()), 1));
    assert_ne!(state.haproxy.unwrap().worker, worker);
    assert_eq!(pod.get("three.test").await, "one");
    assert!(state.last_apply.unwrap().ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_scheduled_reload_brings_back_the_set_that_runs() {
    let mut pod = Pod::stopped("3.0", Duration::from_millis(700));
    pod.open(None).await;
    let set = set_for(&pod).await;
    assert!(pod.reload(&set).await.ok);
    let bad = set.with("haproxy.cfg", FileKind::Config, format!("{}    bogus word\n", set.text("haproxy.cfg"))).with(
        "maps/hosts.map",
        FileKind::Map,
        "two.test be_one\n",
    );
    let (mut manifest, parts) = pod.manifest(&bad, ApplyMode::Reload, Vec::new()).await;
    manifest.in_place_ops = vec![
        Op::MapAdd { map: path("maps/hosts.map"), key: "two.test".into(), value: "be_one".into() },
        Op::MapDel { map: path("maps/hosts.map"), key: "one.test".into() },
    ];
    assert_eq!(pod.client().apply(&manifest, &parts).await.unwrap().mode, Mode::Scheduled);
    assert_eq!(pod.get("one.test").await, "none");
    until("the scheduled reload fails", async || !pod.state().await.reload_pending).await;
    until("the set that ran before runs again", async || pod.get("one.test").await == "one").await;
    let state = pod.state().await;
    assert_eq!((state.applied_plan, state.running_plan), (Some(set.plan()), Some(set.plan())));
    let last = state.last_apply.unwrap();
    assert!(!last.ok && last.error.unwrap().contains("bogus"), "the refusal is kept for the controller");
    pod.assert_on_disk(&set);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unproven_set_is_reverted_and_a_proven_one_is_kept() {
    let mut pod = Pod::new("3.4").await;
    let set = set_for(&pod).await;
    assert!(pod.reload(&set).await.ok);
    let hosts = path("maps/hosts.map");
    let add = |host: &str| Op::MapAdd { map: hosts.clone(), key: host.into(), value: "be_one".into() };
    let second = set.with("maps/hosts.map", FileKind::Map, "one.test be_one\ntwo.test be_one\n");
    assert!(pod.run(&second, vec![add("two.test")]).await.ok);
    assert_eq!(pod.state().await.lkg_plan, Some(set.plan()), "a runtime change alone proves nothing");

    let (manifest, _) = pod.manifest(&second, ApplyMode::RevertLkg, Vec::new()).await;
    let result = pod.client().apply(&manifest, &[]).await.unwrap();
    assert!(result.ok && result.applied_plan == Some(set.plan()), "{result:?}");
    assert_eq!(pod.get("two.test").await, "none");
    pod.assert_on_disk(&set);

    assert!(pod.run(&second, vec![add("two.test")]).await.ok);
    let third = second.with("maps/hosts.map", FileKind::Map, "one.test be_one\ntwo.test be_one\nthree.test be_one\n");
    let (mut manifest, parts) = pod.manifest(&third, ApplyMode::Auto, vec![add("three.test")]).await;
    manifest.validated_plan = Some(second.plan());
    assert!(pod.client().apply(&manifest, &parts).await.unwrap().ok);
    assert_eq!(pod.state().await.lkg_plan, Some(second.plan()), "the check's pass promoted it");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_interval_that_an_apply_brings_counts_and_not_the_own() {
    const HOUR: u64 = 3_600_000;
    for (own, brought, mode) in [(0, HOUR, Mode::Scheduled), (HOUR, 0, Mode::Reload)] {
        let mut pod = Pod::stopped("3.2", Duration::from_millis(own));
        pod.open(None).await;
        let set = set_for(&pod).await;
        assert_eq!(pod.reload(&set).await.mode, Mode::Reload);
        let second = set.with("maps/hosts.map", FileKind::Map, "two.test be_one\n");
        let (mut manifest, parts) = pod.manifest(&second, ApplyMode::Reload, Vec::new()).await;
        manifest.reload_interval_ms = Some(brought);
        let result = pod.client().apply(&manifest, &parts).await.unwrap();
        assert!(result.ok && result.mode == mode, "own {own}, brought {brought}: {result:?}");
    }
}
