//! Searches, typed into the forms; what they say is held against HAProxy itself.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::{Scripts, binary, builds, get, ingress};
use serde_json::Value;

use crate::Scene;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_is_found_by_its_number_and_by_its_text() -> Result<()> {
    let scene = Scene::open(Scripts::Off).await?;
    let config = scene.haptic.config()?;
    let number = config.lines().position(|line| line.contains("server web-1")).context("a server line")? + 1;
    let found = scene.ask(&[("line", &number.to_string())]).await?;
    for words in [
        &format!("haproxy.cfg:{number}"),
        "server web-1",
        "Ingress shop/web",
        "ingresses.yaml:",
        "HAProxyTemplateLibrary default/ingress, snippet ingress",
        "ingress.yaml:",
    ] {
        ensure!(found.contains(words), "{words}:\n{found}");
    }
    ensure!(scene.browser.url().await?.contains(&format!("line={number}")), "an answer has an address of its own");

    let found = scene.ask(&[("line", "API.shop.localhost")]).await?;
    ensure!(found.contains("maps/path-prefix.map:") && found.contains("Ingress shop/api"), "{found}");

    ensure!(scene.ask(&[("line", "no line has this")]).await?.contains("No line has it"), "nothing is found");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_and_path_go_where_the_page_and_the_command_say() -> Result<()> {
    let scene = Scene::open(Scripts::On).await?;
    let manifest = format!(
        "{}---\n{}---\n{}",
        ingress("cart", "shop.localhost", "/cart", &[], "api"),
        ingress("wild", "*.shop.localhost", "/wild", &[], "web"),
        ingress("deep", "shop.localhost", "/cart/deep/", &[], "web"),
    );
    scene.shop.write("common/more.yaml", &manifest)?;
    scene.eventually("/?host=deep.shop.localhost&path=/wild/x", "#answer", "shop_wild_web_80").await;

    let cases = [
        ("shop.localhost", "/"),
        ("shop.localhost", "/cart"),
        ("shop.localhost", "/cart/1"),
        ("shop.localhost", "/cartoon"),
        ("shop.localhost", "/cart/deep"),
        ("shop.localhost", "/cart/deep/er?x=1"),
        ("SHOP.localhost.", "/cart/"),
        ("api.shop.localhost", "/wild"),
        ("other.shop.localhost", "/wild/x"),
        ("other.shop.localhost", "/"),
        ("nobody.localhost", "/"),
    ];
    for (host, path) in cases {
        let said = scene.ask(&[("host", host), ("path", path)]).await?;
        let offline = explain(&scene, &["--host", host, "--path", path])?;
        // Every server gets a request in turn.
        for _ in 0..4 {
            let answer = get(scene.shop.http(), host, path).await?;
            match answer.served_by() {
                Some(server) => {
                    ensure!(said.contains(&format!("{server} ")), "{server} served {host}{path}:\n{said}");
                    ensure!(offline.contains(server), "{server} served {host}{path}: {offline}");
                }
                None => {
                    ensure!(answer.status == 404 && said.contains("no route"), "{host}{path}: {answer:?}\n{said}");
                    ensure!(offline.contains("no route"), "{offline}");
                }
            }
        }
    }
    Ok(())
}

/// What `haptic explain` says of the same manifests.
fn explain(scene: &Scene, question: &[&str]) -> Result<String> {
    let mut command = Command::new(binary());
    command.arg("explain").args(question).args(["--output", "json"]).arg("--haproxy").arg(&builds(&["3.4"])[0].path);
    for folder in ["common", "standalone"] {
        command.arg("--standalone").arg(scene.shop.manifests().join(folder));
    }
    let output = command.output().context("run haptic explain")?;
    let said: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("haptic explain: {}", String::from_utf8_lossy(&output.stderr)))?;
    let found = output.status.success();
    ensure!(found == said["entry"].is_object(), "the exit code tells whether there is a route: {said}");
    Ok(said.to_string())
}
