//! Every object that is rendered, before the real API server: strict fields, validation, admission, Pod Security.

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::cluster::{Room, SERVICE_ACCOUNT};
use serde_json::{Value, json};

use crate::{
    cases::Case,
    helm::{Helm, NAMESPACE, identity},
    release::install_kinds,
};

/// Kinds of others that this cluster does not have, and what every one of them must say.
const OF_OTHERS: [(&str, &str, &[&str]); 5] = [
    ("monitoring.coreos.com/v1", "ServiceMonitor", &["/spec/selector/matchLabels", "/spec/endpoints/0/port"]),
    ("monitoring.coreos.com/v1", "PodMonitor", &["/spec/selector/matchLabels", "/spec/podMetricsEndpoints/0/port"]),
    ("monitoring.coreos.com/v1", "PrometheusRule", &["/spec/groups/0/name", "/spec/groups/0/rules/0"]),
    ("cert-manager.io/v1", "Issuer", &["/spec"]),
    ("cert-manager.io/v1", "Certificate", &["/spec/secretName", "/spec/issuerRef/name"]),
];

/// The case whose pods have the network of their node, which only a privileged namespace allows.
const PRIVILEGED: &str = "daemon-set";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_takes_every_object_and_pods_are_restricted() -> Result<()> {
    let _turn = haptic_e2e::exclusive().await;
    let room = Room::open_bare("dry-run").await?;
    let helm = Helm::three()?.with_cluster(room.cluster().kubeconfig());
    install_kinds(&helm, &room).await?;
    for namespace in [NAMESPACE, "blog", "network"] {
        let labels = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
        let object = json!({ "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": namespace, "labels": labels } });
        room.objects.apply(&object).await?;
    }
    // Pods are refused where it is missing.
    let there = |account: &Value| account.is_object().then_some(());
    room.objects.until((SERVICE_ACCOUNT, NAMESPACE, "default"), "the account of pods", there).await?;
    for case in Case::all()? {
        let mut tried = 0;
        for object in helm.render(&case.values())? {
            if let Some((_, _, pointers)) =
                OF_OTHERS.iter().find(|(version, kind, _)| object["apiVersion"] == *version && object["kind"] == *kind)
            {
                for pointer in *pointers {
                    ensure!(
                        object.pointer(pointer).is_some(),
                        "{}: {:?} lacks {pointer}",
                        case.name,
                        identity(&object)
                    );
                }
                continue;
            }
            room.objects.try_out(&object).await.with_context(|| format!("case {}", case.name))?;
            tried += 1;
            let Some(pod) = pod_of(&object) else { continue };
            let answer = room.objects.try_out(&pod).await;
            if case.name == PRIVILEGED && object["kind"] == "DaemonSet" {
                let refusal = format!("{:#}", answer.err().context("a restricted namespace has no host network")?);
                ensure!(refusal.contains("hostNetwork"), "{refusal}");
            } else {
                answer.with_context(|| format!("case {}: the pods of {:?}", case.name, identity(&object)))?;
            }
        }
        ensure!(tried > 5, "case {}: only {tried} objects", case.name);
    }
    room.close().await
}

/// A pod as a workload makes it: Pod Security looks at workloads only to warn.
fn pod_of(object: &Value) -> Option<Value> {
    let template = object.pointer("/spec/template").filter(|template| template["spec"]["containers"].is_array())?;
    let mut pod =
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"] });
    pod["metadata"]["name"] = object["metadata"]["name"].clone();
    pod["metadata"]["namespace"] = object["metadata"]["namespace"].clone();
    // Where the platform chooses the user; accounts are not there in a dry run.
    pod["spec"].as_object_mut()?.remove("serviceAccountName");
    Some(pod)
}
