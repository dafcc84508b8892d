//! What the pods of a release ask of the API server, by its audit log, against what the chart allows them.

use std::{collections::BTreeSet, fs, time::Duration};

use anyhow::{Context as _, Result};
use haptic_e2e::{
    Certificate,
    cluster::{
        Asked, CUSTOM_RESOURCE_DEFINITION, INGRESS, LEASE, LeaseState, Right, SECRET, TEMPLATE_CONFIG, condition,
        gadgets,
    },
    eventually, exclusive, ingress, within,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    helm::{Helm, chart},
    release::Release,
};

const GADGETS: &str = "gadgets.asked.example.com";
const LEASE_NAME: &str = "haptic-leader";

/// Verb and resource of what is allowed and not asked for here, and why it is needed all the same.
const NOT_ASKED: [(&str, &str, &str); 8] = [
    ("update", "haproxytemplateconfigs/finalizers", "the API server asks its own authorizer who blocks a deletion"),
    ("create", "haproxycfgs", "asked within the patch that makes an object"),
    ("create", "haproxymapfiles", "asked within the patch that makes an object"),
    ("create", "haproxygeneralfiles", "asked within the patch that makes an object"),
    ("create", "haproxycrtlistfiles", "asked within the patch that makes an object"),
    ("patch", "events", "counts up what comes back after more than a minute"),
    ("create", "events", "in the namespace `default`: nothing is wrong with an IngressClass here"),
    ("list", "", "of what is watched: this API server streams lists within a watch, older ones do not"),
];

/// Everything that is watched lies in the namespace of the shop, so that Roles are in play; bodies of Secrets are read
/// on demand; one plugin's module is in a registry and one's in a ConfigMap, of which neither is to be had.
fn values(release: &Release) -> Value {
    let watched = |resource: &str, version: &str, second: &str, more: Value| {
        let mut spec = json!({ "apiVersion": version, "resources": resource, "namespaces": [release.room.shop()],
                               "indexBy": ["metadata.namespace", second] });
        spec.as_object_mut().expect("it is one").extend(more.as_object().cloned().unwrap_or_default());
        spec
    };
    let judged = json!({ "enableValidationWebhook": true });
    let plugin = |module: Value| {
        let spec = json!({ "module": module, "sha256": "0".repeat(64), "failurePolicy": "Ignore" });
        json!({ "enabled": true, "spec": spec, "validators": [{ "files": ["general/*.http"] }] })
    };
    let broken = "{% if item.spec.color == 'none' %}{{ fail('a gadget needs a color') }}{% endif %}# a gadget\n";
    json!({
        "plugins": {
            "pulled": plugin(json!({ "oci": { "image": "registry.invalid/plugin:1", "pullSecret": "registry" } })),
            "mounted": plugin(json!({ "configMap": { "name": "modules", "key": "plugin.wasm" } })),
        },
        "config": {
            "deployment": { "driftPreventionInterval": "5s" },
            "files": { "503.http": { "template": error_page("closed") } },
            "templateSnippets": {
                "sections/90-gadgets": { "template": "{{ render_each('gadget', resources.gadgets.list()) }}\n" },
                "gadget": { "template": broken },
            },
            "watchedResources": {
                "ingresses": watched("ingresses", "networking.k8s.io/v1", "metadata.name", judged),
                "services": watched("services", "v1", "metadata.name", json!({})),
                "secrets": watched("secrets", "v1", "metadata.name", json!({ "store": "on-demand" })),
                "endpointslices": watched("endpointslices", "discovery.k8s.io/v1",
                                          "metadata.labels['kubernetes.io/service-name']", json!({})),
                "gadgets": {
                    "apiVersions": ["asked.example.com/v1", "asked.example.com/v1beta1"], "resources": "gadgets",
                    "namespaces": [release.room.shop()], "indexBy": ["metadata.name"], "enableValidationWebhook": true,
                },
            },
        },
    })
}

fn error_page(text: &str) -> String {
    format!("HTTP/1.1 503 Service Unavailable\r\nContent-Length: {}\r\n\r\n{text}\n", text.len() + 1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_asked_that_is_not_allowed_and_nothing_is_allowed_that_is_never_asked() -> Result<()> {
    let _turn = exclusive().await;
    let mut release = Release::prepare(Helm::three()?, "asked").await?;
    let values = values(&release);
    release.set(&values);
    let room = &release.room;
    room.objects.apply(&gadgets("asked.example.com")).await?;
    for name in ["registry", "modules"] {
        let kind = if name == "modules" { "ConfigMap" } else { "Secret" };
        let metadata = json!({ "name": name, "namespace": room.system() });
        room.objects.apply(&json!({ "apiVersion": "v1", "kind": kind, "metadata": metadata })).await?;
    }
    release.deploy(&chart("haptic"), &json!({}))?;
    release.all_ready().await?;
    release.check_routes().await?;

    writes_are_judged(&release).await?;
    statuses_and_events(&release).await?;
    what_is_published_changes(&release).await?;
    leaders_change(&release).await?;

    let rights = Right::all_of(&room.objects, room.system(), "haptic").await?;
    let mut asked = BTreeSet::new();
    // What nobody waits for is written when there is time for it.
    let all = within(Duration::from_mins(2), "everything that is allowed to be asked for", async || {
        asked = room.cluster().asked_by(room.system(), "haptic").ok()?;
        never_asked(&rights, &asked).next().is_none().then_some(())
    });
    let waited = tokio::time::timeout(Duration::from_mins(1), all).await;
    let idle: Vec<_> = never_asked(&rights, &asked).map(ToString::to_string).collect();
    assert!(waited.is_ok() && idle.is_empty(), "allowed and never asked for: {idle:#?}");
    check_reasons(&rights, &asked);
    let refused: Vec<_> = asked.iter().filter(|asked| !asked.allowed).map(|asked| asked.what.to_string()).collect();
    assert!(refused.is_empty(), "asked for and not allowed: {refused:#?}");
    // By the rules of this release, and not by those of somebody else; what is no resource is open to everybody.
    let of_resources = asked.iter().filter(|asked| !asked.what.resource.starts_with('/'));
    let by_others: Vec<_> =
        of_resources.filter(|asked| !rights.iter().any(|right| right.covers(&asked.what))).collect();
    assert!(by_others.is_empty(), "allowed by no rule of the release: {by_others:#?}");

    let agents = room.cluster().asked_by(room.system(), "haptic-haproxy")?;
    assert!(agents.is_empty(), "the agents ask the API server nothing: {agents:?}");
    release.helm(&["uninstall", "haptic", "--wait", "--timeout", "300s"])?;
    room.objects.delete(CUSTOM_RESOURCE_DEFINITION, "", GADGETS).await?;
    release.room.close().await
}

fn is_asked(right: &Right, asked: &BTreeSet<Asked>) -> bool {
    asked.iter().any(|asked| asked.allowed && right.covers(&asked.what))
}

/// Without those for which there is a reason.
fn never_asked<'a>(rights: &'a BTreeSet<Right>, asked: &'a BTreeSet<Asked>) -> impl Iterator<Item = &'a Right> {
    rights
        .iter()
        .filter(|right| !is_asked(right, asked) && !NOT_ASKED.iter().any(|entry| excuses(*entry, right, asked)))
}

fn excuses((verb, resource, _): (&str, &str, &str), right: &Right, asked: &BTreeSet<Asked>) -> bool {
    let watched = || is_asked(&Right { verb: "watch".to_owned(), ..right.clone() }, asked);
    right.verb == verb
        && match (verb, resource) {
            ("list", _) => watched(),
            ("create", "events") => right.resource == resource && right.namespace == "default",
            _ => right.resource == resource,
        }
}

/// A reason that excuses nothing any more is taken off the list.
fn check_reasons(rights: &BTreeSet<Right>, asked: &BTreeSet<Asked>) {
    for entry @ (verb, resource, reason) in NOT_ASKED {
        let idle = rights.iter().any(|right| !is_asked(right, asked) && excuses(entry, right, asked));
        assert!(idle, "{verb} {resource} needs no reason any more: {reason}");
    }
}

/// A bad Ingress, one whose Service is not there, and a bad object in a version that templates do not read.
async fn writes_are_judged(release: &Release) -> Result<()> {
    let room = &release.room;
    let made = |name: &str, balance: &str, service: &str| -> Result<Value> {
        let balance = [("haptic.rs/load-balance", balance)];
        Ok(room.manifest(&ingress(name, &format!("{name}.localhost"), "/", &balance, service))?.remove(0))
    };
    let gadget = json!({
        "apiVersion": "asked.example.com/v1beta1", "kind": "Gadget", "spec": { "color": "none" },
        "metadata": { "name": "bad", "namespace": room.shop() },
    });
    for (bad, words) in [(made("bad", "heavy", "web")?, "load-balance"), (gadget, "a gadget needs a color")] {
        let file = tempfile::NamedTempFile::new().context("make a file")?;
        fs::write(file.path(), bad.to_string()).context("write a manifest")?;
        let path = file.path().to_str().context("a path is text")?;
        within(Duration::from_mins(2), "the webhook to refuse what is bad", async || {
            let refused = room.cluster().kubectl(&["create", "--dry-run=server", "--filename", path]).await.err()?;
            format!("{refused:#}").contains(words).then_some(())
        })
        .await;
    }
    room.objects.try_out(&made("early", "leastconn", "nowhere")?).await.map(|_| ())
}

/// A Secret that is no certificate any more is told about its Ingress; every Ingress says where it is reached.
async fn statuses_and_events(release: &Release) -> Result<()> {
    let room = &release.room;
    let addressed = |ingress: &Value| ingress.pointer("/status/loadBalancer/ingress/0").map(|_| ());
    room.objects.until((INGRESS, room.shop(), "web"), "its address in the status", addressed).await?;
    let broken = json!({ "data": { "tls.crt": "bm8gY2VydGlmaWNhdGU=" } });
    room.objects.merge(SECRET, room.shop(), "api-tls", &broken).await?;
    eventually("an Event about the Ingress", async || {
        let events = room.events("Ingress", "api").await.ok()?;
        events.into_iter().find(|text| text.contains("api-tls"))
    })
    .await;
    room.apply_text(&Certificate::issue("api.shop.localhost")?.manifest("api-tls")).await
}

/// A configuration, a map, a list of certificates and a file that nobody serves any more; and a change that is refused.
async fn what_is_published_changes(release: &Release) -> Result<()> {
    let room = &release.room;
    let published = ["get", "haproxycfgs", "--namespace", room.system(), "--output", "name"];
    // The files of a configuration come before it.
    within(Duration::from_mins(1), "a published configuration", async || {
        let names = room.cluster().kubectl(&published).await.ok()?;
        (!names.trim().is_empty()).then_some(())
    })
    .await;
    room.apply_text(&Certificate::issue("more.localhost")?.manifest("more-tls")).await?;
    let mut more = room.manifest(&ingress("more", "more.localhost", "/", &[], "web"))?.remove(0);
    more["spec"]["tls"] = json!([{ "hosts": ["more.localhost"], "secretName": "more-tls" }]);
    room.objects.apply(&more).await?;
    let page = json!({ "spec": { "files": { "503.http": { "template": error_page("closed for a moment") } } } });
    room.objects.merge(TEMPLATE_CONFIG, room.system(), "haptic", &page).await?;
    let config = (TEMPLATE_CONFIG, room.system(), "haptic");
    room.objects.until(config, "the new page to be accepted", |config| judged(config, "True")).await?;
    for (snippet, verdict) in [(json!({ "template": "{{ broken" }), "False"), (Value::Null, "True")] {
        let patch = json!({ "spec": { "templateSnippets": { "frontend/90-asked": snippet } } });
        room.objects.merge(TEMPLATE_CONFIG, room.system(), "haptic", &patch).await?;
        room.objects.until(config, "the verdict", |config| judged(config, verdict)).await?;
    }
    Ok(())
}

/// The newest generation is.
fn judged(config: &Value, status: &str) -> Option<()> {
    let accepted = condition(config, "Accepted")?;
    let newest = accepted["observedGeneration"] == config["metadata"]["generation"];
    (newest && accepted["status"] == status).then_some(())
}

/// A Lease that somebody deleted is made anew; a leader that dies is followed by another one.
async fn leaders_change(release: &Release) -> Result<()> {
    let room = &release.room;
    let lease = room.watch_lease(LEASE_NAME);
    room.objects.delete(LEASE, room.system(), LEASE_NAME).await?;
    let term = lease.until("a leader", |state| state.holder.is_some().then(|| state.clone())).await?;
    let leader = term.holder.context("it was waited for")?;
    room.signal(&leader, "haptic", Signal::KILL).await?;
    let next = |state: &LeaseState| (state.epoch > term.epoch && state.holder.is_some()).then_some(());
    lease.until("another term", next).await?;
    release.all_ready().await
}
