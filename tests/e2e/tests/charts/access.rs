//! What the chart allows is what `haptic rbac` says that the rendered configuration needs.

use std::{collections::BTreeSet, process::Command};

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::binary;
use serde_json::Value;

use crate::{
    cases::{Case, write_configuration},
    helm::{Helm, NAMESPACE, RELEASE, documents},
};

/// Scope, API group, resource, name (empty = every one) and verb.
type Grant = [String; 5];

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Everything that is allowed, one by one; what is allowed for every object is not said again for one.
fn grants(objects: &[Value]) -> BTreeSet<Grant> {
    let mut grants = BTreeSet::new();
    for object in objects.iter().filter(|object| ["Role", "ClusterRole"].iter().any(|kind| object["kind"] == *kind)) {
        let scope = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        for rule in object["rules"].as_array().into_iter().flatten() {
            let mut names = texts(&rule["resourceNames"]);
            if names.is_empty() {
                names.push(String::new());
            }
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for name in &names {
                        for verb in texts(&rule["verbs"]) {
                            grants.insert([scope.clone(), group.clone(), resource.clone(), name.clone(), verb]);
                        }
                    }
                }
            }
        }
    }
    let of_every = |[scope, group, resource, _, verb]: &Grant| {
        [scope.clone(), group.clone(), resource.clone(), String::new(), verb.clone()]
    };
    grants.iter().filter(|grant| grant[3].is_empty() || !grants.contains(&of_every(grant))).cloned().collect()
}

/// Kind, namespace and name of what is bound, and to whom.
fn bindings(objects: &[Value]) -> BTreeSet<String> {
    let bound = |object: &Value| {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let role = format!("{} {}/{}", text("/roleRef/kind"), text("/metadata/namespace"), text("/roleRef/name"));
        let subject = ["kind", "namespace", "name"].map(|field| text(&format!("/subjects/0/{field}")));
        format!("{role} to {}", subject.join(" "))
    };
    let is_binding = |object: &&Value| object["kind"].as_str().is_some_and(|kind| kind.ends_with("Binding"));
    objects.iter().filter(is_binding).map(bound).collect()
}

fn rbac(rendered: &[Value], account: &str) -> Result<Vec<Value>> {
    let folder = tempfile::tempdir().context("make a folder")?;
    write_configuration(rendered, folder.path())?;
    let mut command = Command::new(binary());
    command.args(["rbac", "--namespace", NAMESPACE, "--name", RELEASE, "--service-account", account]);
    let output = command.arg("--config-dir").arg(folder.path()).output().context("run haptic rbac")?;
    ensure!(output.status.success(), "haptic rbac: {}", String::from_utf8_lossy(&output.stderr));
    documents(&String::from_utf8(output.stdout).context("read what it printed")?)
}

#[test]
fn roles_are_those_of_haptic_rbac_and_no_rule_has_a_wildcard() -> Result<()> {
    let helm = Helm::three()?;
    for case in Case::all()? {
        let rendered = helm.render(&case.values())?;
        if !rendered.iter().any(|object| object["kind"] == "Role") {
            continue;
        }
        let binding = rendered.iter().find(|object| object["kind"] == "RoleBinding").context("a binding")?;
        let account = binding["subjects"][0]["name"].as_str().context("a name")?;
        let needed = rbac(&rendered, account)?;
        let (mut found, needed_grants) = (grants(&rendered), grants(&needed));
        for grant in certificates(&rendered) {
            assert!(found.remove(&grant), "{}: {grant:?} is missing", case.name);
        }
        assert_eq!(found, needed_grants, "{}", case.name);
        assert_eq!(bindings(&rendered), bindings(&needed), "{}", case.name);
        assert!(found.iter().all(|grant| grant.iter().all(|part| part != "*")), "{}: {found:?}", case.name);
    }
    Ok(())
}

/// What the keeper of certificates needs besides.
fn certificates(rendered: &[Value]) -> Vec<Grant> {
    let grant = |scope: &str, group: &str, resource: &str, name: &str, verb: &str| {
        [scope, group, resource, name, verb].map(str::to_owned)
    };
    let mut needed = Vec::new();
    let own = |object: &&Value| object["kind"] == "Secret";
    for secret in rendered.iter().filter(own).filter_map(|secret| secret["metadata"]["name"].as_str()) {
        // The configuration names the controller's, so it is read in any case.
        let verbs: &[&str] =
            if secret == "haptic-controller" { &["update"] } else { &["get", "list", "update", "watch"] };
        needed.extend(verbs.iter().map(|verb| grant(NAMESPACE, "", "secrets", secret, verb)));
    }
    let webhook = rendered.iter().any(|object| object["kind"] == "ValidatingWebhookConfiguration");
    if webhook && !needed.is_empty() {
        let (group, resource) = ("admissionregistration.k8s.io", "validatingwebhookconfigurations");
        needed.extend(["get", "patch"].map(|verb| grant("", group, resource, "haptic-edge", verb)));
    }
    needed
}
