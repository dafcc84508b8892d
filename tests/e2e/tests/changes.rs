//! Changes under load: what HAProxy takes at run time costs no reload, and nothing costs a request.

use std::time::Duration;

use anyhow::Result;
use haptic_e2e::{
    Certificate, HaproxyBuild, Haptic, Load, SLICES, Shop, eventually, exclusive, get, on_haproxy,
    tls::{self, Sni},
    within,
};

/// From the change of a file to the first request at the new place.
const MOVED_WITHIN: Duration = Duration::from_millis(200);

async fn endpoint_change(haproxy: HaproxyBuild) -> Result<()> {
    let _turn = exclusive().await;
    let shop = Shop::open().await?;
    let haptic = Haptic::serve(&shop, &haproxy).await?;
    let before = haptic.processes()?;
    let load = Load::start(shop.http(), &Shop::targets());
    load.flow(300).await;

    let moves = [
        (shop.address(22), shop.address(23), "api-3", "api-2"),
        (shop.address(23), shop.address(22), "api-2", "api-3"),
    ];
    for (from, to, newcomer, leaver) in moves {
        let served = shop.backend(newcomer).served();
        shop.edit(SLICES, &from, &to)?;
        within(MOVED_WITHIN, &format!("traffic on {newcomer}"), async || {
            (shop.backend(newcomer).served() > served).then_some(())
        })
        .await;
        load.flow(100).await;
        let left = shop.backend(leaver).served();
        load.flow(200).await;
        assert_eq!(shop.backend(leaver).served(), left, "{leaver} is no endpoint any more and still gets traffic");
    }

    // One endpoint less, and back.
    let slices = shop.read(SLICES)?;
    shop.edit(
        SLICES,
        "{ready: true}\n    targetRef: {kind: Pod, namespace: shop, name: web-2}",
        "{ready: false, serving: false, terminating: false}\n    targetRef: {kind: Pod, namespace: shop, name: web-2}",
    )?;
    load.flow(100).await;
    let left = shop.backend("web-2").served();
    load.flow(200).await;
    assert_eq!(shop.backend("web-2").served(), left, "web-2 is not ready and still gets traffic");
    shop.write(SLICES, &slices)?;
    within(MOVED_WITHIN, "traffic on web-2 again", async || (shop.backend("web-2").served() > left).then_some(()))
        .await;

    load.flow(100).await;
    load.finish().await.assert_clean();
    assert_eq!(haptic.processes()?, before, "an endpoint change needs no reload");
    Ok(())
}

on_haproxy!(endpoint_change:
    endpoint_change_moves_traffic_at_once_on_3_0 = "3.0",
    endpoint_change_moves_traffic_at_once_on_3_2 = "3.2",
    endpoint_change_moves_traffic_at_once_on_3_4 = "3.4",
);

async fn new_route(haproxy: HaproxyBuild) -> Result<()> {
    let _turn = exclusive().await;
    let shop = Shop::open().await?;
    let haptic = Haptic::serve(&shop, &haproxy).await?;
    let host = "new.shop.localhost";
    assert_eq!(get(shop.http(), host, "/").await?.status, 404);
    let before = haptic.processes()?;
    let reloads = u64::from(!haproxy.has_dynamic_backends());
    let load = Load::start(shop.http(), &Shop::targets());
    load.flow(300).await;

    let printed = haptic.lines().len();
    shop.write("standalone/new.yaml", &shop.route("new", host))?;
    eventually("the new route", async || get(shop.http(), host, "/").await.ok()?.served_by().map(|_| ())).await;
    for _ in 0..50 {
        let answer = get(shop.http(), host, "/").await?;
        assert!(
            answer.served_by().is_some_and(|name| name.starts_with("new-")),
            "a route that works goes on working: {answer:?}"
        );
    }
    load.flow(600).await;
    let added = haptic.processes()?;
    assert_eq!(added.reloads - before.reloads, reloads, "a new route on {}", haproxy.version);
    if reloads == 0 {
        assert_eq!(added.worker, before.worker);
    } else {
        let reasons = haptic.lines_with(printed, &["reload", "backend"]);
        assert!(!reasons.is_empty(), "the reason of the reload is printed:\n{}", haptic.lines()[printed..].join("\n"));
        assert!(haptic.status_text("pods").contains("backend"), "the status says why: {}", haptic.status_text("pods"));
    }

    shop.remove("standalone/new.yaml")?;
    eventually("the end of the route", async || {
        get(shop.http(), host, "/").await.ok().filter(|answer| answer.status == 404).map(|_| ())
    })
    .await;
    let goal = added.reloads + reloads;
    eventually("the reload of the removal", async || haptic.processes().ok().filter(|now| now.reloads >= goal)).await;
    load.flow(600).await;
    assert_eq!(haptic.processes()?.reloads, goal, "the removal of a route on {}", haproxy.version);
    assert!(!haptic.config()?.contains("shop_new"), "no backend of the removed route is left");
    load.finish().await.assert_clean();
    Ok(())
}

on_haproxy!(new_route:
    new_route_costs_one_reload_and_no_request_on_3_0 = "3.0",
    new_route_costs_one_reload_and_no_request_on_3_2 = "3.2",
    new_route_costs_no_reload_and_no_request_on_3_4 = "3.4",
);

async fn rotation(haproxy: HaproxyBuild) -> Result<()> {
    let _turn = exclusive().await;
    let shop = Shop::open().await?;
    let api = shop.issue("api-tls", "api.shop.localhost")?;
    let haptic = Haptic::serve(&shop, &haproxy).await?;
    let before = haptic.processes()?;
    let load = Load::start(shop.http(), &Shop::targets());
    load.flow(300).await;

    let web = shop.issue("shop-tls", "shop.localhost")?;
    shows(&shop, Sni::Name("shop.localhost"), &web).await;
    let default = shop.issue("default-tls", "default.shop.localhost")?;
    shows(&shop, Sni::Absent, &default).await;
    shows(&shop, Sni::Name("nobody.localhost"), &default).await;
    shows(&shop, Sni::Name("api.shop.localhost"), &api).await;
    shows(&shop, Sni::Name("shop.localhost"), &web).await;

    load.flow(300).await;
    load.finish().await.assert_clean();
    assert_eq!(haptic.processes()?, before, "a new certificate needs no reload");
    Ok(())
}

async fn shows(shop: &Shop, sni: Sni<'_>, expected: &Certificate) {
    eventually(&format!("the new certificate for {sni:?}"), async || {
        let (answer, leaf) = tls::get(shop.https(), sni, "shop.localhost").await.ok()?;
        (answer.served_by().is_some() && leaf == expected.der).then_some(())
    })
    .await;
}

on_haproxy!(rotation:
    rotates_certificates_without_reload_on_3_0 = "3.0",
    rotates_certificates_without_reload_on_3_2 = "3.2",
    rotates_certificates_without_reload_on_3_4 = "3.4",
);
