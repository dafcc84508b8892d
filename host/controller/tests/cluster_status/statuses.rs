//! The conditions of the configuration object.

use std::sync::Arc;

use anyhow::Result;
use haptic_api::PluginReason;
use haptic_controller::{
    cluster::{ConfigStanding, Refused, Reporter, Served, tell_of_standing},
    plugin_loader::{PluginFault, PluginState, Proof},
    pod::PodOutcome,
};
use haptic_model::{Finding, FindingCode, ObjectRef};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::scene::{Scene, eventually};

fn refused(scene: &Scene, generation: i64) -> Arc<ConfigStanding> {
    let finding = Finding::error(FindingCode::RefusedByHAProxy, "unknown keyword `bogus`")
        .at("haproxyConfig", 3, 0)
        .hint("correct the line");
    Arc::new(ConfigStanding {
        owner: Some(scene.owner.clone()),
        serving: Some(Served { generation: 1, warnings: Arc::new([]) }),
        refused: Some(Refused { generation, findings: Arc::new([finding]) }),
        credentials: Arc::default(),
        certificates: Arc::default(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_candidate_and_a_pod_that_stays_behind_are_told_until_they_are_not_true_any_more() -> Result<()> {
    let scene = Scene::new(json!({})).await?;
    let theirs = json!({
        "type": "Theirs", "status": "True", "reason": "Other", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z",
    });
    let path = format!("{}/shop/status", scene.room.path("apis/haptic.rs/v1alpha1", "haproxytemplateconfigs"));
    scene.room.send(Method::PATCH, &path, &json!({ "status": { "conditions": [theirs] } })).await?;
    let accepting = scene.standing.borrow().clone();

    let term = scene.lead(&["a", "b"]);
    scene.condition("Accepted", "True", "Accepted").await?;
    let first = scene.render(1, &[]);
    term.rendered(&first);
    term.answered(&first, &["a"], PodOutcome::Serving);
    scene.condition("Deployed", "False", "Deploying").await?;
    term.answered(&first, &["b"], PodOutcome::Failed);
    let failed = scene.condition("Deployed", "False", "DeploymentFailed").await?;
    let message = failed["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("pod b") && message.contains("does not answer") && message.contains("next step"),
        "{message}"
    );
    scene.condition("Degraded", "False", "AllPodsAnswer").await?;
    eventually("pod b never answered", || async {
        // Reports about one pod replace each other in a mailbox.
        term.answered(&first, &["b"], PodOutcome::Failed);
        let config = scene.config().await?;
        let degraded =
            config["status"]["conditions"].as_array().into_iter().flatten().find(|of| of["type"] == "Degraded");
        Ok(degraded.filter(|degraded| degraded["reason"] == "PodNeverAnswered").map(|_| ()))
    })
    .await?;
    term.answered(&first, &["b"], PodOutcome::Serving);
    let deployed = scene.condition("Deployed", "True", "AllPodsServe").await?;
    scene.condition("Degraded", "False", "AllPodsAnswer").await?;
    assert_eq!(deployed["observedGeneration"], 1);

    scene.standing.send_replace(refused(&scene, 2));
    let accepted = scene.condition("Accepted", "False", "HAProxyValidationFailed").await?;
    let message = accepted["message"].as_str().unwrap_or_default();
    assert!(message.contains("generation 1 goes on serving") && message.contains("haproxyConfig:3"), "{message}");
    assert_eq!(
        (&accepted["observedGeneration"], &scene.config().await?["status"]["observedGeneration"]),
        (&json!(2), &json!(2))
    );
    term.end().await?;

    // The next leader knows better, whoever wrote before.
    scene.standing.send_replace(accepting);
    scene.standing.send_modify(|standing| {
        let serving = Some(Served { generation: 2, warnings: Arc::new([]) });
        *standing = Arc::new(ConfigStanding { serving, ..(**standing).clone() });
    });
    let term = scene.lead(&["a", "b"]);
    let turned = scene.condition("Accepted", "True", "Accepted").await?;
    assert_ne!(turned["observedGeneration"], 1);
    let config = scene.config().await?;
    assert_eq!(config["status"]["conditions"][0], theirs, "what others wrote stays");
    term.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_while_nothing_differs_and_what_others_wrote_over_is_asserted_again() -> Result<()> {
    let scene = Scene::new(json!({})).await?;
    let term = scene.lead(&["a"]);
    let render = scene.render(1, &[]);
    term.serves(&render, &["a"]);
    scene.condition("Deployed", "True", "AllPodsServe").await?;
    let version = |config: &Value| config["metadata"]["resourceVersion"].clone();
    let before = eventually("it comes to rest", || async {
        let first = version(&scene.config().await?);
        scene.condition("Degraded", "False", "AllPodsAnswer").await?;
        Ok((version(&scene.config().await?) == first).then_some(first))
    })
    .await?;
    // A change that all pods take as expected.
    let web = scene.ingress("web", "web.example").await?;
    let second = scene.render(2, std::slice::from_ref(&web));
    term.serves(&second, &["a"]);
    let plan = second.plan().to_string();
    eventually("it is published", || async {
        Ok(scene.published("haproxycfgs").await?.into_iter().find(|cfg| cfg["spec"]["plan"] == *plan))
    })
    .await?;
    assert_eq!(version(&scene.config().await?), before);

    let path = format!("{}/shop/status", scene.room.path("apis/haptic.rs/v1alpha1", "haproxytemplateconfigs"));
    let written = scene.room.send(Method::PATCH, &path, &json!({ "status": { "conditions": [] } })).await?;
    assert_ne!(version(&written), before);
    term.audit();
    scene.condition("Deployed", "True", "AllPodsServe").await?;
    term.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_tell_together_how_a_configuration_stands_while_nobody_leads() -> Result<()> {
    let scene = Scene::new(json!({})).await?;
    let standing = watch::Sender::new(Arc::new(ConfigStanding { serving: None, ..(*refused(&scene, 1)).clone() }));
    let replicas: Vec<_> = (0..3)
        .map(|_| {
            tokio::spawn(tell_of_standing(
                scene.api.clone(),
                standing.subscribe(),
                watch::Sender::new(Arc::default()).subscribe(),
                scene.own_writes.clone(),
                scene.clock.clone(),
                Reporter::new("haptic-0"),
                Scene::write_settings(),
            ))
        })
        .collect();
    let accepted = scene.condition("Accepted", "False", "HAProxyValidationFailed").await?;
    assert!(accepted["message"].as_str().unwrap_or_default().contains("nothing serves yet"), "{accepted}");
    let conditions = scene.config().await?["status"]["conditions"].as_array().map(Vec::len);
    assert_eq!(conditions, Some(1), "what only a leader knows is left to it");
    // A replica that is behind does not take back what another one knows.
    let behind = Arc::new(ConfigStanding { owner: Some(scene.owner.clone()), ..ConfigStanding::default() });
    standing.send_replace(behind);
    standing.send_replace(refused(&scene, 2));
    eventually("the newest generation is told", || async {
        Ok((scene.config().await?["status"]["observedGeneration"] == 2).then_some(()))
    })
    .await?;
    let missing = Finding::error(FindingCode::UnresolvedReference, "it is not there").about(Some(ObjectRef::new(
        "Secret",
        &scene.room.namespace,
        "haptic-authority",
    )));
    standing.send_modify(|standing| Arc::make_mut(standing).certificates = Arc::new([missing]));
    let events = eventually("an Event says what keeps certificates from being issued", || async {
        let events = scene.list("apis/events.k8s.io/v1", "events").await?;
        Ok((!events.is_empty()).then_some(events))
    })
    .await?;
    assert_eq!(events.len(), 1, "all replicas say it in one: {events:?}");
    assert_eq!(events[0]["regarding"]["name"], "haptic-authority");
    replicas.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_says_how_far_it_came_and_what_to_do() -> Result<()> {
    let scene = Scene::new(json!({})).await?;
    let object = json!({
        "apiVersion": "haptic.rs/v1alpha1", "kind": "HAProxyPlugin", "metadata": { "name": "policy" },
        "spec": { "module": { "http": { "url": "https://modules.example/policy.wasm" } }, "sha256": "0".repeat(64) },
    });
    scene.room.send(Method::POST, &scene.room.path("apis/haptic.rs/v1alpha1", "haproxyplugins"), &object).await?;
    let fault = PluginFault {
        reason: PluginReason::NotFound,
        message: "https://modules.example/policy.wasm answers 404".to_owned(),
        next_step: "correct module.http.url".to_owned(),
    };
    let state = |generation, progress| PluginState {
        namespace: scene.room.namespace.as_str().into(),
        name: "policy".into(),
        generation: Some(generation),
        proof: Proof::Pin,
        progress,
        missing: None,
    };
    let plugins = watch::Sender::new(Arc::new(vec![state(1, Err(fault))]));
    let telling = tokio::spawn(tell_of_standing(
        scene.api.clone(),
        scene.standing.subscribe(),
        plugins.subscribe(),
        scene.own_writes.clone(),
        scene.clock.clone(),
        Reporter::new("haptic-0"),
        Scene::write_settings(),
    ));
    let fetched = |status: &'static str, reason: &'static str, generation: i64| {
        let scene = &scene;
        async move {
            eventually(&format!("Fetched is {status} because {reason}"), || async {
                let plugin = scene.object("apis/haptic.rs/v1alpha1", "haproxyplugins", "policy").await?;
                let conditions = plugin["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let found = conditions.into_iter().find(|condition| condition["type"] == "Fetched");
                let holds = |found: &Value| {
                    found["status"] == status
                        && found["reason"] == reason
                        && plugin["status"]["observedGeneration"] == generation
                };
                Ok(found.filter(holds))
            })
            .await
        }
    };
    let condition = fetched("False", "NotFound", 1).await?;
    let message = condition["message"].as_str().unwrap_or_default();
    assert!(message.contains("answers 404; next step: correct module.http.url"), "{message}");
    plugins.send_replace(Arc::new(vec![state(2, Ok(()))]));
    fetched("True", "Succeeded", 2).await?;
    telling.abort();
    Ok(())
}
