//! Writes that are judged before they are stored, by the controllers of the example behind a real
//! ValidatingWebhookConfiguration.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::{
    Certificate,
    cluster::{
        CUSTOM_RESOURCE_DEFINITION, INGRESS, VALIDATING_WEBHOOK_CONFIGURATION, gadgets,
        served::{HAPTIC, Served, route},
        webhook::{Webhook, Written, switch_on},
    },
    eventually, exclusive, get, ingress,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const GADGETS: &str = "gadgets.webhook.example.com";
const METRICS: u16 = 9090;

/// What the generated permissions would have for `gadgets`.
const MAY_WATCH_GADGETS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: haptic}
rules:
- {apiGroups: [webhook.example.com], resources: [gadgets], verbs: [get, list, watch]}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: [gadgets.webhook.example.com]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: haptic}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: haptic}
subjects: [{kind: ServiceAccount, name: haptic, namespace: haptic}]
";

/// The configuration of the room, with what tests need besides the example.
fn configured(object: &mut Value) {
    switch_on(object);
    if object["kind"] == "HAProxyTemplateConfig" {
        let spec = &mut object["spec"];
        spec["templating"] = json!({ "rawText": "Allowed" });
        spec["watchedResources"]["gadgets"] = json!({
            "apiVersions": ["webhook.example.com/v1", "webhook.example.com/v1beta1"], "resources": "gadgets",
            "optional": true, "enableValidationWebhook": true,
        });
        spec["plugins"].as_array_mut().expect("the example has plugins").push(json!({ "name": "certificates" }));
        spec["validators"]
            .as_array_mut()
            .expect("the example has validators")
            .push(json!({ "plugin": "certificates", "files": ["ssl/*.pem"] }));
        spec["templateSnippets"]["sections/90-gadgets"] =
            json!({ "template": "{{ render_each('gadget', resources.gadgets.list()) }}\n" });
        spec["templateSnippets"]["gadget"] = json!({ "template":
            "{% if item.spec.color == 'none' %}{{ fail('a gadget needs a color', hint='set spec.color') }}{% endif %}\n\
             # gadget {{ item.metadata.name }} of {{ item.apiVersion }}\n" });
    }
}

/// Everything is applied and ready, and API servers ask.
async fn start(name: &str) -> Result<Served> {
    let served = Served::prepare(name).await?;
    served.room.apply_text(MAY_WATCH_GADGETS).await?;
    served
        .room
        .apply_text(
            "apiVersion: haptic.rs/v1alpha1\nkind: HAProxyPlugin\nmetadata: {name: certificates, namespace: haptic}\n\
             spec: {module: {builtin: {name: certificates}}}\n",
        )
        .await?;
    Webhook::prepare(&served).await?.renew().await?;
    served.finish(&configured).await?;
    served.ready().await?;
    Ok(served)
}

/// The configuration as it is applied.
fn config(served: &Served) -> Result<Value> {
    let mut config = served.room.example("cluster/config.yaml")?.remove(0);
    configured(&mut config);
    // Its plugins are not asked.
    config["spec"]["plugins"] = json!([]);
    config["spec"]["validators"] = json!([]);
    Ok(config)
}

/// An Ingress of the room as JSON.
fn made(served: &Served, name: &str, annotations: &[(&str, &str)], service: &str) -> Result<Value> {
    let host = format!("{name}.localhost");
    Ok(served.room.manifest(&ingress(name, &host, "/", annotations, service))?.remove(0))
}

fn accepted(written: &Written) {
    assert!(written.accepted, "{}", written.said);
}

/// Every word is in what the user reads.
fn denied(written: &Written, words: &[&str]) {
    assert!(!written.accepted, "{}", written.said);
    for word in words {
        assert!(written.said.contains(word), "`{word}` is not in: {}", written.said);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_would_break_the_configuration_is_denied_with_the_reason() -> Result<()> {
    let _turn = exclusive().await;
    let served = start("admission").await?;
    let webhook = Webhook::prepare(&served).await?;
    let mut config = config(&served)?;
    // Were it not the controller's own namespace, the API server would ask there, too.
    let namespaces = config["spec"]["watchedResources"]["ingresses"]["namespaces"].as_array_mut();
    namespaces.context("the example is limited to its namespaces")?.push(served.room.system().into());
    webhook.register(&config, "fail").await?;
    let shop = served.room.shop().to_owned();
    webhook.until_asked(&made(&served, "asked", &[("haptic.rs/timeout-server", "soon")], "web")?).await?;

    // A value that the template refuses, and one that only HAProxy knows to be wrong.
    let bad = made(&served, "bad", &[("haptic.rs/timeout-server", "soon")], "web")?;
    let name = format!("Ingress {shop}/bad");
    denied(
        &webhook.kubectl(&["create"], std::slice::from_ref(&bad)).await?,
        &[&name, "timeout-server is not valid", "snippet ingress", "next step: correct or remove the annotation"],
    );
    let hostile = made(&served, "hostile", &[("haptic.rs/backend-snippet", "http-request nonsense")], "web")?;
    denied(
        &webhook.kubectl(&["create"], &[hostile]).await?,
        &[&format!("Ingress {shop}/hostile"), "HAProxy:", "nonsense", "next step"],
    );
    // It fits the template's pattern, and stands in a section that objects share.
    let overflow = made(&served, "overflow", &[("haptic.rs/timeout-server", "999999999d")], "web")?;
    denied(
        &webhook.kubectl(&["create"], &[overflow]).await?,
        &[&format!("Ingress {shop}/overflow"), "timer overflow", "next step"],
    );
    let injected = made(&served, "inject", &[("haptic.rs/timeout-server", "1s\n  http-request deny")], "web")?;
    denied(&webhook.kubectl(&["create", "--dry-run=server"], &[injected]).await?, &["inject"]);
    assert!(served.room.objects.get(INGRESS, &shop, "bad").await?.is_null());

    // A good one is stored and served; a bad update of it is not.
    let good = made(&served, "good", &[], "web")?;
    let written = webhook.kubectl(&["create"], std::slice::from_ref(&good)).await?;
    accepted(&written);
    assert!(!written.said.contains("Warning"), "{}", written.said);
    let worse = made(&served, "good", &[("haptic.rs/timeout-server", "soon")], "web")?;
    denied(&webhook.kubectl(&["replace"], &[worse]).await?, &[&format!("Ingress {shop}/good")]);
    let (_, door) = served.doors(haptic_e2e::cluster::served::HTTP).await?.remove(0);
    eventually("the good one to be served", async || get(door.address(), "good.localhost", "/").await.ok()?.pod())
        .await;

    missing(&served, &webhook, &shop).await?;
    warned(&served, &webhook, &shop).await?;
    elsewhere(&served, &webhook).await?;
    counted(&served).await?;
    unregistered(&served, &webhook, config).await?;
    webhook.unregister().await?;
    served.room.close().await
}

/// What is not there yet, or not any more, is no reason: the route fails closed.
async fn missing(served: &Served, webhook: &Webhook<'_>, shop: &str) -> Result<()> {
    let mut secret = made(served, "early", &[], "nowhere")?;
    secret["spec"]["tls"] = json!([{ "hosts": ["early.localhost"], "secretName": "later" }]);
    let written = webhook.kubectl(&["create"], &[secret]).await?;
    accepted(&written);
    for words in [format!("Service {shop}/nowhere does not exist"), format!("Secret {shop}/later does not exist")] {
        assert!(written.said.contains(&words), "`{words}` is not in: {}", written.said);
    }
    // Both in one file: the store has not seen the Service yet when the Ingress is judged.
    let [service, slice, route] = route("both", "both.localhost", shop, served.room.ingress_class(), "10.0.0.1");
    let written = webhook.kubectl(&["create"], &[service.clone(), slice, route]).await?;
    accepted(&written);
    assert!(!written.said.contains("does not exist"), "{}", written.said);
    let written = webhook.kubectl(&["delete"], &[service]).await?;
    accepted(&written);
    let words = format!("Service {shop}/both does not exist");
    assert!(written.said.contains(&words), "`{words}` is not in: {}", written.said);
    Ok(())
}

/// What a plugin warns of is shown to who writes it.
async fn warned(served: &Served, webhook: &Webhook<'_>, shop: &str) -> Result<()> {
    let secret = served.room.manifest(&Certificate::issue("warned.localhost")?.manifest("warned-tls"))?;
    let written = webhook.kubectl(&["create"], &secret).await?;
    accepted(&written);
    assert!(!written.said.contains("Warning"), "nobody uses it: {}", written.said);
    let mut warned = made(served, "warned", &[], "web")?;
    warned["spec"]["tls"] = json!([{ "hosts": ["warned.localhost"], "secretName": "warned-tls" }]);
    // The API server may be ahead of the store: either way the Secret is found.
    let written = webhook.kubectl(&["create"], &[warned]).await?;
    accepted(&written);
    for words in ["Warning: ", "plugin `certificates`", "self-signed"] {
        assert!(written.said.contains(words), "`{words}` is not in: {}", written.said);
    }
    let mut broken = secret.into_iter().next().context("a manifest has a document")?;
    broken["data"]["tls.crt"] = "bm8gY2VydGlmaWNhdGU=".into();
    let written = webhook.kubectl(&["replace"], &[broken]).await?;
    denied(&written, &[&format!("Ingress {shop}/warned"), "warned-tls"]);
    assert!(!written.said.contains("PRIVATE KEY"), "no key is shown");
    Ok(())
}

/// The controller's own namespace is never judged.
async fn elsewhere(served: &Served, webhook: &Webhook<'_>) -> Result<()> {
    let mut own = made(served, "own", &[("haptic.rs/timeout-server", "soon")], "web")?;
    own["metadata"]["namespace"] = served.room.system().into();
    accepted(&webhook.kubectl(&["create"], &[own]).await?);
    Ok(())
}

/// Of a kind that nobody switched on there is no verdict: the policy decides, and the user reads what to do.
async fn unregistered(served: &Served, webhook: &Webhook<'_>, mut config: Value) -> Result<()> {
    config["spec"]["watchedResources"]["maps"] = json!({
        "apiVersion": "v1", "resources": "configmaps", "namespaces": [served.room.shop()],
        "enableValidationWebhook": true,
    });
    webhook.register(&config, "fail").await?;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "map", "namespace": served.room.shop() },
    });
    let written = eventually("the API server to ask about ConfigMaps", async || {
        let written = webhook.kubectl(&["create", "--dry-run=server"], std::slice::from_ref(&map)).await.ok()?;
        (!written.accepted).then_some(written)
    })
    .await;
    denied(&written, &["failed calling webhook", "configmaps are not judged here", "enableValidationWebhook"]);
    Ok(())
}

/// Every replica tells what it was asked; the label is one of the kinds that are switched on.
async fn counted(served: &Served) -> Result<()> {
    let mut all = String::new();
    for pod in served.room.pods(HAPTIC).await? {
        let door = served.room.passage(&pod, METRICS).await?;
        all.push_str(&get(door.address(), "metrics", "/metrics").await?.body);
    }
    for sample in [
        r#"haptic_webhook_requests_total{gvk="networking.k8s.io/v1/Ingress",result="denied"}"#,
        r#"haptic_webhook_requests_total{gvk="networking.k8s.io/v1/Ingress",result="allowed"}"#,
        r#"haptic_webhook_validation_total{gvk="networking.k8s.io/v1/Ingress",result="denied"}"#,
        "haptic_admission_render_slot_wait_seconds_count",
        "haptic_admission_queue_depth 0",
    ] {
        assert!(all.contains(sample), "{sample} is not in:\n{all}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_served_version_of_a_kind_is_judged() -> Result<()> {
    let _turn = exclusive().await;
    let served = start("admission-versions").await?;
    let webhook = Webhook::prepare(&served).await?;
    served.room.objects.apply(&gadgets("webhook.example.com")).await?;
    let shop = served.room.shop();
    let gadget = |version: &str, name: &str, color: &str| {
        json!({
            "apiVersion": format!("webhook.example.com/{version}"), "kind": "Gadget",
            "metadata": { "name": name, "namespace": shop }, "spec": { "color": color },
        })
    };
    eventually("the kind to be served", async || {
        let probe = webhook.kubectl(&["create"], &[gadget("v1", "probe", "red")]).await.ok()?;
        probe.accepted.then_some(())
    })
    .await;
    // First both versions are asked about as they are written, then the API server converts.
    let mut config = config(&served)?;
    for versions in
        [json!(["webhook.example.com/v1", "webhook.example.com/v1beta1"]), json!(["webhook.example.com/v1"])]
    {
        let number = versions.as_array().map_or(0, Vec::len);
        config["spec"]["watchedResources"]["gadgets"]["apiVersions"] = versions;
        webhook.register(&config, "fail").await?;
        webhook.until_asked(&gadget("v1", "asked", "none")).await?;
        for version in ["v1", "v1beta1"] {
            let name = |color: &str| format!("{color}-{version}-{number}");
            let bad = gadget(version, &name("bad"), "none");
            let words = ["a gadget needs a color", "next step: set spec.color", &name("bad")];
            denied(&webhook.kubectl(&["create"], &[bad]).await?, &words);
            accepted(&webhook.kubectl(&["create"], &[gadget(version, &name("good"), "red")]).await?);
        }
    }
    webhook.unregister().await?;
    served.room.objects.delete(CUSTOM_RESOURCE_DEFINITION, "", GADGETS).await?;
    served.room.close().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_happens_to_the_controllers_denies_a_good_write() -> Result<()> {
    let _turn = exclusive().await;
    let served = Served::prepare("admission-life").await?;
    served.room.apply_text(MAY_WATCH_GADGETS).await?;
    let webhook = Webhook::prepare(&served).await?;
    served.finish(&switch_on).await?;

    // Without a certificate a controller is not ready, and says why; it takes one that comes.
    let reason = eventually("the probe to name the certificate", async || {
        let pod = served.room.pods(HAPTIC).await.ok()?.into_iter().next()?;
        let answer = served.probe(&pod, "/readyz").await.ok()?;
        answer.body.contains("webhook certificate").then_some(answer)
    });
    let answer = reason.await;
    assert!(answer.status == 503 && answer.body.contains("tls.crt"), "{answer:?}");
    webhook.renew().await?;
    served.ready().await?;
    let mut config = served.room.example("cluster/config.yaml")?.remove(0);
    switch_on(&mut config);
    webhook.register(&config, "fail").await?;
    webhook.until_asked(&made(&served, "asked", &[("haptic.rs/timeout-server", "soon")], "web")?).await?;

    let stop = AtomicBool::new(false);
    let writes = AtomicUsize::new(0);
    let load = async {
        while !stop.load(Ordering::Relaxed) {
            let number = writes.fetch_add(1, Ordering::Relaxed);
            let ingress = made(&served, &format!("load-{number}"), &[], "web")?;
            served.room.objects.apply(&ingress).await.context("a good write was denied")?;
        }
        anyhow::Ok(())
    };
    let life = async {
        let ended = disturb(&served, &webhook, &writes).await;
        stop.store(true, Ordering::Relaxed);
        ended
    };
    let (load, life) = tokio::join!(load, life);
    load?;
    life?;

    // Nobody is there: the policy decides.
    served.room.scale("haptic", 0).await?;
    served.room.ready_pods(HAPTIC, 0).await?;
    let good = made(&served, "nobody", &[], "web")?;
    let written = webhook.kubectl(&["create"], std::slice::from_ref(&good)).await?;
    denied(&written, &["failed calling webhook"]);
    webhook.register(&config, "ignore").await?;
    eventually("the policy to count", async || {
        webhook.kubectl(&["create"], std::slice::from_ref(&good)).await.ok()?.accepted.then_some(())
    })
    .await;
    // The way out of a lock.
    webhook.register(&config, "fail").await?;
    webhook.unregister().await?;
    let gone = served.room.objects.get(VALIDATING_WEBHOOK_CONFIGURATION, "", &webhook.name).await?;
    assert!(gone.is_null());
    served.room.close().await
}

/// Certificates are renewed, the configuration changes, and every replica is replaced.
async fn disturb(served: &Served, webhook: &Webhook<'_>, writes: &AtomicUsize) -> Result<()> {
    let more_writes = async || {
        let until = writes.load(Ordering::Relaxed) + 10;
        eventually("more writes", async || (writes.load(Ordering::Relaxed) >= until).then_some(())).await;
    };
    for round in 2..=3 {
        webhook.renew().await?;
        eventually("both controllers to serve with the new certificate", async || {
            let pods = served.room.pods(HAPTIC).await.ok()?;
            let taken = |pod: &str| {
                let log = served.room.log(pod, "haptic");
                log.matches("the webhook serves with this certificate").count() >= round
            };
            (pods.len() == 2 && pods.iter().all(|pod| taken(&pod.name))).then_some(())
        })
        .await;
        more_writes().await;
    }
    let snippet = json!({ "spec": { "templateSnippets": { "frontend/90-life": { "template": "# life\n" } } } });
    let verdict = served.judged(served.configure(&snippet).await?).await?;
    ensure!(verdict.starts_with("True "), "{verdict}");
    more_writes().await;
    for pod in served.room.pods(HAPTIC).await? {
        served.room.objects.delete(haptic_e2e::cluster::POD, served.room.system(), &pod.name).await?;
        served.room.ready_pods(HAPTIC, 2).await?;
        more_writes().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_writes_at_once_are_each_answered_rightly() -> Result<()> {
    const WRITES: usize = 50;
    let _turn = exclusive().await;
    let served = start("admission-fifty").await?;
    let webhook = Webhook::prepare(&served).await?;
    webhook.register(&config(&served)?, "fail").await?;
    webhook.until_asked(&made(&served, "asked", &[("haptic.rs/timeout-server", "soon")], "web")?).await?;
    let mut running: JoinSet<(usize, std::result::Result<(), String>)> = JoinSet::new();
    for number in 0..WRITES {
        let annotations: &[(&str, &str)] = match number % 10 {
            3 if number % 20 == 3 => &[("haptic.rs/timeout-server", "soon")],
            3 => &[("haptic.rs/backend-snippet", "http-request nonsense")],
            _ => &[],
        };
        let object = made(&served, &format!("write-{number}"), annotations, "web")?;
        let objects = served.room.objects.clone();
        running.spawn(async move {
            let written = objects.apply(&object).await;
            (number, written.map(|_| ()).map_err(|error| format!("{error:#}")))
        });
    }
    let mut answered = 0;
    while let Some(written) = running.join_next().await {
        let (number, written) = written.context("write an Ingress")?;
        answered += 1;
        match written {
            Ok(()) => assert_ne!(number % 10, 3, "{number} is a bad one"),
            Err(reason) => {
                assert_eq!(number % 10, 3, "{number} is a good one: {reason}");
                assert!(reason.contains(&format!("/write-{number}:")), "the reason is its own: {reason}");
            }
        }
    }
    assert_eq!(answered, WRITES);
    webhook.unregister().await?;
    served.room.close().await
}
