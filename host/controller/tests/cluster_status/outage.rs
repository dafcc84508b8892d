//! The API server goes and comes back.

use anyhow::Result;
use serde_json::Value;

use crate::{
    cluster::Cluster,
    scene::{Scene, eventually},
};

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_while_nobody_could_write_is_written_after_it_and_a_term_ends_all_the_same() -> Result<()> {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start("status")).await??;
    let scene = Scene::alone(&cluster).await?;
    let web = scene.ingress("web", "web.example").await?;
    let term = scene.lead(&["a"]);
    let first = scene.render(1, std::slice::from_ref(&web));
    term.serves(&first, &["a"]);
    scene.condition("Deployed", "True", "AllPodsServe").await?;

    cluster.stop_api_server("KILL")?;
    let second = scene.render(2, &[]);
    term.serves(&second, &["a"]);
    cluster.start_api_server()?;
    let plan = second.plan().to_string();
    eventually("the newest is published, and only it", || async {
        let all = scene.published("haproxycfgs").await?;
        Ok((all.len() == 1 && all[0]["spec"]["plan"] == *plan).then_some(Value::Null))
    })
    .await?;

    cluster.stop_api_server("KILL")?;
    term.serves(&scene.render(3, std::slice::from_ref(&web)), &["a"]);
    term.end().await
}
