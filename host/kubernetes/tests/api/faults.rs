//! Lists and watches of a server that has a bad day.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use axum::body::Bytes;
use haptic_kubernetes::{Limits, ResourceState, Trouble};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    cluster::{Room, settings},
    fault_proxy::{Fault, FaultProxy},
    followed::{BOUND, Followed, config_maps},
};

struct Scene {
    room: Room,
    proxy: FaultProxy,
    followed: Followed,
}

const GONE: &str = concat!(
    r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
    r#""message":"too old resource version","reason":"Expired","code":410}}"#
);

/// The ConfigMaps `a` and `b`, followed through a proxy.
async fn scene(limits: Limits) -> Result<Scene> {
    let room = Room::new().await?;
    for name in ["a", "b"] {
        room.make_config_map(name, "1").await?;
    }
    let proxy = FaultProxy::start(room.client.clone()).await?;
    let api = proxy.api(limits).await?;
    let followed = Followed::synced(api, vec![config_maps(&room.namespace)], settings()).await?;
    Ok(Scene { room, proxy, followed })
}

fn troubled(state: &ResourceState) -> bool {
    state.trouble().is_some()
}

fn is_list(what: &str) -> bool {
    what.contains("configmaps") && (!what.contains("watch=true") || what.contains("sendInitialEvents"))
}

fn is_watch(what: &str) -> bool {
    what.contains("configmaps") && !is_list(what)
}

impl Scene {
    /// Waits until so many requests came that match.
    async fn requests(&self, matches: impl Fn(&str) -> bool, count: usize) -> Result<Vec<Instant>> {
        let came = async {
            loop {
                let seen = self.proxy.seen(&[]);
                let times: Vec<_> = seen.iter().filter(|seen| matches(&seen.what)).map(|seen| seen.at).collect();
                if times.len() >= count {
                    return times;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(BOUND, came).await.context("so many requests did not come")
    }

    /// Deletes `a`, changes `b` and makes `c`.
    async fn change_everything(&self) -> Result<()> {
        self.room.delete_config_map("a").await?;
        self.room.patch_config_map("b", &json!({ "data": { "value": "2" } })).await?;
        self.room.make_config_map("c", "1").await?;
        Ok(())
    }
}

const EVERYTHING: [&str; 3] = ["Added c", "Changed b", "Removed a"];

#[tokio::test]
async fn a_watch_that_breaks_goes_on_where_it_was_without_a_list() -> Result<()> {
    let mut scene = scene(Limits::default()).await?;
    scene.proxy.forget_seen();
    for round in 0..3 {
        scene.proxy.cut();
        scene.requests(is_watch, round + 1).await?;
        scene.room.make_config_map(&format!("new-{round}"), "1").await?;
        assert_eq!(scene.followed.told().await?, [format!("Added new-{round}")]);
    }
    assert!(scene.requests(is_list, 0).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_watch_that_the_server_ends_in_its_time_goes_on_without_a_list() -> Result<()> {
    let mut scene = scene(Limits { watch: Duration::from_secs(1), ..Limits::default() }).await?;
    scene.proxy.forget_seen();
    scene.requests(is_watch, 3).await?;
    scene.room.delete_config_map("a").await?;
    assert_eq!(scene.followed.told().await?, ["Removed a"]);
    assert!(scene.requests(is_list, 0).await?.is_empty());
    assert!(scene.followed.state("configmaps", |_| true).await?.trouble().is_none());
    Ok(())
}

#[tokio::test]
async fn a_watch_that_is_silent_for_too_long_is_taken_for_dead() -> Result<()> {
    let mut scene = scene(Limits { idle: Duration::from_millis(300), ..Limits::default() }).await?;
    scene.proxy.forget_seen();
    scene.requests(is_watch, 2).await?;
    scene.room.delete_config_map("a").await?;
    assert_eq!(scene.followed.told().await?, ["Removed a"]);
    assert!(scene.requests(is_list, 0).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn an_outage_changes_nothing_and_is_caught_up_with_afterwards() -> Result<()> {
    let mut scene = scene(Limits::default()).await?;
    scene.proxy.rule(|_| Some(Fault::Broken));
    scene.proxy.cut();
    let state = scene.followed.state("configmaps", troubled).await?;
    assert!(matches!(**state.trouble().context("it has trouble")?, Trouble::Unreachable(_)), "{state:?}");
    scene.change_everything().await?;
    scene.proxy.heal();
    scene.followed.until(|followed| followed.names("configmaps") == ["b", "c"]).await?;
    scene.followed.state("configmaps", |state| !troubled(state)).await?;
    Ok(())
}

#[tokio::test]
async fn a_version_that_is_gone_makes_a_list_whose_difference_is_one_update() -> Result<()> {
    for in_band in [true, false] {
        let mut scene = scene(Limits::default()).await?;
        scene.proxy.rule(move |what| match () {
            () if is_list(what) => Some(Fault::Status(StatusCode::INTERNAL_SERVER_ERROR, None)),
            () if is_watch(what) && in_band => Some(Fault::Event(GONE.to_owned())),
            () if is_watch(what) => Some(Fault::Status(StatusCode::GONE, None)),
            () => None,
        });
        scene.proxy.forget_seen();
        scene.proxy.cut();
        scene.requests(is_list, 3).await?;
        scene.change_everything().await?;
        scene.proxy.heal();
        assert_eq!(scene.followed.told().await?, EVERYTHING);
        // Nothing of it comes again.
        scene.room.delete_config_map("c").await?;
        assert_eq!(scene.followed.told().await?, ["Removed c"]);
    }
    Ok(())
}

#[tokio::test]
async fn a_list_of_nothing_is_believed_when_it_is_complete() -> Result<()> {
    let mut scene = scene(Limits::default()).await?;
    scene.proxy.rule(|what| is_watch(what).then(|| Fault::Event(GONE.to_owned())));
    scene.room.delete_config_map("a").await?;
    scene.room.delete_config_map("b").await?;
    scene.proxy.cut();
    scene.followed.until(|followed| followed.objects.is_empty()).await
}

#[tokio::test]
async fn a_stale_list_withdraws_nothing() -> Result<()> {
    let mut scene = scene(Limits::default()).await?;
    // A list from before the objects were made, such as an API server that lags behind would give.
    let path = format!("{}?limit=500", scene.room.path("api/v1", "configmaps"));
    let now: Value = scene.room.send(Method::GET, &path, &Value::Null).await?;
    let version: u64 = now["metadata"]["resourceVersion"].as_str().context("it has a version")?.parse()?;
    let stale = |version: u64| {
        let list = json!({ "kind": "ConfigMapList", "apiVersion": "v1", "items": [],
                           "metadata": { "resourceVersion": version.to_string() } });
        Bytes::from(list.to_string())
    };
    let old = stale(version - 100);
    scene.proxy.rule(move |what| match () {
        () if what.contains("sendInitialEvents") => Some(Fault::Status(StatusCode::UNPROCESSABLE_ENTITY, None)),
        () if is_list(what) => Some(Fault::Answer(old.clone())),
        () if is_watch(what) => Some(Fault::Event(GONE.to_owned())),
        () => None,
    });
    scene.proxy.forget_seen();
    scene.proxy.cut();
    let refused =
        |state: &ResourceState| state.trouble().is_some_and(|trouble| matches!(**trouble, Trouble::Older { .. }));
    scene.followed.state("configmaps", refused).await?;
    scene.requests(|what| is_list(what) && !what.contains("sendInitialEvents"), 3).await?;
    scene.proxy.heal();
    scene.room.delete_config_map("b").await?;
    assert_eq!(scene.followed.told().await?, ["Removed b"], "the first that is told is what happened");
    assert_eq!(scene.followed.names("configmaps"), ["a"]);
    Ok(())
}

#[tokio::test]
async fn a_list_that_is_cut_is_not_believed() -> Result<()> {
    for streaming in [true, false] {
        let mut scene = scene(Limits { page: 1, ..Limits::default() }).await?;
        scene.proxy.rule(move |what| match () {
            () if what.contains("sendInitialEvents") && !streaming => {
                Some(Fault::Status(StatusCode::UNPROCESSABLE_ENTITY, None))
            }
            () if what.contains("continue=") => Some(Fault::CutAfter(100)),
            () if is_list(what) && streaming => Some(Fault::CutAfter(700)),
            () if is_watch(what) => Some(Fault::Event(GONE.to_owned())),
            () => None,
        });
        scene.proxy.forget_seen();
        scene.proxy.cut();
        scene.requests(|what| is_list(what) && what.contains("sendInitialEvents") == streaming, 4).await?;
        scene.change_everything().await?;
        scene.proxy.heal();
        assert_eq!(scene.followed.told().await?, EVERYTHING);
    }
    Ok(())
}

#[tokio::test]
async fn pages_whose_version_expired_are_asked_for_at_once() -> Result<()> {
    let room = Room::new().await?;
    for name in ["a", "b", "c"] {
        room.make_config_map(name, "1").await?;
    }
    let proxy = FaultProxy::start(room.client.clone()).await?;
    proxy.rule(|what| match () {
        () if what.contains("sendInitialEvents") => Some(Fault::Status(StatusCode::UNPROCESSABLE_ENTITY, None)),
        () if what.contains("continue=") => Some(Fault::Status(StatusCode::GONE, None)),
        () => None,
    });
    let api = proxy.api(Limits { page: 1, ..Limits::default() }).await?;
    let followed = Followed::synced(api, vec![config_maps(&room.namespace)], settings()).await?;
    assert_eq!(followed.names("configmaps"), ["a", "b", "c"]);
    assert_eq!(proxy.seen(&["continue="]).len(), 1);
    Ok(())
}

#[tokio::test]
async fn the_time_that_an_overloaded_server_asks_for_is_kept() -> Result<()> {
    let mut scene = scene(Limits::default()).await?;
    scene.proxy.rule(|what| is_watch(what).then_some(Fault::Status(StatusCode::TOO_MANY_REQUESTS, Some(1))));
    scene.proxy.forget_seen();
    scene.proxy.cut();
    let times = scene.requests(is_watch, 3).await?;
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_secs(1), "{:?}", pair[1] - pair[0]);
    }
    scene.change_everything().await?;
    scene.proxy.heal();
    scene.followed.until(|followed| followed.names("configmaps") == ["b", "c"]).await?;
    assert!(scene.requests(is_list, 0).await?.is_empty(), "what was known is good");
    Ok(())
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_and_asked_again() -> Result<()> {
    let limits = Limits { request: Duration::from_millis(300), ..Limits::default() };
    let mut scene = scene(limits).await?;
    scene.proxy.rule(|what| what.contains("configmaps").then_some(Fault::Silence));
    scene.proxy.forget_seen();
    scene.proxy.cut();
    scene.requests(is_watch, 2).await?;
    let state = scene.followed.state("configmaps", troubled).await?;
    assert!(state.trouble().is_some());
    scene.change_everything().await?;
    scene.proxy.heal();
    scene.followed.until(|followed| followed.names("configmaps") == ["b", "c"]).await
}

#[tokio::test]
async fn a_resource_that_is_not_found_for_a_moment_withdraws_nothing() -> Result<()> {
    let mut scene = scene(Limits::default()).await?;
    scene.proxy.rule(|what| what.contains("configmaps").then_some(Fault::Status(StatusCode::NOT_FOUND, None)));
    scene.proxy.forget_seen();
    scene.proxy.cut();
    scene.requests(is_watch, 3).await?;
    assert!(!scene.followed.state("configmaps", |_| true).await?.is_absent(), "discovery still has it");
    scene.change_everything().await?;
    scene.proxy.heal();
    scene.followed.until(|followed| followed.names("configmaps") == ["b", "c"]).await
}
