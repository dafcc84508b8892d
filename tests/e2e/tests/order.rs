//! The same objects give the same bytes, wherever and in whatever order they are written.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::Result;
use haptic_e2e::{HaproxyBuild, Haptic, Shop, eventually, get, on_haproxy};

const SOURCES: [&str; 4] =
    ["common/services.yaml", "common/ingresses.yaml", "common/plugins.yaml", "standalone/endpointslices.yaml"];

async fn file_order(haproxy: HaproxyBuild) -> Result<()> {
    let shop = Shop::open().await?;
    shop.write("standalone/new.yaml", &shop.route("new", "new.shop.localhost"))?;
    let straight = rendered(&shop, &haproxy).await?;

    // Every document into a file of its own, in names that sort the other way round.
    let mut documents = Vec::new();
    for source in SOURCES.into_iter().chain(["standalone/new.yaml"]) {
        documents.extend(shop.read(source)?.split("\n---\n").map(str::to_owned));
        shop.remove(source)?;
    }
    for (number, document) in documents.iter().enumerate() {
        let folder = if number % 2 == 0 { "common/a" } else { "standalone/z" };
        shop.write(&format!("{folder}/{:03}.yaml", documents.len() - number), &format!("{document}\n"))?;
    }
    let shuffled = rendered(&shop, &haproxy).await?;

    assert_eq!(straight.keys().collect::<Vec<_>>(), shuffled.keys().collect::<Vec<_>>());
    for (path, content) in &straight {
        let (one, two) = (String::from_utf8_lossy(content), String::from_utf8_lossy(&shuffled[path]));
        assert_eq!(one, two, "{}", path.display());
    }
    Ok(())
}

/// The file set of a haptic that starts from nothing.
async fn rendered(shop: &Shop, haproxy: &HaproxyBuild) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut haptic = Haptic::serve(shop, haproxy).await?;
    eventually("the third route", async || {
        get(shop.http(), "new.shop.localhost", "/").await.ok()?.served_by().map(|_| ())
    })
    .await;
    let set = haptic.file_set()?;
    assert!(haptic.stop().await.success());
    std::fs::remove_dir_all(shop.state())?;
    Ok(set)
}

on_haproxy!(file_order: same_input_in_another_order_gives_the_same_bytes = "3.4");
