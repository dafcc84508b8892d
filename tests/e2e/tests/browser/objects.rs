//! Objects with something wrong: they appear with place and next step, and go when they are mended.

use anyhow::{Result, ensure};
use haptic_e2e::{Scripts, eventually, get, ingress};

use crate::Scene;

const BAD: &str = "#objects article.error";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_object_appears_with_its_place_and_goes_when_it_is_mended() -> Result<()> {
    let scene = Scene::open(Scripts::On).await?;
    let browser = &scene.browser;
    scene.go("/").await?;
    ensure!(browser.text("#objects").await?.contains("Nothing is wrong"), "all is well");
    // From here on the page is not opened again: it refreshes itself, as somebody wants.
    browser.click("#live").await?;
    browser.execute("window.opened = 1").await?;

    let annotations = [("haptic.rs/load-balance", "dice")];
    scene.shop.write("common/bad.yaml", &ingress("bad", "bad.localhost", "/", &annotations, "web"))?;
    let said = eventually("the rejected object", async || browser.text(BAD).await.ok()).await;
    for words in [
        "Ingress shop/bad",
        "annotation haptic.rs/load-balance is not valid",
        "InvalidValue",
        "ingress.yaml:",
        "correct or remove the annotation",
    ] {
        ensure!(said.contains(words), "{words}:\n{said}");
    }
    ensure!(browser.text("#serving").await?.contains("Rejected objects"), "it is counted, too");
    ensure!(get(scene.shop.http(), "shop.localhost", "/").await?.served_by().is_some(), "the others serve");

    // A manifest that cannot be read at all.
    scene.shop.write("common/torn.yaml", "kind: [Ingress\n")?;
    eventually("the torn manifest", async || {
        browser.text("#objects").await.ok().filter(|all| all.contains("torn.yaml"))
    })
    .await;

    scene.shop.write("common/bad.yaml", &ingress("bad", "bad.localhost", "/", &[], "web"))?;
    scene.shop.remove("common/torn.yaml")?;
    eventually("nothing to be wrong any more", async || {
        browser.text("#objects").await.ok().filter(|all| all.contains("Nothing is wrong"))
    })
    .await;
    ensure!(browser.execute("return window.opened").await? == 1, "it is the same document");
    ensure!(get(scene.shop.http(), "bad.localhost", "/").await?.served_by().is_some(), "the mended one serves");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_that_is_not_accepted_is_told_while_the_last_good_one_serves() -> Result<()> {
    let scene = Scene::open(Scripts::Off).await?;
    scene.shop.edit(
        haptic_e2e::CONFIG,
        "errorfile 503 general/503.http",
        "errorfile 503 general/503.http {{ nowhere }}",
    )?;
    let said = scene.eventually("/", "#configuration", "not accepted").await;
    ensure!(
        said.contains("`nowhere` is undefined") && said.contains("snippet frontend/40-shop:1"),
        "what and where:\n{said}"
    );
    ensure!(said.contains("serves"), "the last good one goes on:\n{said}");
    ensure!(scene.browser.text("#serving [role=alert]").await?.contains("not accepted"), "it is told on top");
    scene.shop.edit(haptic_e2e::CONFIG, " {{ nowhere }}", "")?;
    haptic_e2e::eventually("the configuration to be accepted", async || {
        scene.go("/").await.ok()?;
        scene.browser.text("#configuration").await.ok().filter(|text| !text.contains("not accepted"))
    })
    .await;
    Ok(())
}
