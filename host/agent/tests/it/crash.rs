//! Whatever dies at whatever step: afterwards the old or the new set is on disk, and HAProxy serves that set.

use std::sync::Arc;

use haptic_agent::{ApplyStep, FaultAction, ScriptedFault};
use haptic_haproxy::process::ProcessIdentity;
use haptic_model::{FileKind, Op};
use haptic_wire::ApplyMode;
use rustix::process::Signal;

use crate::common::{Pod, Set, backend, echo, path, until};

async fn sets(pod: &Pod) -> (Set, Set) {
    let old = Set::new(pod, &backend("be_one", &[("s1", echo("one").await)]), "old.test be_one\n");
    let new = old
        .with("maps/hosts.map", FileKind::Map, "new.test be_one\n")
        .with("added.txt", FileKind::General, "added")
        .with("haproxy.cfg", FileKind::Config, format!("{}# changed\n", old.text("haproxy.cfg")));
    (old, new)
}

fn ops() -> Vec<Op> {
    let map = path("maps/hosts.map");
    vec![
        Op::MapAdd { map: map.clone(), key: "new.test".into(), value: "be_one".into() },
        Op::MapDel { map, key: "old.test".into() },
    ]
}

/// Disk, record, worker and traffic all agree on one of the two sets.
async fn assert_settled(pod: &Pod, old: &Set, new: &Set, what: &str) {
    pod.until_state(what, |state| state.haproxy.is_some()).await;
    let state = pod.state().await;
    assert_eq!(state.applied_plan, state.running_plan, "{what}");
    let (set, serves, not) = if state.applied_plan == Some(new.plan()) {
        (new, "new.test", "old.test")
    } else {
        assert_eq!(state.applied_plan, Some(old.plan()), "{what}");
        (old, "old.test", "new.test")
    };
    pod.assert_on_disk(set);
    assert_eq!(pod.get(serves).await, "one", "{what}");
    assert_eq!(pod.get(not).await, "none", "{what}");
    assert_eq!(pod.client().verified_state().await.unwrap().applied_plan, state.applied_plan, "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_dies_at_any_step_comes_back_to_the_old_or_the_new_set() {
    for version in ["3.0", "3.4"] {
        for mode in [ApplyMode::Auto, ApplyMode::Reload] {
            for step in ApplyStep::ALL {
                let reached = match mode {
                    ApplyMode::Auto => step != ApplyStep::Reloading,
                    _ => step != ApplyStep::OpsRunning,
                };
                if !reached {
                    continue;
                }
                let what = format!("{version} {mode:?} {step}");
                let mut pod = Pod::new(version).await;
                let (old, new) = sets(&pod).await;
                assert!(pod.reload(&old).await.ok, "{what}");
                pod.close().await;
                pod.open(Some(Arc::new(ScriptedFault::new(step, FaultAction::Crash)))).await;
                let wanted = if mode == ApplyMode::Auto { ops() } else { Vec::new() };
                let (manifest, parts) = pod.manifest(&new, mode, wanted).await;
                assert!(pod.client().apply(&manifest, &parts).await.is_err(), "{what}: no answer after a crash");
                pod.reopen_after_crash().await;
                assert_settled(&pod, &old, &new, &what).await;
                // The way forward is open.
                assert!(pod.reload(&new).await.ok, "{what}");
                pod.assert_on_disk(&new);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_or_master_that_is_killed_at_any_step_is_replaced() {
    for version in ["3.0", "3.2", "3.4"] {
        for action in [FaultAction::KillWorker, FaultAction::KillMaster] {
            for (mode, step) in [
                (ApplyMode::Auto, ApplyStep::Staged),
                (ApplyMode::Auto, ApplyStep::OpsRunning),
                (ApplyMode::Auto, ApplyStep::Committed),
                (ApplyMode::Reload, ApplyStep::ConfigRenamed),
                (ApplyMode::Reload, ApplyStep::Reloading),
            ] {
                let what = format!("{version} {action:?} {mode:?} {step}");
                let mut pod = Pod::new(version).await;
                let (old, new) = sets(&pod).await;
                let loaded = pod.reload(&old).await;
                assert!(loaded.ok, "{what}: {loaded:?}");
                let first = loaded.worker;
                pod.close().await;
                let fault = Arc::new(ScriptedFault::new(step, action));
                pod.open(Some(fault.clone())).await;
                let wanted = if mode == ApplyMode::Auto { ops() } else { Vec::new() };
                let result = pod.apply(&new, mode, wanted).await;
                assert!(fault.has_fired(), "{what}: {result:?}");
                let replaced = format!("another worker than {first:?} serves: {what}: {result:?}");
                pod.until_state(&replaced, |state| {
                    state.haproxy.as_ref().is_some_and(|haproxy| Some(haproxy.worker) != first)
                })
                .await;
                assert_settled(&pod, &old, &new, &what).await;
                let launch = pod.launch();
                until("only master and worker are left", async || launch.leftovers().len() == 2).await;
                assert!(pod.reload(&new).await.ok, "{what}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn haproxy_survives_its_agent_and_is_adopted() {
    for version in ["3.0", "3.2", "3.4"] {
        let mut pod = Pod::new(version).await;
        let (old, new) = sets(&pod).await;
        let loaded = pod.reload(&old).await;
        assert!(loaded.ok, "{version}: {loaded:?}");
        let worker = loaded.worker;
        pod.close().await;
        assert_eq!(pod.get("old.test").await, "one", "{version}");
        pod.open(None).await;
        let state = pod.state().await;
        assert_eq!(state.haproxy.map(|haproxy| haproxy.worker), worker, "{version}: nothing was loaded again");
        assert_eq!((state.applied_plan, state.running_plan), (Some(old.plan()), Some(old.plan())), "{version}");
        let result = pod.run(&new, ops()).await;
        assert!(result.ok && result.worker == worker, "{version}: {result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_dies_without_an_apply_is_started_again_from_the_last_known_good() {
    for version in ["3.0", "3.4"] {
        let mut pod = Pod::new(version).await;
        let (old, new) = sets(&pod).await;
        assert!(pod.reload(&old).await.ok);
        assert!(pod.run(&new, ops()).await.ok);
        let master = pod.launch().adopt().await.unwrap().master;
        master.signal(Signal::KILL);
        until("another master runs", async || {
            pod.launch().adopt().await.is_some_and(|running| running.master != master)
        })
        .await;
        pod.until_state("the state knows it", |state| state.applied_plan == Some(old.plan())).await;
        assert_settled(&pod, &old, &new, version).await;
        assert!(ProcessIdentity::of(master.pid) != Some(master));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_was_changed_while_the_agent_was_away_has_no_known_plan() {
    let mut pod = Pod::new("3.2").await;
    let (old, _) = sets(&pod).await;
    assert!(pod.reload(&old).await.ok);
    pod.close().await;
    std::fs::write(pod.base().join("maps/hosts.map"), "tampered be_one\n").unwrap();
    pod.open(None).await;
    assert_eq!(pod.state().await.applied_plan, None);
    let (mut manifest, parts) = pod.manifest(&old, ApplyMode::Reload, Vec::new()).await;
    manifest.expected_plan = None;
    assert!(pod.client().apply(&manifest, &parts).await.unwrap().ok);
    pod.assert_on_disk(&old);
}
