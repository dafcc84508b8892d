//! An API server that really goes away: in a cluster of its own, because the others need theirs.

use std::time::Duration;

use anyhow::{Context as _, Result};
use haptic_api as api;
use haptic_kubernetes::{Limits, ResourceState};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    cluster::{Cluster, Room, settings},
    followed::{BOUND, Followed, config_maps, spec, wanted},
};

#[tokio::test]
async fn an_api_server_that_stops_and_comes_back_loses_nothing() -> Result<()> {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start("outage")).await??;
    let room = Room::of(&cluster).await?;
    for name in ["a", "b"] {
        room.make_config_map(name, "1").await?;
    }
    let optional = api::WatchedResource { optional: true, ..spec("example.com/v1", "widgets", "") };
    let all = vec![config_maps(&room.namespace), wanted(&spec("v1", "services", "")), wanted(&optional)];
    let limits = Limits { request: Duration::from_secs(5), ..Limits::default() };
    let mut followed =
        Followed::synced(haptic_kubernetes::Api::new(room.client.clone(), limits), all, settings()).await?;
    let services = followed.names("services").len();
    assert!(services > 0, "every cluster has one for its API server");
    for kind in ["TERM", "KILL"] {
        cluster.stop_api_server(kind)?;
        followed.state("configmaps", |state| state.trouble().is_some()).await?;
        followed.state("services", |state| state.trouble().is_some()).await?;
        cluster.start_api_server()?;
        let ready = async { while room.patch_config_map("b", &json!({ "data": { "value": kind } })).await.is_err() {} };
        timeout(BOUND, ready).await.context("the API server does not come back")?;
        assert_eq!(followed.told().await?, ["Changed b"], "the first that is told is what happened");
        for resource in ["configmaps", "services", "widgets"] {
            followed.state(resource, |state: &ResourceState| state.trouble().is_none()).await?;
        }
        assert_eq!(followed.names("configmaps"), ["a", "b"]);
        assert_eq!(followed.names("services").len(), services);
    }
    Ok(())
}
