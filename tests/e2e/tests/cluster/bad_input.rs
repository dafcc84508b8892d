//! What people write wrong, or on purpose: each ends where a person looks, with the object's name and what to do, and
//! nothing else is harmed.

use anyhow::{Context as _, Result};
use haptic_e2e::{
    cluster::{CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, HAPROXY_PLUGIN, Objects, Room, TEMPLATE_CONFIG, reason_of},
    eventually, exclusive, get, ingress,
};
use serde_json::{Value, json};

use haptic_e2e::cluster::served::{HTTP, Served};

/// Lets the controllers read widgets.
const WIDGETS: &str = "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: haptic}
rules: [{apiGroups: [bad-input.example.com], resources: [widgets], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: haptic}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: haptic}
subjects: [{kind: ServiceAccount, name: haptic, namespace: haptic}]
";
const DEFINITION: &str = "widgets.bad-input.example.com";

/// Waits for an Event about an object whose text holds all of the words.
async fn event(room: &Room, kind: &str, name: &str, words: &[&str]) {
    eventually(&format!("an Event about {kind} {name} with {words:?}"), async || {
        let events = room.events(kind, name).await.ok()?;
        events.into_iter().find(|text| words.iter().all(|word| text.contains(word)))
    })
    .await;
}

/// Waits for a condition of the configuration whose text holds all of the words.
async fn told(objects: &Objects, namespace: &str, kind: &str, words: &[&str]) -> Result<String> {
    let told = |config: &Value| {
        let text = reason_of(config, kind);
        words.iter().all(|word| text.contains(word)).then_some(text)
    };
    objects.until((TEMPLATE_CONFIG, namespace, "shop"), &format!("{kind} to say {words:?}"), told).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_named_and_harms_nothing_else() -> Result<()> {
    let _turn = exclusive().await;
    let widgets = |object: &mut Value| {
        if object["kind"] == "HAProxyTemplateConfig" {
            object["spec"]["watchedResources"]["widgets"] = json!({
                "apiVersion": "bad-input.example.com/v1", "resources": "widgets", "indexBy": ["metadata.name"],
                "optional": true,
            });
        }
    };
    let served = Served::start("bad-input", &widgets).await?;
    let (room, objects) = (&served.room, &served.room.objects);

    room.apply_text(WIDGETS).await?;
    unknown_field(room).await?;
    wrong_digest(&served).await?;

    // A Secret that is no certificate: its Ingress is told, and others go on with theirs.
    let broken = json!({ "data": { "tls.crt": "bm8gY2VydGlmaWNhdGU=" } });
    objects.merge(haptic_e2e::cluster::SECRET, room.shop(), "api-tls", &broken).await?;
    event(room, "Ingress", "api", &["api-tls"]).await;
    served.check_web().await?;
    served.add_route("after-secret", "after-secret.localhost").await?;

    // Text that would end a word, a line or a string.
    for (number, text) in ["evilmark\n  http-request deny", "evilmark\" \"http-request deny"].into_iter().enumerate() {
        let name = format!("hostile-{number}");
        let annotation = [("haptic.rs/timeout-server", text)];
        room.apply_text(&ingress(&name, &format!("{name}.localhost"), "/", &annotation, "web")).await?;
        event(room, "Ingress", &name, &["timeout-server"]).await;
    }
    served.check_web().await?;

    definition_goes(&served).await?;
    pod_that_never_answers(&served).await?;
    served.room.close().await
}

/// The API server itself refuses it.
async fn unknown_field(room: &Room) -> Result<()> {
    let mut config = room.example("cluster/config.yaml")?.remove(0);
    config["spec"]["hapoxyConfig"] = json!({ "template": "" });
    let refused = room.objects.apply(&config).await;
    let refused = format!("{:#}", refused.err().context("an unknown field was taken")?);
    assert!(refused.contains("hapoxyConfig"), "{refused}");
    Ok(())
}

async fn wrong_digest(served: &Served) -> Result<()> {
    let room = &served.room;
    room.apply_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: module, namespace: haptic}\nbinaryData: {module.wasm: AGFzbQ==}\n",
    )
    .await?;
    let digest = "0".repeat(64);
    let plugin = room.manifest(&format!(
        "apiVersion: haptic.rs/v1alpha1\nkind: HAProxyPlugin\nmetadata: {{name: tampered, namespace: haptic}}\nspec:\n  \
         module: {{configMap: {{name: module, key: module.wasm}}}}\n  sha256: \"{digest}\"\n"
    ))?;
    served.permit(&plugin).await?;
    room.apply(&plugin).await?;
    let with = json!({ "spec": { "plugins": [
        { "name": "error-file" }, { "name": "policy" }, { "name": "network" }, { "name": "tampered" },
    ] } });
    served.configure(&with).await?;
    told(&room.objects, room.system(), "Accepted", &["False", "tampered"]).await?;
    let named = |plugin: &Value| {
        let text = ["Fetched", "Verified", "Ready"].map(|kind| reason_of(plugin, kind)).join(" ");
        text.contains(&digest).then_some(())
    };
    room.objects.until((HAPROXY_PLUGIN, room.system(), "tampered"), "the digests in its status", named).await?;
    served.check_routes().await?;
    let without =
        json!({ "spec": { "plugins": [{ "name": "error-file" }, { "name": "policy" }, { "name": "network" }] } });
    let accepted = served.judged(served.configure(&without).await?).await?;
    assert!(accepted.starts_with("True "), "{accepted}");
    Ok(())
}

async fn definition_goes(served: &Served) -> Result<()> {
    let objects = &served.room.objects;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": DEFINITION },
        "spec": {
            "group": "bad-input.example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            } } }],
        },
    });
    for _ in 0..2 {
        objects.apply(&definition).await?;
        served.add_route("with-widgets", "with-widgets.localhost").await?;
        objects.delete(CUSTOM_RESOURCE_DEFINITION, "", DEFINITION).await?;
        let gone = |found: &Value| found.is_null().then_some(());
        objects.until((CUSTOM_RESOURCE_DEFINITION, "", DEFINITION), "it to be gone", gone).await?;
        served.check_web().await?;
    }
    served.add_route("without-widgets", "without-widgets.localhost").await
}

/// A pod with the label of HAProxy pods that is none.
async fn pod_that_never_answers(served: &Served) -> Result<()> {
    let (room, objects) = (&served.room, &served.room.objects);
    let labels = json!({ "app.kubernetes.io/name": "haproxy", "mute": "yes" });
    objects
        .apply(&json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "mute", "namespace": room.system() },
            "spec": { "replicas": 1, "selector": { "matchLabels": labels }, "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "securityContext": { "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": { "type": "RuntimeDefault" } },
                    "containers": [{ "name": "mute", "image": "demo", "securityContext": {
                        "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
                    } }],
                },
            } },
        }))
        .await?;
    let pods = room.ready_pods("mute=yes", 1).await?;
    let name = pods.first().context("it was waited for")?.name.clone();
    told(objects, room.system(), "Degraded", &["True", &name]).await?;
    // The others still get what is new.
    room.apply_text(&ingress("beside-mute", "beside-mute.localhost", "/", &[], "web")).await?;
    for (pod, door) in served.doors(HTTP).await?.into_iter().filter(|(pod, _)| pod.name != name) {
        let what = format!("the new route through {}", pod.name);
        eventually(&what, async || get(door.address(), "beside-mute.localhost", "/").await.ok()?.pod()).await;
    }
    objects.delete(DEPLOYMENT, room.system(), "mute").await?;
    told(objects, room.system(), "Degraded", &["False"]).await?;
    Ok(())
}
