//! Plugins from a registry and from a ConfigMap: what is fetched guards; what is not there is named, waited for and loaded
//! by itself; and what serves goes on serving.

use std::{env, fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use haptic_e2e::{
    CONFIG, Cosign, Doors, HaproxyBuild, Haptic, Network, RegistryFolder, Run, Shop, SignatureFormat, binary,
    eventually, get, on_haproxy,
};
use sha2::{Digest, Sha256};

const PLUGINS: &str = "common/plugins.yaml";
const BUILTIN: &str = "    builtin:\n      name: error-file\n";
const PORT: u16 = 5000;

/// A first-party plugin as a file.
fn module(name: &str) -> Result<Vec<u8>> {
    let folder = env::var_os("HAPTIC_PLUGINS_DIR").map_or_else(
        || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache/haptic/plugins"),
        PathBuf::from,
    );
    let path = folder.join(format!("{name}.wasm"));
    fs::read(&path).with_context(|| format!("{} is missing: run `make plugins`", path.display()))
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The lines that take the place of [`BUILTIN`].
fn oci(image: &str, sha256: &str, more: &str) -> String {
    format!("    oci:\n      image: {image}\n  sha256: {sha256}\n{more}")
}

/// Breaks the error page, waits until the plugin names it, and mends it: the plugin guards.
async fn guards(shop: &Shop, haptic: &Haptic) -> Result<()> {
    let printed = haptic.lines().len();
    shop.edit(CONFIG, "HTTP/1.1 503 Service Unavailable", "503 Service Unavailable")?;
    haptic.said(printed, &["503.http", "error-file"]).await;
    let printed = haptic.lines().len();
    shop.edit(CONFIG, "        503 Service Unavailable", "        HTTP/1.1 503 Service Unavailable")?;
    haptic.said(printed, &["is accepted and serves"]).await;
    Ok(())
}

/// A condition of the plugin `error-file`: its status, reason and message.
fn condition(haptic: &Haptic, kind: &str) -> Option<(String, String, String)> {
    let plugins = haptic.status("plugins").ok()?;
    let plugin = plugins.as_array()?.iter().find(|plugin| plugin["name"] == "error-file")?;
    let found = plugin["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)?;
    let text = |field: &str| found[field].as_str().map(str::to_owned);
    Some((text("status")?, text("reason")?, text("message")?))
}

async fn has_condition(haptic: &Haptic, kind: &str, status: &str, reason: &str) -> String {
    let what = format!("the status to say {kind} {status} {reason}");
    eventually(&what, async || {
        let (found, why, message) = condition(haptic, kind)?;
        (found == status && why == reason).then_some(message)
    })
    .await
}

async fn from_a_registry(haproxy: HaproxyBuild) -> Result<()> {
    let network = Network::claim()?;
    let folder = RegistryFolder::new((network.address(1), PORT).into(), Doors::Open)?;
    let shop = Shop::open().await?;
    let (good, other) = (module("error-file")?, module("policy")?);
    let image = folder.image("acme/error-file:1");
    shop.edit(PLUGINS, BUILTIN, &oci(&image, &sha256(&good), ""))?;

    // The registry is down: the start waits, and says for what.
    let mut haptic = Haptic::start(&shop, &haproxy, Run::default())?;
    let message = has_condition(&haptic, "Fetched", "False", "Unreachable").await;
    ensure!(message.contains("acme/error-file") && message.contains("next step"), "{message}");
    has_condition(&haptic, "Ready", "False", "Unreachable").await;
    haptic.said(0, &["error-file", "Unreachable"]).await;
    ensure!(get(shop.http(), "shop.localhost", "/").await.is_err(), "nothing serves yet");

    // It comes up, and nothing else happens: the module is fetched and the shop served.
    let registry = folder.start().await?;
    let pushed = registry.push("acme/error-file:1", &good)?;
    haptic.wait_until_served(&shop).await;
    for kind in ["Fetched", "Verified", "Compiled", "Ready"] {
        has_condition(&haptic, kind, "True", "Succeeded").await;
    }
    guards(&shop, &haptic).await?;
    let told = haptic.lines_with(0, &["the module is not there"]).len();
    ensure!(told <= 2, "one line for each reason and not for each attempt: {told}");

    // A digest that the registry does not have under this name keeps what serves.
    let processes = haptic.processes()?;
    let printed = haptic.lines().len();
    shop.edit(PLUGINS, &sha256(&good), &sha256(&other))?;
    haptic.said(printed, &["error-file", "DigestMismatch"]).await;
    has_condition(&haptic, "Verified", "False", "DigestMismatch").await;
    let plugins = haptic.status("plugins")?;
    let serving = plugins.as_array().and_then(|list| list.iter().find(|plugin| plugin["name"] == "error-file"));
    ensure!(serving.is_some_and(|plugin| plugin["sha256"] == sha256(&good)), "the old module serves: {plugins}");
    ensure!(haptic.processes()? == processes, "nothing was reloaded");
    ensure!(get(shop.http(), "shop.localhost", "/").await?.served_by().is_some(), "and the shop is served");

    // By digest, with the registry gone: what was fetched once is kept.
    drop(registry);
    let printed = haptic.lines().len();
    let by_digest = fs::read_to_string(shop.manifests().join(PLUGINS)).context("read the plugins")?;
    shop.write(PLUGINS, &by_digest.replace(&sha256(&other), &sha256(&good)).replace(&image, &pushed))?;
    haptic.said(printed, &["is accepted and serves"]).await;
    haptic.stop().await;
    Ok(())
}

on_haproxy!(from_a_registry: a_plugin_from_a_registry_guards_and_is_waited_for = "3.4");

async fn ignored(haproxy: HaproxyBuild) -> Result<()> {
    let network = Network::claim()?;
    let folder = RegistryFolder::new((network.address(1), PORT).into(), Doors::Open)?;
    let shop = Shop::open().await?;
    let good = module("error-file")?;
    let image = folder.image("acme/error-file:1");
    shop.edit(PLUGINS, BUILTIN, &oci(&image, &sha256(&good), "  failurePolicy: Ignore\n"))?;
    let haptic = Haptic::serve(&shop, &haproxy).await?;
    haptic.said(0, &["error-file", "left out", "unchecked", "Unreachable", "next step"]).await;
    has_condition(&haptic, "Fetched", "False", "Unreachable").await;
    eventually("the status of the configuration to say so too", async || {
        haptic.status_text("config").contains("left out").then_some(())
    })
    .await;

    let registry = folder.start().await?;
    registry.push("acme/error-file:1", &good)?;
    has_condition(&haptic, "Ready", "True", "Succeeded").await;
    guards(&shop, &haptic).await?;
    Ok(())
}

on_haproxy!(ignored: a_plugin_that_may_be_missing_is_left_out_until_it_comes = "3.4");

async fn signed(haproxy: HaproxyBuild) -> Result<()> {
    let network = Network::claim()?;
    let folder = RegistryFolder::new((network.address(1), PORT).into(), Doors::Open)?;
    let registry = folder.start().await?;
    let shop = Shop::open().await?;
    let good = module("error-file")?;
    let pushed = registry.push("acme/error-file:1", &good)?;
    let cosign = Cosign::with_new_key()?;
    let indented: String = cosign.public_key()?.lines().map(|line| format!("    {line}\n")).collect();
    let more = format!("  cosignKey: |\n{indented}");
    shop.edit(PLUGINS, BUILTIN, &oci(&folder.image("acme/error-file:1"), &sha256(&good), &more))?;

    let mut haptic = Haptic::start(&shop, &haproxy, Run::default())?;
    let message = has_condition(&haptic, "Verified", "False", "SignatureMissing").await;
    ensure!(message.contains("cosign sign"), "{message}");
    ensure!(!shop.state().join("module-cache").join(format!("{}.wasm", sha256(&good))).exists(), "nothing was kept");
    haptic.stop().await;

    cosign.sign(&pushed, SignatureFormat::Bundle)?;
    let mut haptic = Haptic::serve(&shop, &haproxy).await?;
    has_condition(&haptic, "Verified", "True", "SignatureVerified").await;
    guards(&shop, &haptic).await?;
    haptic.stop().await;

    // What is kept on disk is proved again: a changed file is as good as none, and the registry is gone.
    drop(registry);
    let kept = shop.state().join("module-cache").join(format!("{}.wasm", sha256(&good)));
    let mut bytes = fs::read(&kept).context("read the kept module")?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&kept, bytes).context("change the kept module")?;
    let haptic = Haptic::start(&shop, &haproxy, Run::default())?;
    has_condition(&haptic, "Ready", "False", "Unreachable").await;
    Ok(())
}

on_haproxy!(signed: a_signed_plugin_is_verified_and_an_unsigned_one_never_runs = "3.4");

async fn config_map(haproxy: HaproxyBuild) -> Result<()> {
    let shop = Shop::open().await?;
    let good = module("error-file")?;
    let manifest = |bytes: &[u8]| {
        let packed = BASE64_STANDARD.encode(bytes);
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: modules, namespace: haptic}}\nbinaryData:\n  \
             error-file.wasm: {packed}\n"
        )
    };
    let module = format!("    configMap: {{name: modules, key: error-file.wasm}}\n  sha256: {}\n", sha256(&good));
    shop.edit(PLUGINS, BUILTIN, &module)?;
    let mut haptic = Haptic::start(&shop, &haproxy, Run::default())?;
    has_condition(&haptic, "Fetched", "False", "NotFound").await;
    shop.write("common/modules.yaml", &manifest(&good))?;
    haptic.wait_until_served(&shop).await;
    has_condition(&haptic, "Ready", "True", "Succeeded").await;
    guards(&shop, &haptic).await?;
    // Its content changes, and is not what is pinned.
    let printed = haptic.lines().len();
    shop.write("common/modules.yaml", &manifest(b"\0asm other bytes"))?;
    haptic.said(printed, &["error-file", "DigestMismatch"]).await;
    ensure!(get(shop.http(), "shop.localhost", "/").await?.served_by().is_some(), "the old one serves");
    Ok(())
}

on_haproxy!(config_map: a_module_in_a_config_map_is_noticed_when_it_changes = "3.4");

/// `haptic render` of the shop: exit code and what it complains of.
fn render(shop: &Shop, haproxy: &HaproxyBuild) -> Result<(bool, String)> {
    let mut command = Command::new(binary());
    command.arg("render");
    for folder in ["common", "standalone"] {
        command.arg("--standalone").arg(shop.manifests().join(folder));
    }
    let output = command.arg("--haproxy").arg(&haproxy.path).output().context("run haptic render")?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

async fn offline(haproxy: HaproxyBuild) -> Result<()> {
    let network = Network::claim()?;
    let address = (network.address(1), PORT).into();
    let folder = RegistryFolder::new(address, Doors::Private)?;
    let shop = Shop::open().await?;
    let good = module("error-file")?;
    let image = folder.image("acme/error-file:1");
    shop.edit(PLUGINS, BUILTIN, &oci(&image, &sha256(&good), ""))?;
    let (fine, said) = render(&shop, &haproxy)?;
    ensure!(!fine && said.contains("Unreachable") && said.contains("error-file"), "{said}");

    let registry = folder.start().await?;
    let (fine, said) = render(&shop, &haproxy)?;
    ensure!(!fine && said.contains("Unauthorized") && said.contains("pullSecret"), "{said}");

    let secret = BASE64_STANDARD.encode(haptic_e2e::docker_config(address, haptic_e2e::PASSWORD));
    shop.write(
        "common/pull.yaml",
        &format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: pull, namespace: haptic}}\n\
             type: kubernetes.io/dockerconfigjson\ndata: {{.dockerconfigjson: {secret}}}\n"
        ),
    )?;
    shop.edit(PLUGINS, &format!("image: {image}\n"), &format!("image: {image}\n      pullSecret: pull\n"))?;
    let (fine, said) = render(&shop, &haproxy)?;
    ensure!(!fine && said.contains("NotFound"), "signed in, and nothing is there: {said}");
    drop(registry);

    // The same folder without a password, to push to.
    let open = RegistryFolder::new(address, Doors::Open)?;
    let registry = open.start().await?;
    registry.push("acme/error-file:1", &good)?;
    let (fine, said) = render(&shop, &haproxy)?;
    ensure!(fine, "{said}");
    Ok(())
}

on_haproxy!(offline: offline_commands_fetch_once_and_say_the_same = "3.4");

/// The registry is asked for nothing that is not pinned; the schema says so first.
#[tokio::test]
async fn an_unpinned_module_is_no_manifest() -> Result<()> {
    let shop = Shop::open().await?;
    shop.edit(PLUGINS, BUILTIN, "    oci: {image: \"127.0.0.1:1/p:1\"}\n")?;
    let [haproxy] = haptic_e2e::builds(&["3.4"]).try_into().ok().context("one build")?;
    let (fine, said) = render(&shop, &haproxy)?;
    ensure!(!fine && said.contains("sha256 is required"), "{said}");
    ensure!(!said.contains("Unreachable"), "nobody was asked: {said}");
    Ok(())
}
