//! What a configuration would make of the objects of a cluster, told before it is there.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use anyhow::{Context as _, Result};
use haptic_e2e::{Certificate, binary, builds, cluster::Room, exclusive, ingress};
use serde_json::{Value, json};

/// Code, standard output, and what it complained about.
fn preflight(room: &Room, config: &Path) -> Result<(i32, String, String)> {
    let mut command = Command::new(binary());
    command.args(["preflight", "--config-dir"]).arg(config).arg("--kubeconfig").arg(room.cluster().kubeconfig());
    command.arg("--haproxy").arg(builds(&["3.4"]).remove(0).path);
    let Output { status, stdout, stderr } = command.output().context("run haptic preflight")?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((status.code().context("a signal ended it")?, text(stdout), text(stderr)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_the_cluster_are_judged_without_a_controller() -> Result<()> {
    let _turn = exclusive().await;
    let room = Room::open("preflight").await?;
    for (name, host) in
        [("shop-tls", "shop.localhost"), ("api-tls", "api.shop.localhost"), ("default-tls", "x.localhost")]
    {
        room.apply_text(&Certificate::issue(host)?.manifest(name)).await?;
    }
    for part in ["common/services.yaml", "common/ingresses.yaml"] {
        room.apply(&room.example(part)?).await?;
    }
    let folder = tempfile::tempdir().context("make a folder")?;
    let write = |name: &str, objects: &[Value]| {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        fs::write(folder.path().join(name), list.to_string()).context("write manifests")
    };
    for (number, part) in ["common/libraries", "common/plugins.yaml"].into_iter().enumerate() {
        write(&format!("{number}.yaml"), &room.example(part)?)?;
    }
    let mut config = room.example("cluster/config.yaml")?;
    write("config.yaml", &config)?;
    let (code, said, complaints) = preflight(&room, folder.path())?;
    assert!(code == 0 && said.contains("0 units left out"), "{said}{complaints}");
    assert!(said.contains("ingresses: 2 objects (networking.k8s.io/v1)"), "{said}");

    let hostile = [("haptic.rs/timeout-server", "evil\n  http-request deny")];
    room.apply_text(&ingress("hostile", "hostile.localhost", "/", &hostile, "web")).await?;
    let (code, said, complaints) = preflight(&room, folder.path())?;
    assert!(code == 1 && said.contains("1 units left out"), "{said}{complaints}");
    assert!(complaints.contains(&format!("Ingress {}/hostile", room.shop())), "{complaints}");

    // A kind that nobody has installed yet: the controller would wait for it.
    let watched = json!({ "apiVersion": "preflight.example.com/v1", "resources": "gizmos" });
    config[0]["spec"]["watchedResources"]["gizmos"] = watched;
    write("config.yaml", &config)?;
    let (code, said, complaints) = preflight(&room, folder.path())?;
    assert!(code == 1 && said.contains("gizmos: 0 objects (not read)"), "{said}{complaints}");
    assert!(complaints.contains("watchedResources.gizmos cannot be read"), "{complaints}");
    config[0]["spec"]["watchedResources"]["gizmos"]["optional"] = true.into();
    write("config.yaml", &config)?;
    let (_, said, _) = preflight(&room, folder.path())?;
    assert!(said.contains("gizmos: 0 objects (not served, and optional)"), "{said}");
    room.close().await
}
