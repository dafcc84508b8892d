//! Secrets of which only the metadata is kept: certificates are read when a route needs them.

use anyhow::Result;
use haptic_e2e::{
    Certificate,
    cluster::served::{HAPTIC, HOSTS, HTTPS, Served},
    eventually, exclusive,
    tls::{self, Sni},
};
use serde_json::Value;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_that_are_read_on_demand_are_served_and_renewed() -> Result<()> {
    let _turn = exclusive().await;
    let on_demand = |object: &mut Value| {
        if let Some(secrets) = object.pointer_mut("/spec/watchedResources/secrets") {
            secrets["store"] = "on-demand".into();
        }
    };
    let served = Served::prepare("on-demand").await?;
    served.finish(&on_demand).await?;
    // Single Secrets are read, which what is kept whole does not need.
    served.permit_changed(&on_demand).await?;
    served.ready().await?;
    served.check_routes().await?;
    shows(&served, &served.certificate).await?;

    let renewed = Certificate::issue(HOSTS[0].0)?;
    served.room.apply_text(&renewed.manifest("shop-tls")).await?;
    shows(&served, &renewed).await?;
    served.add_route("more", "more.localhost").await?;

    // What metadata cannot answer is refused with its place, and what serves goes on.
    let patch = serde_json::json!({ "spec": { "watchedResources": { "secrets": {
        "apiVersion": "v1", "resources": "secrets", "store": "on-demand", "fieldSelector": "type=kubernetes.io/tls",
    } } } });
    let refused = served.judged(served.configure(&patch).await?).await?;
    assert!(refused.starts_with("False ") && refused.contains("`type` is no metadata"), "{refused}");
    shows(&served, &renewed).await?;
    for pod in served.room.pods(HAPTIC).await? {
        assert!(!served.room.log(&pod.name, "haptic").contains("PRIVATE KEY"), "no key is logged");
    }
    served.room.close().await
}

/// Waits until every HAProxy pod shows this certificate.
async fn shows(served: &Served, certificate: &Certificate) -> Result<()> {
    let host = HOSTS[0].0;
    for (pod, door) in served.doors(HTTPS).await? {
        eventually(&format!("the certificate of {host} from {}", pod.name), async || {
            let (answer, leaf) = tls::get(door.address(), Sni::Name(host), host).await.ok()?;
            (answer.status == 200 && leaf == certificate.der).then_some(())
        })
        .await;
    }
    Ok(())
}
