//! What `haptic rbac` prints, applied to a real API server: what a controller does is allowed, and nothing else is.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail, ensure};
use haptic_e2e::{binary, cluster::Cluster};
use tokio::task::spawn_blocking;

const CONFIG: &str = r#"
apiVersion: haptic.rs/v1alpha1
kind: HAProxyTemplateConfig
metadata:
  name: main
  namespace: edge
spec:
  credentialsSecretRef:
    name: agents
  plugins:
    - name: pages
  watchedResources:
    ingresses:
      apiVersion: networking.k8s.io/v1
      resources: ingresses
    tls:
      apiVersion: v1
      resources: secrets
      namespaces: [shop]
  haproxyConfig:
    template: |
      global
---
apiVersion: haptic.rs/v1alpha1
kind: HAProxyPlugin
metadata:
  name: pages
  namespace: edge
spec:
  sha256: "0000000000000000000000000000000000000000000000000000000000000000"
  module:
    configMap:
      name: modules
      key: pages.wasm
"#;

/// Verb, resource (with the object's name) and namespace (`-` = all).
const ALLOWED: [[&str; 3]; 29] = [
    ["list", "secrets/agents", "edge"],
    ["watch", "secrets/agents", "edge"],
    ["watch", "configmaps/modules", "edge"],
    ["watch", "secrets", "shop"],
    ["list", "ingresses.networking.k8s.io", "-"],
    ["watch", "ingresses.networking.k8s.io", "shop"],
    ["list", "pods", "edge"],
    ["watch", "pods", "edge"],
    ["create", "leases.coordination.k8s.io", "edge"],
    ["get", "leases.coordination.k8s.io/haptic-leader", "edge"],
    ["watch", "leases.coordination.k8s.io/haptic-leader", "edge"],
    ["update", "leases.coordination.k8s.io/haptic-leader", "edge"],
    ["watch", "haproxytemplateconfigs.haptic.rs/main", "edge"],
    ["patch", "haproxytemplateconfigs.haptic.rs/main --subresource=status", "edge"],
    ["update", "haproxytemplateconfigs.haptic.rs/main --subresource=finalizers", "edge"],
    ["watch", "haproxytemplatelibraries.haptic.rs", "edge"],
    ["watch", "haproxyplugins.haptic.rs", "edge"],
    ["patch", "haproxyplugins.haptic.rs --subresource=status", "edge"],
    ["create", "haproxycfgs.haptic.rs", "edge"],
    ["delete", "haproxycfgs.haptic.rs", "edge"],
    ["patch", "haproxycfgs.haptic.rs --subresource=status", "edge"],
    ["create", "haproxymapfiles.haptic.rs", "edge"],
    ["patch", "haproxymapfiles.haptic.rs", "edge"],
    ["delete", "haproxygeneralfiles.haptic.rs", "edge"],
    ["list", "haproxycrtlistfiles.haptic.rs", "edge"],
    ["create", "events.events.k8s.io", "edge"],
    ["create", "events.events.k8s.io", "shop"],
    ["patch", "events.events.k8s.io", "blog"],
    ["watch", "customresourcedefinitions.apiextensions.k8s.io", "-"],
];

const DENIED: [[&str; 3]; 25] = [
    ["get", "secrets/other", "edge"],
    ["list", "secrets", "edge"],
    ["get", "secrets/agents", "blog"],
    ["get", "secrets/agents", "edge"],
    ["patch", "haproxygeneralfiles.haptic.rs --subresource=status", "edge"],
    ["update", "haproxycrtlistfiles.haptic.rs", "edge"],
    ["update", "haproxyplugins.haptic.rs --subresource=status", "edge"],
    ["watch", "secrets", "-"],
    ["update", "secrets/agents", "edge"],
    ["list", "configmaps", "edge"],
    ["get", "configmaps/modules", "shop"],
    ["delete", "pods/haproxy-0", "edge"],
    ["create", "pods", "edge"],
    ["list", "pods", "shop"],
    ["update", "leases.coordination.k8s.io/other", "edge"],
    ["delete", "leases.coordination.k8s.io/haptic-leader", "edge"],
    ["update", "haproxytemplateconfigs.haptic.rs/main", "edge"],
    ["get", "haproxytemplateconfigs.haptic.rs/other", "edge"],
    ["create", "haproxycfgs.haptic.rs", "shop"],
    ["delete", "haproxyplugins.haptic.rs", "edge"],
    ["update", "ingresses.networking.k8s.io", "shop"],
    ["patch", "ingresses.networking.k8s.io --subresource=status", "shop"],
    ["list", "services", "shop"],
    ["create", "clusterroles.rbac.authorization.k8s.io", "-"],
    ["delete", "customresourcedefinitions.apiextensions.k8s.io", "-"],
];

/// What the API server says to the controller itself (a SelfSubjectAccessReview under its name).
fn may(cluster: &Cluster, [verb, resource, namespace]: [&str; 3]) -> Result<bool> {
    let mut kubectl = cluster.kubectl_command();
    kubectl.args(["auth", "can-i", verb]).args(resource.split(' '));
    match namespace {
        "-" => kubectl.arg("--all-namespaces"),
        namespace => kubectl.args(["-n", namespace]),
    };
    let output = kubectl.arg("--as=system:serviceaccount:edge:haptic").output()?;
    let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match said.lines().next() {
        Some(answer) if answer.starts_with("yes") => Ok(true),
        Some(answer) if answer.starts_with("no") => Ok(false),
        _ => bail!("kubectl auth can-i {verb} {resource}: {said}{complaint}"),
    }
}

fn haptic(arguments: &[&str], folder: &Path) -> Result<(Option<i32>, String, String)> {
    let output = Command::new(binary()).args(arguments).current_dir(folder).output()?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).context("UTF-8");
    Ok((output.status.code(), text(output.stdout)?, text(output.stderr)?))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_may_do_what_it_does_and_nothing_else() -> Result<()> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("config.yaml"), CONFIG)?;
    let (code, rbac, complaints) = haptic(&["rbac", "--config-file", "config.yaml"], folder.path())?;
    ensure!(code == Some(0), "{complaints}");
    let cluster = spawn_blocking(Cluster::start).await??;
    let namespaces = ["edge", "shop", "blog"]
        .map(|name| format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{ name: {name} }}\n"))
        .concat();
    cluster.apply_text(&namespaces).await?;
    let (_, crds, _) = haptic(&["crds"], folder.path())?;
    cluster.apply_text(&crds).await?;
    ensure!(!may(&cluster, ALLOWED[0])?, "nothing is allowed before");
    cluster.apply_text(&rbac).await?;
    let mut wrong = Vec::new();
    for (wanted, questions) in [(true, ALLOWED.as_slice()), (false, DENIED.as_slice())] {
        for question in questions {
            if may(&cluster, *question)? != wanted {
                wrong.push(format!("{question:?} should be {}", if wanted { "allowed" } else { "denied" }));
            }
        }
    }
    ensure!(wrong.is_empty(), "{}\n{rbac}", wrong.join("\n"));
    Ok(())
}

#[test]
fn manifests_that_are_no_configuration_get_no_permissions() -> Result<()> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("broken.yaml"), "kind: [")?;
    fs::write(folder.path().join("config.yaml"), CONFIG.replace("- name: pages", "- name: gone"))?;
    fs::write(folder.path().join("notes.txt"), "")?;
    for (arguments, code, expected) in [
        (["--config-file", "broken.yaml"].as_slice(), 1, "broken.yaml:"),
        (&["--config-file", "config.yaml"], 1, "the plugin `gone` is missing"),
        (&["--config-dir", "."], 1, "broken.yaml:"),
        (&["--config-file", "notes.txt"], 2, "its name does not end in .yaml, .yml or .json"),
        (&["--config-file", "absent.yaml"], 2, "opening `absent.yaml` failed"),
        (&[], 2, "--config-file"),
    ] {
        let (found, printed, complaints) = haptic(&[&["rbac"], arguments].concat(), folder.path())?;
        ensure!(found == Some(code) && printed.is_empty(), "{arguments:?}: {found:?} {printed} {complaints}");
        ensure!(complaints.contains(expected), "{arguments:?}: {complaints}");
    }
    Ok(())
}
