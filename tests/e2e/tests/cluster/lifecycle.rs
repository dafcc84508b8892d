//! Sentences of the seed about starts, successors and hand-overs, as a user sees them.

use anyhow::{Context as _, Result};
use haptic_e2e::{
    Load,
    cluster::{
        CUSTOM_RESOURCE_DEFINITION, SECRET, TEMPLATE_CONFIG, condition, reason_of,
        served::{HAPROXY, HAPTIC, LEASE_NAME, Served},
    },
    eventually, exclusive,
};
use serde_json::{Value, json};

const WIDGETS: &str = "widgets.lifecycle.example.com";

/// A resource that the controller may not list, so that a start waits for it.
fn forbidden() -> Value {
    json!({ "apiVersion": "v1", "resources": "nodes", "kind": "Node", "indexBy": ["metadata.name"] })
}

fn header_snippet(text: &str) -> Value {
    json!({ "spec": { "templateSnippets": { "frontend/90-lifecycle": { "template": text } } } })
}

/// A snippet that names this version in every answer.
fn version(name: &str) -> Value {
    header_snippet(&format!("http-response set-header X-Version {name}\n"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_answers_probes_from_the_beginning_and_waits_for_what_is_accepted() -> Result<()> {
    let _turn = exclusive().await;
    let later = |object: &mut Value| {
        if object["kind"] == "Deployment" && object["metadata"]["name"] == "haptic" {
            object["spec"]["replicas"] = 0.into();
        }
    };
    let served = Served::apply("start", &later).await?;
    served.room.objects.delete(TEMPLATE_CONFIG, served.room.system(), "shop").await?;
    served.room.scale("haptic", 2).await?;

    // Stage 2: there is no configuration of that name.
    let told = eventually("the probe to say why it waits", async || {
        let pod = served.room.pods(HAPTIC).await.ok()?.into_iter().next()?;
        let answer = served.probe(&pod, "/healthz").await.ok()?;
        answer.body.clone().contains("there is no HAProxyTemplateConfig").then_some((pod, answer))
    });
    let (pod, answer) = told.await;
    assert_eq!(answer.status, 200, "a start is healthy: {answer:?}");
    assert_eq!(served.probe(&pod, "/readyz").await?.status, 503, "and not ready");
    assert_eq!(served.probe(&pod, "/livez").await?.status, 200);

    // Stage 3: it waits for a resource that it may not read.
    let mut config = served.room.example("cluster/config.yaml")?.remove(0);
    config["spec"]["watchedResources"]["nodes"] = forbidden();
    served.room.apply(std::slice::from_ref(&config)).await?;
    eventually("the probe to name the resource that is waited for", async || {
        let answer = served.probe(&pod, "/healthz").await.ok()?;
        let text = answer.body.clone();
        (answer.status == 200 && text.contains("Stage 3") && text.contains("nodes")).then_some(())
    })
    .await;
    assert_eq!(served.probe(&pod, "/readyz").await?.status, 503);

    // A newer configuration that is accepted ends the wait; one that is not does not.
    served.configure(&json!({ "spec": { "haproxyConfig": { "template": "{{ broken" } } })).await?;
    eventually("the refusal in the log", async || {
        served.room.log(&pod.name, "haptic").contains("came during the start-up").then_some(())
    })
    .await;
    served.configure(&json!({ "spec": { "haproxyConfig": null, "watchedResources": { "nodes": null } } })).await?;
    served.room.ready_pods(HAPTIC, 2).await?;
    served.room.ready_pods(HAPROXY, 2).await?;
    served.check_routes().await?;
    let log = served.room.log(&pod.name, "haptic");
    for stage in [
        "Stage 1: Creating config management components",
        "Stage 3: ",
        "Stage 5: ",
        "Stage 6: ",
        "Stage 8: Registering debug variables and updating health checker",
    ] {
        assert!(log.contains(stage), "the log carries `{stage}`:\n{log}");
    }
    assert!(log.contains("is accepted during the start-up"), "{log}");
    served.room.close().await
}

/// What fails after the hand-over tears both down: the process begins anew, with what was accepted, and traffic flows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_that_fails_after_the_hand_over_takes_its_predecessor_with_it() -> Result<()> {
    let _turn = exclusive().await;
    let breaks = |object: &mut Value| {
        if object["kind"] == "Deployment" && object["metadata"]["name"] == "haptic" {
            let container = &mut object["spec"]["template"]["spec"]["containers"][0];
            if let Some(env) = container["env"].as_array_mut() {
                env.push(json!({ "name": "HAPTIC_FAULT", "value": "handed_over:fail" }));
            }
        }
    };
    let served = Served::start("both-down", &breaks).await?;
    let lease = served.room.watch_lease(LEASE_NAME);
    let holder = lease.until("a leader", |state| state.holder.clone()).await?;
    let before = lease.until("an epoch", |state| Some(state.epoch)).await?;
    let service = served.room.service("haproxy", 80).await?;
    let load = Load::start(service.address(), &Served::targets());
    load.flow(100).await;

    let verdict = served.judged(served.configure(&version("one")).await?).await?;
    assert!(verdict.starts_with("True "), "{verdict}");
    served.answers_with("x-version", "one").await?;
    let log = served.room.log(&holder, "haptic");
    assert!(log.contains("it failed after the hand-over: the stage HandOverFault ended early"), "{log}");
    // The successor's term, and the one that followed on it.
    lease.until("two further epochs", |state| (state.epoch >= before + 2).then_some(())).await?;
    served.room.ready_pods(HAPTIC, 2).await?;
    lease.check_epochs()?;

    load.flow(100).await;
    let report = load.finish().await;
    assert_eq!(report.failed, 0, "{} of {} requests failed: {:#?}", report.failed, report.requests, report.samples);
    served.add_route("after", "after.localhost").await?;
    served.room.close().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_takes_over_or_leaves_what_serves_alone() -> Result<()> {
    let _turn = exclusive().await;
    let widgets = |object: &mut Value| {
        if object["kind"] == "HAProxyTemplateConfig" {
            object["spec"]["watchedResources"]["widgets"] = json!({
                "apiVersions": ["lifecycle.example.com/v1", "lifecycle.example.com/v1beta1"], "resources": "widgets",
                "indexBy": ["metadata.name"], "optional": true,
            });
        }
    };
    let served = Served::start("successor", &widgets).await?;
    served.room.apply_text(MAY_WATCH_WIDGETS).await?;
    let (room, objects) = (&served.room, &served.room.objects);
    let lease = room.watch_lease(LEASE_NAME);
    let holder = lease.until("a leader", |state| state.holder.clone()).await?;
    let service = room.service("haproxy", 80).await?;
    let load = Load::start(service.address(), &Served::targets());
    load.flow(100).await;

    // An accepted change: the successor resumes the Lease, in a higher epoch.
    let before = lease.until("an epoch", |state| Some(state.epoch)).await?;
    let verdict = served.judged(served.configure(&version("one")).await?).await?;
    assert!(verdict.starts_with("True "), "{verdict}");
    served.answers_with("x-version", "one").await?;
    let one = lease.until("a higher epoch", |state| (state.epoch > before).then_some(state.epoch)).await?;

    // Passes every validator, but HAProxy refuses what it makes of the objects that are there.
    let unproved = "{% for service in resources.services.list() %}http-request nonsense\n{% endfor %}";
    let verdict = served.judged(served.configure(&header_snippet(unproved)).await?).await?;
    assert!(verdict.starts_with("False ") && verdict.contains("nonsense"), "{verdict}");
    served.answers_with("x-version", "one").await?;
    assert!(served.leader_log(&lease).await?.contains("the iteration was not made"));
    let now = lease.until("an epoch", |state| Some(state.epoch)).await?;
    assert_eq!(now, one, "nothing was handed over");

    // A successor that waits does not keep a newer configuration from serving.
    let mut waits = version("waits");
    waits["spec"]["watchedResources"] = json!({ "nodes": forbidden() });
    served.configure(&waits).await?;
    eventually("the successor to wait", async || {
        let log = served.leader_log(&lease).await.ok()?;
        log.contains("following has trouble").then_some(())
    })
    .await;
    served.answers_with("x-version", "one").await?;
    let mut two = version("two");
    two["spec"]["watchedResources"] = json!({ "nodes": null });
    let verdict = served.judged(served.configure(&two).await?).await?;
    assert!(verdict.starts_with("True "), "{verdict}");
    served.answers_with("x-version", "two").await?;
    assert!(served.leader_log(&lease).await?.contains("the successor is given up"));

    // One that waits in vain is told in the end, and not tried any more once it is taken back.
    let verdict = served.judged(served.configure(&waits).await?).await?;
    assert!(verdict.starts_with("False ") && verdict.contains("nodes") && verdict.contains("haptic rbac"), "{verdict}");
    served.answers_with("x-version", "two").await?;
    let verdict = served.judged(served.configure(&two).await?).await?;
    assert!(verdict.starts_with("True "), "{verdict}");

    // A watched kind is served in another version: resolved anew, and only then the objects are others.
    objects.apply(&definition(&["v1beta1"])).await?;
    let file = tempfile::NamedTempFile::new()?;
    let place = room.shop();
    let widget = format!(
        "{{apiVersion: lifecycle.example.com/v1beta1, kind: Widget, metadata: {{name: w, namespace: {place}}}}}"
    );
    std::fs::write(file.path(), widget)?;
    let path = file.path().to_str().context("a path is text")?;
    eventually("the kind to be served", async || room.cluster().kubectl(&["create", "-f", path]).await.ok()).await;
    let shown = "{% for widget in resources.widgets.list() %}http-response set-header X-Widget {{ widget.apiVersion }}\n\
                 {% endfor %}";
    served.configure(&header_snippet(shown)).await?;
    served.answers_with("x-widget", "lifecycle.example.com/v1beta1").await?;
    objects.apply(&definition(&["v1", "v1beta1"])).await?;
    served.answers_with("x-widget", "lifecycle.example.com/v1").await?;
    let log = served.leader_log(&lease).await?;
    assert!(log.contains("it is served otherwise than before") && log.contains("Schema"), "{log}");

    // Credentials: new content of the Secret is taken over live, another Secret makes a successor.
    let before = lease.until("an epoch", |state| Some(state.epoch)).await?;
    let renewed = served.credentials.controller_again()?;
    objects.merge(SECRET, room.system(), "haptic-credentials", &json!({ "stringData": renewed })).await?;
    eventually("the renewal in the log", async || {
        served.leader_log(&lease).await.ok()?.contains("\"renewed\":true").then_some(())
    })
    .await;
    served.add_route("renewed", "renewed.localhost").await?;
    assert_eq!(lease.until("an epoch", |state| Some(state.epoch)).await?, before, "a renewal makes no successor");
    // What is no certificate is told about the Secret, and those before go on.
    let broken = json!({ "stringData": { "tls.crt": "no certificate" } });
    objects.merge(SECRET, room.system(), "haptic-credentials", &broken).await?;
    eventually("an Event about the Secret", async || {
        let events = room.events("Secret", "haptic-credentials").await.ok()?;
        events.into_iter().find(|text| text.contains("tls.crt") && text.contains("next step"))
    })
    .await;
    served.add_route("broken", "broken.localhost").await?;
    objects.merge(SECRET, room.system(), "haptic-credentials", &json!({ "stringData": renewed })).await?;
    let other = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "other", "namespace": room.system() },
        "stringData": renewed,
    });
    objects.apply(&other).await?;
    // It may not be read before somebody allows it, which is told; and it counts as soon as it may be.
    let generation = served.configure(&json!({ "spec": { "credentialsSecretRef": { "name": "other" } } })).await?;
    let verdict = served.judged(generation).await?;
    assert!(verdict.starts_with("False ") && verdict.contains("other") && verdict.contains("haptic rbac"), "{verdict}");
    served.room.apply_text(&may_read("other")).await?;
    let accepted = |config: &Value| {
        let text = reason_of(config, "Accepted");
        (text.starts_with("True ") && condition(config, "Accepted")?["observedGeneration"] == generation).then_some(())
    };
    objects.until((TEMPLATE_CONFIG, room.system(), "shop"), "it to be accepted", accepted).await?;
    lease.until("a successor's epoch", |state| (state.epoch > before).then_some(())).await?;
    assert!(served.leader_log(&lease).await?.contains("Credentials"));
    served.add_route("other", "other.localhost").await?;

    load.flow(200).await;
    load.finish().await.assert_clean();
    let states = lease.states();
    assert!(states.iter().all(|state| state.holder.as_deref() == Some(&*holder)), "no vacancy: {states:?}");
    lease.check_epochs()?;
    objects.delete(CUSTOM_RESOURCE_DEFINITION, "", WIDGETS).await?;
    served.room.close().await
}

/// What the generated permissions would have for `widgets`.
const MAY_WATCH_WIDGETS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: haptic-widgets}
rules:
- {apiGroups: [lifecycle.example.com], resources: [widgets], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: haptic-widgets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: haptic-widgets}
subjects: [{kind: ServiceAccount, name: haptic, namespace: haptic}]
";

/// Lets the controllers read one Secret more.
fn may_read(secret: &str) -> String {
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: more, namespace: haptic}}\nrules:\n\
         - {{apiGroups: [''], resources: [secrets], resourceNames: [{secret}], verbs: [get, list, watch]}}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: more, namespace: haptic}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: more}}\n\
         subjects: [{{kind: ServiceAccount, name: haptic, namespace: haptic}}]\n"
    )
}

fn definition(versions: &[&str]) -> Value {
    let version = |name: &&str| {
        json!({ "name": name, "served": true, "storage": *name == "v1beta1", "schema": { "openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        } } })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": WIDGETS },
        "spec": {
            "group": "lifecycle.example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
        },
    })
}
