//! The life of a release: installed, tested, upgraded under load, rolled back, removed.

use std::time::Duration;

use anyhow::{Context as _, Result};
use haptic_e2e::{
    Load, Scrape,
    cluster::{TEMPLATE_CONFIG, reason_of},
    exclusive, ingress, within,
};
use serde_json::{Value, json};

use crate::{
    helm::{Helm, chart},
    release::{Release, inventory},
};

/// A header that names the revision in every answer.
fn revision(name: &str) -> Value {
    let template = format!("http-response set-header X-Revision {name}\n");
    json!({ "config": { "templateSnippets": { "frontend/90-revision": { "template": template } } } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helm_3_installs_upgrades_under_load_rolls_back_and_leaves_nothing() -> Result<()> {
    let _turn = exclusive().await;
    life(Release::prepare(Helm::three()?, "helm3").await?).await
}

/// Watches namespaces that are named, so that Roles are in play.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helm_4_installs_upgrades_under_load_rolls_back_and_leaves_nothing() -> Result<()> {
    let _turn = exclusive().await;
    let mut release = Release::prepare(Helm::four()?, "helm4").await?;
    let watched = |resource: &str, version: &str, second: &str| {
        json!({ "apiVersion": version, "resources": resource, "indexBy": ["metadata.namespace", second],
                "namespaces": [release.room.shop()] })
    };
    let slice = "metadata.labels['kubernetes.io/service-name']";
    let mut ingresses = watched("ingresses", "networking.k8s.io/v1", "metadata.name");
    ingresses["enableValidationWebhook"] = true.into();
    let narrow = json!({ "config": { "watchedResources": {
        "ingresses": ingresses,
        "services": watched("services", "v1", "metadata.name"),
        "secrets": watched("secrets", "v1", "metadata.name"),
        "endpointslices": watched("endpointslices", "discovery.k8s.io/v1", slice),
    } } });
    release.set(&narrow);
    life(release).await
}

async fn life(release: Release) -> Result<()> {
    let room = &release.room;
    let before = inventory(room).await?;

    // A chart of an older version, from its package.
    let folder = tempfile::tempdir().context("make a folder")?;
    let path = folder.path().to_str().context("a path is text")?;
    release.helm(&["package", &chart("haptic"), "--version", "0.0.9", "--destination", path])?;
    let older = folder.path().join("haptic-0.0.9.tgz");
    release.deploy(older.to_str().context("a path is text")?, &revision("first"))?;
    release.all_ready().await?;
    release.check_routes().await?;
    release.answers_with("x-revision", Some("first")).await?;
    let accepted = |config: &Value| reason_of(config, "Accepted").starts_with("True ").then_some(());
    let config = (TEMPLATE_CONFIG, room.system(), "haptic");
    room.objects.until(config, "the configuration to be accepted", accepted).await?;
    metrics_are_served(&release).await?;
    admission_is_asked(&release).await?;
    let said = release.helm(&["test", "haptic", "--timeout", "300s"])?;
    assert!(said.contains("Succeeded"), "{said}");

    // Another configuration, other pods of both kinds, another version of the chart.
    let service = room.service("haptic-haproxy", 80).await?;
    let load = Load::start(service.address(), &Release::targets());
    load.flow(300).await;
    let mut second = revision("second");
    second["controller"] = json!({ "logLevel": "info,haptic=debug" });
    second["haproxy"] = json!({ "podAnnotations": { "revision": "second" }, "priorityClassName": "" });
    release.deploy(&chart("haptic"), &second)?;
    release.all_ready().await?;
    release.answers_with("x-revision", Some("second")).await?;
    load.flow(300).await;
    release.helm(&["rollback", "haptic", "1", "--wait", "--timeout", "300s"])?;
    release.all_ready().await?;
    release.answers_with("x-revision", Some("first")).await?;
    load.flow(300).await;
    let report = load.finish().await;
    assert_eq!(report.failed, 0, "{} of {} requests failed: {:#?}", report.failed, report.requests, report.samples);
    release.check_routes().await?;

    release.helm(&["uninstall", "haptic", "--wait", "--timeout", "300s"])?;
    let bound = Duration::from_mins(2);
    let mut left = Vec::new();
    within(bound, "nothing to be left of the release", async || {
        left = inventory(room).await.ok()?.difference(&before).cloned().collect();
        left.is_empty().then_some(())
    })
    .await;
    release.room.close().await
}

/// Of HAProxy on its own port, of its agent beside the probes, of the controllers behind their Service.
async fn metrics_are_served(release: &Release) -> Result<()> {
    for (port, family) in [(8404, "haproxy_process_"), (5557, "haptic_agent_")] {
        for (pod, door) in release.doors(port).await? {
            let text = Scrape::text(door.address()).await?;
            assert!(text.contains(family), "{}: {text}", pod.name);
        }
    }
    let service = release.room.service("haptic-metrics", 9090).await?;
    let text = Scrape::text(service.address()).await?;
    assert!(text.contains("haptic_reconciliation"), "{text}");
    Ok(())
}

/// The webhook answers with the certificate that the controllers issued: an Ingress that HAProxy would choke on is
/// refused with its name, a good one is taken.
async fn admission_is_asked(release: &Release) -> Result<()> {
    let room = &release.room;
    let manifest = |name: &str, balance: &str| {
        let balance = [("haptic.rs/load-balance", balance)];
        room.manifest(&ingress(name, &format!("{name}.localhost"), "/", &balance, "web"))
    };
    let bad = manifest("bad", "heavy")?.remove(0);
    let refused = within(Duration::from_mins(2), "the webhook to refuse a bad Ingress", async || {
        let refusal = format!("{:#}", room.objects.try_out(&bad).await.err()?);
        // Until the authority is in the webhook configuration, the API server fails instead.
        (!refusal.contains("failed calling webhook")).then_some(refusal)
    });
    let (said, _) = refused.await;
    assert!(said.contains("bad") && said.contains("load-balance"), "{said}");
    room.objects.try_out(&manifest("good", "leastconn")?.remove(0)).await.map(|_| ())
}
