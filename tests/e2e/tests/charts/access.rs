//! What the chart allows is what `haptic rbac` says that the rendered configuration needs.

use std::{collections::BTreeSet, process::Command};

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::binary;
use serde_json::Value;

use crate::{
    cases::{Case, write_configuration},
    helm::{Helm, NAMESPACE, documents},
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

/// For the names that the chart gave.
fn rbac(rendered: &[Value], binding: &Value) -> Result<Vec<Value>> {
    let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str).context("a name in the binding");
    let folder = tempfile::tempdir().context("make a folder")?;
    write_configuration(rendered, folder.path())?;
    let mut command = Command::new(binary());
    command.args(["rbac", "--namespace", NAMESPACE, "--name", text("/roleRef/name")?]);
    command.args(["--service-account", text("/subjects/0/name")?]);
    let output = command.arg("--config-dir").arg(folder.path()).output().context("run haptic rbac")?;
    ensure!(output.status.success(), "haptic rbac: {}", String::from_utf8_lossy(&output.stderr));
    documents(&String::from_utf8(output.stdout).context("read what it printed")?)
}

#[test]
fn roles_are_those_of_haptic_rbac_and_no_rule_has_a_wildcard() -> Result<()> {
    let helm = Helm::three()?;
    for case in Case::all()? {
        let rendered = helm.render(&case.values())?;
        let own = |object: &&Value| object["kind"] == "RoleBinding" && object["metadata"]["namespace"] == NAMESPACE;
        let Some(binding) = rendered.iter().find(own) else {
            assert_eq!(case.name, "minimal", "it has no Roles");
            continue;
        };
        let needed = rbac(&rendered, binding)?;
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
    let names = |kind: &str| {
        let named = rendered.iter().filter(move |object| object["kind"] == kind);
        named.filter_map(|object| object["metadata"]["name"].as_str()).collect::<Vec<_>>()
    };
    let config = rendered.iter().find(|object| object["kind"] == "HAProxyTemplateConfig");
    let read = config.map(|config| &config["spec"]["credentialsSecretRef"]["name"]);
    let mut needed = Vec::new();
    for secret in names("Secret") {
        // The configuration names the controller's, so it is read in any case.
        let named = read.is_some_and(|read| read == secret);
        let verbs: &[&str] = if named { &["update"] } else { &["get", "list", "update", "watch"] };
        needed.extend(verbs.iter().map(|verb| grant(NAMESPACE, "", "secrets", secret, verb)));
    }
    if !needed.is_empty() {
        let (group, resource) = ("admissionregistration.k8s.io", "validatingwebhookconfigurations");
        for name in names("ValidatingWebhookConfiguration") {
            needed.extend(["get", "patch"].map(|verb| grant("", group, resource, name, verb)));
        }
    }
    needed
}
