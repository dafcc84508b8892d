//! Objects of haptic's own kinds, as a user applies them and the API server gives them back.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use haptic_api::{HAProxyPlugin, HAProxyTemplateConfig, HAProxyTemplateLibrary};
use haptic_store::RawObject;
use http::Method;
use serde_json::{Value, json};

use crate::{
    cluster::{Room, settings},
    followed::{Followed, spec, wanted},
};

const OWN: &str = "haptic.rs/v1alpha1";
const KINDS: [&str; 3] = ["haproxytemplateconfigs", "haproxytemplatelibraries", "haproxyplugins"];

/// Decodes it, whichever kind it is, and tells its name and generation as they were decoded.
fn decoded(object: &RawObject) -> Result<(Option<String>, Option<i64>, Option<String>)> {
    let metadata = match &*object.kind {
        "HAProxyTemplateConfig" => object.decode::<HAProxyTemplateConfig>().map(|decoded| decoded.metadata),
        "HAProxyTemplateLibrary" => object.decode::<HAProxyTemplateLibrary>().map(|decoded| decoded.metadata),
        "HAProxyPlugin" => object.decode::<HAProxyPlugin>().map(|decoded| decoded.metadata),
        other => bail!("{other} is none of haptic's kinds"),
    };
    match metadata {
        Ok(metadata) => Ok((metadata.name, metadata.generation, metadata.uid)),
        Err(findings) => bail!("{object:?} is refused: {findings:?}"),
    }
}

#[tokio::test]
async fn what_kubectl_applies_decodes_strictly_with_all_that_the_server_adds() -> Result<()> {
    let room = Room::new().await?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = |relative: &str| root.join(relative).to_string_lossy().into_owned();
    room.kubectl(&["apply", "-f", &path("crds")])?;
    room.kubectl(&["wait", "--for=condition=Established", "-f", &path("crds")])?;
    room.send(Method::POST, "/api/v1/namespaces", &json!({ "metadata": { "name": "haptic" } })).await?;
    let shop = "tests/examples/shop/common";
    for part in ["charts/libraries", &format!("{shop}/config.yaml"), &format!("{shop}/plugins.yaml")] {
        room.kubectl(&["apply", "-n", "haptic", "-f", &path(part)])?;
    }
    let config = "/apis/haptic.rs/v1alpha1/namespaces/haptic/haproxytemplateconfigs/shop";
    let status = json!({ "status": { "observedGeneration": 1, "conditions": [{
        "type": "Accepted", "status": "True", "reason": "Accepted", "message": "in use",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
    }] } });
    room.send(Method::PATCH, &format!("{config}/status"), &status).await?;

    let all = KINDS.map(|kind| wanted(&spec(OWN, kind, "haptic"))).to_vec();
    let followed = Followed::synced(room.api(), all, settings()).await?;
    for kind in KINDS {
        assert!(!followed.names(kind).is_empty(), "no {kind} came");
    }
    for ((resource, name), object) in &followed.objects {
        let served: Value =
            room.send(Method::GET, &format!("/apis/{OWN}/namespaces/haptic/{resource}/{name}"), &Value::Null).await?;
        let uid = served["metadata"]["uid"].as_str().context("the server gives one")?;
        let generation = served["metadata"]["generation"].as_i64().context("the server counts")?;
        assert_eq!((object.uid().as_str(), object.generation()), (uid, generation), "{object:?}");
        let expected = (Some(name.clone()), Some(generation), Some(uid.to_owned()));
        assert_eq!(decoded(object)?, expected);
    }
    let shop = &followed.objects[&(KINDS[0].to_owned(), "shop".to_owned())];
    assert_eq!(shop.value()["status"]["conditions"][0]["type"], "Accepted");
    assert!(shop.value().pointer("/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration").is_none());
    Ok(())
}
