//! What the page tells without being asked, with scripts and without.

use anyhow::{Result, ensure};
use haptic_e2e::Scripts;
use serde_json::Value;

use crate::Scene;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_tells_what_serves_without_scripts() -> Result<()> {
    let scene = Scene::open(Scripts::Off).await?;
    ensure!(scene.browser.count("#live").await? == 0, "scripts are off: nothing offers to refresh");
    check_facts(&scene).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_tells_what_serves_and_scripts_only_add_to_it() -> Result<()> {
    let scene = Scene::open(Scripts::On).await?;
    ensure!(scene.browser.count("#live").await? == 1, "the script offers to refresh");
    ensure!(
        scene.browser.execute("return document.getElementById('live').checked").await? == false,
        "and does not yet"
    );
    let when = scene.browser.text("#serving time").await?;
    ensure!(when == "now" || when.ends_with("ago"), "times are said as people say them: {when}");
    check_facts(&scene).await
}

async fn check_facts(scene: &Scene) -> Result<()> {
    let browser = &scene.browser;
    ensure!(browser.title().await? == "HAProxyTemplateConfig haptic/shop · haptic", "{}", browser.title().await?);
    let config = scene.haptic.status("config")?;
    let plan = config["observedPlan"].as_str().unwrap_or_default();
    let serving = browser.text("#serving").await?;
    ensure!(plan.len() == 64 && serving.contains(&plan[..12]), "the plan that serves is {plan}:\n{serving}");
    ensure!(serving.contains("1 of 1"), "one pod of one serves:\n{serving}");
    let pods = browser.text("#pods").await?;
    for words in ["local", "serving", "3.4", &plan[..12]] {
        ensure!(pods.contains(words), "{words} of the pod:\n{pods}");
    }
    let reconciliations = browser.text("#reconciliations").await?;
    ensure!(reconciliations.contains("all resources are read") && reconciliations.contains(" ms"), "{reconciliations}");
    let plugins = browser.text("#plugins").await?;
    for plugin in ["error-file", "policy", "network"] {
        ensure!(plugins.contains(plugin), "{plugins}");
    }
    let resources = browser.text("#resources").await?;
    for resource in ["ingresses 2 synced", "endpointslices 2 synced", "secrets 3 synced"] {
        ensure!(resources.contains(resource), "{resource}:\n{resources}");
    }
    ensure!(browser.text("#configuration").await?.contains("serves"), "the configuration is accepted");
    ensure!(browser.text("#identity").await?.contains("standalone"), "there is no leader");

    // The same as data.
    let answer = haptic_e2e::get(scene.shop.debug(), "localhost", "/debug/status").await?;
    let status: Value = serde_json::from_str(&answer.body)?;
    ensure!(status["serving"]["plan"] == plan && status["leadership"]["role"] == "standalone", "{status}");
    let metrics = haptic_e2e::get(scene.shop.debug(), "localhost", "/metrics").await?;
    ensure!(metrics.body.contains("haptic_reconciliation_total"), "{}", metrics.body);
    Ok(())
}
