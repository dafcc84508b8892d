//! The shop is served over HTTP and HTTPS with the right certificates, and haptic ends without breaking anything.

use anyhow::{Context, Result};
use haptic_e2e::{
    HaproxyBuild, Haptic, Load, Run, Shop, builds, eventually, exclusive, get, on_haproxy,
    tls::{self, Sni},
};

async fn shop_is_served(haproxy: HaproxyBuild) -> Result<()> {
    let shop = Shop::open().await?;
    let web = shop.issue("shop-tls", "shop.localhost")?;
    let api = shop.issue("api-tls", "api.shop.localhost")?;
    let default = shop.issue("default-tls", "default.shop.localhost")?;
    let mut haptic = Haptic::serve(&shop, &haproxy).await?;

    for (host, names, certificate) in
        [("shop.localhost", ["web-1", "web-2"], &web), ("api.shop.localhost", ["api-1", "api-2"], &api)]
    {
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..8 {
            let plain = get(shop.http(), host, "/").await?;
            seen.insert(plain.served_by().with_context(|| format!("a wrong answer: {plain:?}"))?.to_owned());
        }
        assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), names, "both endpoints of {host} get traffic");
        let (answer, leaf) = tls::get(shop.https(), Sni::Name(host), host).await?;
        assert!(answer.served_by().is_some_and(|name| names.contains(&name)), "{answer:?}");
        assert_eq!(leaf, certificate.der, "the certificate of {host}");
    }
    let (_, leaf) = tls::get(shop.https(), Sni::Absent, "shop.localhost").await?;
    assert_eq!(leaf, default.der, "a client without a server name gets the default certificate");
    let (_, leaf) = tls::get(shop.https(), Sni::Name("nobody.localhost"), "shop.localhost").await?;
    assert_eq!(leaf, default.der, "a client with an unknown server name gets the default certificate");

    let unknown = get(shop.http(), "nobody.localhost", "/").await?;
    assert_eq!(unknown.status, 404, "a host that no Ingress has");
    assert!(haptic.stop().await.success(), "haptic ends with exit code 0");
    Ok(())
}

on_haproxy!(shop_is_served: serves_the_shop_on_3_0 = "3.0", serves_the_shop_on_3_2 = "3.2", serves_the_shop_on_3_4 = "3.4");

async fn statuses_are_written(haproxy: HaproxyBuild) -> Result<()> {
    let shop = Shop::open().await?;
    let haptic = Haptic::serve(&shop, &haproxy).await?;
    for name in ["config", "pods", "objects", "plugins"] {
        eventually(&format!("a status of {name}"), async || {
            haptic.status(name).ok().filter(|status| !status.is_null())
        })
        .await;
    }
    let plugins = haptic.status_text("plugins");
    for plugin in ["error-file", "policy", "network"] {
        assert!(plugins.contains(plugin), "the status of the plugins names {plugin}:\n{plugins}");
    }
    Ok(())
}

on_haproxy!(statuses_are_written: writes_statuses_that_people_read = "3.4");

async fn error_page_is_served(haproxy: HaproxyBuild) -> Result<()> {
    let shop = Shop::open().await?;
    let _haptic = Haptic::serve(&shop, &haproxy).await?;
    // No backend listens there.
    shop.edit(haptic_e2e::SLICES, &shop.address(21), &shop.address(91))?;
    shop.edit(haptic_e2e::SLICES, &shop.address(22), &shop.address(92))?;
    eventually("the shop's own error page", async || {
        let answer = get(shop.http(), "api.shop.localhost", "/").await.ok()?;
        (answer.status == 503 && answer.body.contains("The shop is closed for a moment")).then_some(())
    })
    .await;
    Ok(())
}

on_haproxy!(error_page_is_served: serves_the_error_page_of_the_config = "3.4");

/// A stop drains: what was asked gets its answer.
async fn stop_breaks_no_request(haproxy: HaproxyBuild) -> Result<()> {
    let _turn = exclusive().await;
    let shop = Shop::open().await?;
    let mut haptic = Haptic::serve(&shop, &haproxy).await?;
    let load = Load::start(shop.http(), &Shop::targets());
    load.flow(300).await;
    let status = haptic.stop().await;
    assert!(status.success(), "haptic ended with {status}");
    let report = load.finish().await;
    // Once nothing listens, connecting is refused: that is no broken request.
    let broken: Vec<_> = report.samples.iter().filter(|sample| !sample.contains("refused")).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    Ok(())
}

on_haproxy!(stop_breaks_no_request: stops_cleanly_under_load_on_3_0 = "3.0", stops_cleanly_under_load_on_3_4 = "3.4");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn once_leaves_haproxy_serving() -> Result<()> {
    let haproxy = builds(&["3.4"]).remove(0);
    let shop = Shop::open().await?;
    let mut haptic = Haptic::start(&shop, &haproxy, Run { once: true, ..Run::default() })?;
    let status = haptic.ended().await;
    assert!(status.success(), "haptic run --once ended with {status}:\n{}", haptic.lines().join("\n"));
    let answer = get(shop.http(), "shop.localhost", "/").await?;
    assert!(answer.served_by().is_some(), "{answer:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn once_says_why_it_could_not() -> Result<()> {
    let haproxy = builds(&["3.4"]).remove(0);
    let shop = Shop::open().await?;
    shop.edit(haptic_e2e::CONFIG, "HTTP/1.1 503 Service Unavailable", "503")?;
    let mut haptic = Haptic::start(&shop, &haproxy, Run { once: true, ..Run::default() })?;
    let status = haptic.ended().await;
    assert!(!status.success(), "a refused render is no success");
    haptic.said(0, &["503.http"]).await;
    assert!(get(shop.http(), "shop.localhost", "/").await.is_err(), "nothing was deployed");
    Ok(())
}
