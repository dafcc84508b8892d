//! A configuration that is wrong, and plugins that are: the last good one keeps serving, and the message helps.

use std::{env, fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result, ensure};
use haptic_e2e::{CONFIG, HaproxyBuild, Haptic, Load, SLICES, Shop, eventually, exclusive, get, on_haproxy, within};
use sha2::{Digest, Sha256};

const BASE: &str = "common/libraries/base.yaml";

/// Breaks a file, waits for the message, proves that nothing changed, mends it, and proves that changes arrive again.
async fn refused(shop: &Shop, haptic: &Haptic, path: &str, broken: &str, words: &[&str]) -> Result<()> {
    let good = shop.read(path)?;
    let before = haptic.file_set()?;
    let processes = haptic.processes()?;
    let printed = haptic.lines().len();
    let load = Load::start(shop.http(), &Shop::targets());

    shop.write(path, broken)?;
    let said = haptic.said(printed, words).await;
    ensure!(names_a_line(&said), "the message names a line: {said}");
    ensure!(said.contains("next step") || said.contains("hint"), "the message says what to do: {said}");
    load.flow(300).await;
    ensure!(haptic.file_set()? == before, "a refused configuration writes nothing");
    ensure!(haptic.processes()? == processes, "a refused configuration reloads nothing");

    shop.write(path, &good)?;
    let served = shop.backend("api-3").served();
    shop.edit(SLICES, &shop.address(22), &shop.address(23))?;
    eventually("a change after the configuration was mended", async || {
        (shop.backend("api-3").served() > served).then_some(())
    })
    .await;
    shop.edit(SLICES, &shop.address(23), &shop.address(22))?;
    load.finish().await.assert_clean();
    Ok(())
}

/// `something:12`, with or without a column.
fn names_a_line(text: &str) -> bool {
    text.split(|c: char| c.is_whitespace() || "`\"(),".contains(c)).any(|word| {
        let mut parts = word.trim_end_matches(':').split(':');
        let named = parts.next().is_some_and(|file| file.contains(|c: char| c.is_alphabetic()));
        let line = parts.next().is_some_and(|line| !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit()));
        named && line
    })
}

async fn bad_configurations(haproxy: HaproxyBuild) -> Result<()> {
    let _turn = exclusive().await;
    let shop = Shop::open().await?;
    let haptic = Haptic::serve(&shop, &haproxy).await?;

    let config = shop.read(CONFIG)?;
    let template_error = config.replace("{{ network }} office", "{{ network | no_such_filter }} office");
    assert_ne!(template_error, config);
    refused(&shop, &haptic, CONFIG, &template_error, &["networks.map", "no_such_filter"]).await?;

    let undefined = config.replace("{{ network }} office", "{{ netwrk.name }} office");
    refused(&shop, &haptic, CONFIG, &undefined, &["networks.map", "netwrk"]).await?;

    let incomplete = config.replace("HTTP/1.1 503 Service Unavailable", "503 Service Unavailable");
    assert_ne!(incomplete, config);
    refused(&shop, &haptic, CONFIG, &incomplete, &["503.http", "error-file"]).await?;

    let base = shop.read(BASE)?;
    let line =
        base.lines().find(|line| line.trim() == "default-path config").context("base.yaml has a global section")?;
    let forbidden =
        base.replace(line, &line.replace("default-path config", "default-path config\n        insecure-fork-wanted"));
    refused(&shop, &haptic, BASE, &forbidden, &["insecure-fork-wanted", "policy"]).await?;

    // HAProxy's own refusal.
    let unknown =
        base.replace(line, &line.replace("default-path config", "default-path config\n        no-such-directive 1"));
    refused(&shop, &haptic, BASE, &unknown, &["no-such-directive"]).await?;
    Ok(())
}

on_haproxy!(bad_configurations:
    keeps_the_last_good_configuration_on_3_0 = "3.0",
    keeps_the_last_good_configuration_on_3_4 = "3.4",
);

/// The manifest of a plugin from a file, pinned to what the file holds.
fn guest(name: &str, fault: &str, policy: &str) -> Result<String> {
    let folder = env::var_os("HAPTIC_GUESTS_DIR").map_or_else(
        || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache/haptic/guests"),
        PathBuf::from,
    );
    let path = folder.join("fault.wasm");
    let module = fs::read(&path).with_context(|| format!("{} is missing: run `make guests`", path.display()))?;
    let digest = hex::encode(Sha256::digest(&module));
    Ok(format!(
        "apiVersion: haptic.rs/v1alpha1\nkind: HAProxyPlugin\nmetadata: {{name: {name}, namespace: haptic}}\nspec:\n  \
         module: {{file: {{path: {}}}}}\n  sha256: {digest}\n  failurePolicy: {policy}\n  \
         config: {{on_call: {fault}}}\n  limits: {{timeout: 100ms, memory: 16Mi}}\n",
        path.display()
    ))
}

/// Adds a plugin that checks the error page of the shop.
fn enlist(shop: &Shop, name: &str) -> Result<()> {
    shop.edit(CONFIG, "    - name: network\n", &format!("    - name: network\n    - name: {name}\n"))?;
    shop.edit(
        CONFIG,
        "  validators:\n",
        &format!("  validators:\n    - plugin: {name}\n      files: [\"general/*.http\"]\n"),
    )
}

async fn greedy_plugins(haproxy: HaproxyBuild) -> Result<()> {
    for (name, fault, limit) in [("looping", "loop", "100 ms"), ("hungry", "memory-hog", "16777216 bytes")] {
        let shop = Shop::open().await?;
        shop.write("common/guest.yaml", &guest(name, fault, "Ignore")?)?;
        enlist(&shop, name)?;
        // With the policy Ignore the rest goes on: the shop is served, and a change arrives.
        let haptic = Haptic::serve(&shop, &haproxy).await?;
        haptic.said(0, &[name, limit, "was stopped"]).await;
        let served = shop.backend("api-3").served();
        shop.edit(SLICES, &shop.address(22), &shop.address(23))?;
        within(Duration::from_secs(10), "a change beside a plugin that is stopped each time", async || {
            get(shop.http(), "api.shop.localhost", "/").await.ok()?;
            (shop.backend("api-3").served() > served).then_some(())
        })
        .await;
        // With the policy Fail it stops what it guards, and the last good configuration serves.
        let printed = haptic.lines().len();
        let processes = haptic.processes()?;
        shop.write("common/guest.yaml", &guest(name, fault, "Fail")?)?;
        haptic.said(printed, &[name, limit, "was stopped"]).await;
        for target in Shop::targets() {
            assert!(get(shop.http(), &target.host, "/").await?.served_by().is_some(), "{}", target.host);
        }
        assert_eq!(haptic.processes()?, processes);
    }
    Ok(())
}

on_haproxy!(greedy_plugins: stops_and_names_greedy_plugins = "3.4");
