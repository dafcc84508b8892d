//! What the documentation says that the controller must be allowed to do is enough for all of it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use haptic_kubernetes::{Access, Api, InCluster, Limits, connect};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    cluster::Room,
    scene::{Scene, eventually},
};

/// The rules of the table.
fn rules() -> Result<Vec<Value>> {
    let text = include_str!("../../docs/cluster-status.md");
    let (_, table) = text.split_once("| group | resource | verbs | where |").context("the table is there")?;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let words = |cell: &str| -> Vec<String> { cell.split(',').map(|word| word.trim().to_owned()).collect() };
    let rules: Vec<_> = rows
        .filter_map(|row| {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let [_, group, resources, verbs, ..] = cells.as_slice() else { return None };
            let group = group.trim_matches('"');
            Some(json!({ "apiGroups": [group], "resources": words(resources), "verbs": words(verbs) }))
        })
        .collect();
    ensure!(rules.len() > 5, "the table has rows");
    Ok(rules)
}

/// The API as an account of this namespace that may do this and nothing else.
///
/// The folder holds its token, which is read again every minute.
pub(crate) async fn account(room: &Room, rules: Vec<Value>) -> Result<(Api, TempDir)> {
    let rbac = |resources| room.path("apis/rbac.authorization.k8s.io/v1", resources);
    let named = json!({ "metadata": { "name": "haptic" } });
    let accounts = room.path("api/v1", "serviceaccounts");
    room.send(Method::POST, &accounts, &named).await?;
    let role = json!({ "metadata": named["metadata"], "rules": rules });
    room.send(Method::POST, &rbac("roles"), &role).await?;
    let binding = json!({
        "metadata": named["metadata"],
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "haptic" },
        "subjects": [{ "kind": "ServiceAccount", "name": "haptic", "namespace": room.namespace }],
    });
    room.send(Method::POST, &rbac("rolebindings"), &binding).await?;
    let token = room.send(Method::POST, &format!("{accounts}/haptic/token"), &json!({ "spec": {} })).await?;

    let kubeconfig = haptic_api::yaml::read(&std::fs::read_to_string(&room.kubeconfig)?)?;
    let kubeconfig = kubeconfig.into_iter().next().context("it has a document")?.into_value();
    let cluster = &kubeconfig["clusters"][0]["cluster"];
    let authority = cluster["certificate-authority-data"].as_str().context("it has an authority")?;
    let server: http::Uri = cluster["server"].as_str().context("it has a server")?.parse()?;
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("ca.crt"), BASE64_STANDARD.decode(authority)?)?;
    std::fs::write(folder.path().join("namespace"), &room.namespace)?;
    std::fs::write(folder.path().join("token"), token["status"]["token"].as_str().context("it has a token")?)?;
    let access = Access::InCluster(InCluster {
        host: server.host().context("it has a host")?.to_owned(),
        port: server.port_u16().context("it has a port")?,
        folder: folder.path().to_owned(),
    });
    let api = Api::new(connect(&access, Duration::from_secs(10)).await?, Limits::default());
    Ok((api, folder))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_permissions_are_enough() -> Result<()> {
    let mut scene = Scene::new(json!({ "ingressStatus": { "publishService": { "name": "haproxy" } } })).await?;
    let service = json!({
        "metadata": { "name": "haproxy" },
        "spec": { "clusterIP": "None", "externalIPs": ["192.0.2.9"], "ports": [{ "port": 80 }] },
    });
    scene.room.send(Method::POST, &scene.room.path("api/v1", "services"), &service).await?;
    let web = scene.ingress("web", "web.example").await?;
    let mut broken = scene.ingress("broken", "broken.example").await?;
    broken["spec"]["rules"] = json!([]);
    let (api, _token) = account(&scene.room, rules()?).await?;
    scene.api = api;
    let term = scene.lead(&["a"]);
    let first = scene.render(1, &[web.clone(), broken.clone()]);
    term.serves(&first, &["a"]);
    scene.condition("Deployed", "True", "AllPodsServe").await?;
    eventually("the Ingress says its address", || async {
        let ingress = scene.object("apis/networking.k8s.io/v1", "ingresses", "web").await?;
        Ok((ingress["status"]["loadBalancer"]["ingress"] == json!([{ "ip": "192.0.2.9" }])).then_some(()))
    })
    .await?;
    eventually("the broken one is told of", || async {
        Ok(scene.list("apis/events.k8s.io/v1", "events").await?.pop())
    })
    .await?;
    let second = scene.render(2, &[broken]);
    term.serves(&second, &["a"]);
    let plan = second.plan().to_string();
    eventually("the newest is published, and only it", || async {
        let all = scene.published("haproxycfgs").await?;
        Ok((all.len() == 1 && all[0]["spec"]["plan"] == *plan && all[0].get("status").is_some()).then_some(()))
    })
    .await?;
    term.end().await
}
