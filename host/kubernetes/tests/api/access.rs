//! A pod's service account: its files, its permissions, and what happens without them.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use haptic_kubernetes::{Access, Api, InCluster, Limits, connect};
use http::Method;
use serde_json::{Value, json};

use crate::{
    cluster::{Room, settings},
    followed::{Followed, config_maps, spec, wanted},
};

/// Lets the room's account `haptic` read these resources of the core group here.
async fn allow(room: &Room, name: &str, resources: &[&str]) -> Result<()> {
    let role = json!({
        "metadata": { "name": name },
        "rules": [{ "apiGroups": [""], "resources": resources, "verbs": ["get", "list", "watch"] }],
    });
    room.send(Method::POST, &room.path("apis/rbac.authorization.k8s.io/v1", "roles"), &role).await?;
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": "haptic", "namespace": room.namespace }],
    });
    room.send(Method::POST, &room.path("apis/rbac.authorization.k8s.io/v1", "rolebindings"), &binding).await?;
    Ok(())
}

/// The files that the kubelet would mount into a pod of this account.
async fn mount(room: &Room, folder: &Path) -> Result<()> {
    let account = json!({ "metadata": { "name": "haptic" } });
    room.send(Method::POST, &room.path("api/v1", "serviceaccounts"), &account).await?;
    let path = format!("{}/haptic/token", room.path("api/v1", "serviceaccounts"));
    let token = room.send(Method::POST, &path, &json!({ "spec": {} })).await?;
    std::fs::write(folder.join("token"), token["status"]["token"].as_str().context("it has a token")?)?;
    std::fs::write(folder.join("namespace"), &room.namespace)?;
    std::fs::write(folder.join("ca.crt"), room.authority()?)?;
    Ok(())
}

#[tokio::test]
async fn a_pod_follows_what_it_may_and_says_what_it_may_not() -> Result<()> {
    let room = Room::new().await?;
    room.make_config_map("a", "1").await?;
    let folder = tempfile::tempdir()?;
    mount(&room, folder.path()).await?;
    allow(&room, "config", &["configmaps"]).await?;
    let address = room.address()?;
    let pod = InCluster { host: address.0, port: address.1, folder: folder.path().to_owned() };
    let client = connect(&Access::InCluster(pod), Duration::from_secs(5)).await?;
    assert_eq!(client.default_namespace(), room.namespace);

    let all = vec![config_maps(&room.namespace), wanted(&spec("v1", "secrets", &room.namespace))];
    let mut followed = Followed::start(Api::new(client, Limits::default()), all, settings());
    let update = followed.next().await?;
    assert_eq!((&*update.resource, update.synced, update.changes.len()), ("configmaps", true, 1));
    let state = followed.state("secrets", |state| state.trouble().is_some()).await?;
    let trouble = state.trouble().context("it has trouble")?;
    assert!(trouble.is_forbidden() && trouble.to_string().contains("cannot watch resource \"secrets\""), "{trouble}");

    allow(&room, "secret", &["secrets"]).await?;
    let update = followed.next().await?;
    assert_eq!((&*update.resource, update.synced), ("secrets", true));
    assert!(followed.state("secrets", |state| state.trouble().is_none()).await?.is_synced());
    Ok(())
}

#[tokio::test]
async fn a_server_that_another_authority_vouches_for_is_not_talked_to() -> Result<()> {
    let room = Room::new().await?;
    let folder = tempfile::tempdir()?;
    mount(&room, folder.path()).await?;
    let other = rcgen::generate_simple_self_signed(vec!["other".to_owned()])?;
    std::fs::write(folder.path().join("ca.crt"), other.cert.pem())?;
    let address = room.address()?;
    let pod = InCluster { host: address.0, port: address.1, folder: folder.path().to_owned() };
    let client = connect(&Access::InCluster(pod), Duration::from_secs(5)).await?;
    let followed = Followed::start(Api::new(client, Limits::default()), vec![config_maps(&room.namespace)], settings());
    let state = followed.state("configmaps", |state| state.trouble().is_some()).await?;
    assert!(!state.is_synced() && state.served().is_none());
    Ok(())
}

impl Room {
    /// The certificate of the cluster's authority, in PEM.
    fn authority(&self) -> Result<Vec<u8>> {
        let encoded = self.kubeconfig()?;
        let encoded = encoded["clusters"][0]["cluster"]["certificate-authority-data"].as_str();
        Ok(BASE64_STANDARD.decode(encoded.context("the kubeconfig has an authority")?)?)
    }

    /// Host and port of the API server.
    fn address(&self) -> Result<(String, u16)> {
        let config = self.kubeconfig()?;
        let server = config["clusters"][0]["cluster"]["server"].as_str().context("the kubeconfig has a server")?;
        let uri: http::Uri = server.parse()?;
        Ok((uri.host().context("it has a host")?.to_owned(), uri.port_u16().context("it has a port")?))
    }

    fn kubeconfig(&self) -> Result<Value> {
        let text = std::fs::read_to_string(&self.kubeconfig)?;
        let documents = haptic_api::yaml::read(&text)?;
        Ok(documents.into_iter().next().context("it has a document")?.into_value())
    }
}
