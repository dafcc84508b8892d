//! A private key and passwords are planted where they may be, and looked for in everything that was written.

use std::sync::Arc;

use anyhow::Result;
use haptic_model::{CONFIG_PATH, File, FileKind, FilePath};
use serde_json::{Value, json};

use crate::scene::{CONFIG, INGRESS, Scene, eventually};

/// Each of them is one word that stands nowhere else.
const SECRETS: [&str; 4] = ["kEYmATERIAL0001", "pASSWORD0002", "hASH0003", "tOKEN0004"];

#[tokio::test(flavor = "multi_thread")]
async fn no_key_and_no_password_is_in_anything_that_is_written() -> Result<()> {
    let config = format!(
        "{CONFIG}userlist people\n  user ann insecure-password pASSWORD0002\n  user bob password $6$salt$hASH0003\n\
         frontend admin\n  stats auth ann:pASSWORD0002\n  http-request set-header Authorization \"Bearer tOKEN0004\"\n"
    );
    let scene = Scene::with(json!({ "ingressStatus": { "addresses": ["192.0.2.1"] } }), &config, INGRESS).await?;
    let web = scene.ingress("web", "web.example").await?;
    let mut broken = scene.ingress("broken", "broken.example").await?;
    broken["spec"]["rules"] = json!([]);
    let mut render = (*scene.render(1, &[web, broken])).clone();
    let key = "-----BEGIN EC PRIVATE KEY-----\nkEYmATERIAL0001\n-----END EC PRIVATE KEY-----\n";
    let mut files = (*render.output.rendered.files).clone();
    for (path, kind) in [
        ("certs/web.pem", FileKind::Cert),
        ("general/signer.txt", FileKind::General),
        ("maps/keys.map", FileKind::Map),
        ("general/ca.pem", FileKind::Ca),
    ] {
        let path = FilePath::new(path)?;
        files.insert(path.clone(), File::new(path, kind, key.to_owned()));
    }
    let rendered = String::from_utf8_lossy(&files[CONFIG_PATH].content).into_owned();
    assert!(SECRETS[1..].iter().all(|secret| rendered.contains(secret)), "they are planted: {rendered}");
    render.output.rendered.files = Arc::new(files);
    let render = Arc::new(render);

    let term = scene.lead(&["a"]);
    term.serves(&render, &["a"]);
    scene.condition("Deployed", "True", "AllPodsServe").await?;
    let cfg = eventually("everything is published", || async {
        let cfg = scene.published("haproxycfgs").await?.pop();
        Ok(cfg.filter(|cfg| cfg["status"]["withheldFiles"].as_array().is_some_and(|files| files.len() == 4)))
    })
    .await?;
    eventually("the broken one is told of", || async {
        Ok(scene.list("apis/events.k8s.io/v1", "events").await?.pop())
    })
    .await?;
    let content = cfg["spec"]["content"].as_str().unwrap_or_default();
    assert!(content.contains("insecure-password ***") && content.contains("backend b_web"), "{content}");
    assert!(cfg["status"]["withheldFiles"].to_string().contains("certs/web.pem"));
    term.end().await?;

    let config = scene.config().await?["status"].clone();
    let mut written = vec![config];
    for resources in ["haproxycfgs", "haproxymapfiles", "haproxygeneralfiles", "haproxycrtlistfiles"] {
        written.extend(scene.published(resources).await?);
    }
    written.extend(scene.list("apis/events.k8s.io/v1", "events").await?);
    written.extend(scene.list("apis/networking.k8s.io/v1", "ingresses").await?);
    let text = Value::Array(written).to_string();
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} was written");
    }
    Ok(())
}
