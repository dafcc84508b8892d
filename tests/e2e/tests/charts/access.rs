//! What the chart allows is what `haptic rbac` says that the rendered configuration needs, and what is tried out at
//! admission is what `haptic webhook-configuration` says.

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

/// What the controllers are told about the certificates that they issue.
fn certificate_arguments(rendered: &[Value]) -> Result<Vec<String>> {
    let controllers = rendered.iter().find(|object| {
        object["kind"] == "Deployment" && object["metadata"]["labels"]["app.kubernetes.io/component"] == "controller"
    });
    let arguments = texts(&controllers.context("controllers")?["spec"]["template"]["spec"]["containers"][0]["args"]);
    let about = [
        "--issue-certificates",
        "--authority-secret",
        "--agent-secret",
        "--controller-secret",
        "--webhook-secret",
        "--webhook-service",
        "--webhook-configuration",
    ];
    let wanted = |argument: &String| about.contains(&argument.split('=').next().unwrap_or_default());
    Ok(arguments.into_iter().filter(wanted).collect())
}

/// For the names that the chart gave.
fn rbac(rendered: &[Value], binding: &Value) -> Result<Vec<Value>> {
    let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str).context("a name in the binding");
    let folder = tempfile::tempdir().context("make a folder")?;
    write_configuration(rendered, folder.path())?;
    let mut command = Command::new(binary());
    command.args(["rbac", "--namespace", NAMESPACE, "--name", text("/roleRef/name")?]);
    command.args(["--service-account", text("/subjects/0/name")?]);
    command.args(certificate_arguments(rendered)?);
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
        let found = grants(&rendered);
        assert_eq!(found, grants(&needed), "{}", case.name);
        assert_eq!(bindings(&rendered), bindings(&needed), "{}", case.name);
        assert!(found.iter().all(|grant| grant.iter().all(|part| part != "*")), "{}: {found:?}", case.name);
    }
    Ok(())
}

/// Where a kind is tried out: group, resource, versions, and each condition on namespaces.
fn tried_out(configuration: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for webhook in configuration["webhooks"].as_array().into_iter().flatten() {
        let mut conditions: Vec<String> = Vec::new();
        for condition in webhook["namespaceSelector"]["matchExpressions"].as_array().into_iter().flatten() {
            let values: BTreeSet<_> = texts(&condition["values"]).into_iter().collect();
            conditions.push(format!("{} {} {values:?}", condition["key"], condition["operator"]));
        }
        let mut rest = webhook.clone();
        for field in ["name", "rules", "namespaceSelector"] {
            rest[field] = Value::Null;
        }
        for rule in webhook["rules"].as_array().into_iter().flatten() {
            // The order of the fields differs.
            let rest: BTreeSet<_> =
                rest.as_object().into_iter().flatten().map(|(name, value)| (name, alike(value))).collect();
            let rule: BTreeSet<_> =
                rule.as_object().into_iter().flatten().map(|(name, value)| (name, alike(value))).collect();
            found.insert(format!("{rule:?} {conditions:?} {rest:?}"));
        }
    }
    found
}

/// With fields in the order of their names.
fn alike(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: BTreeSet<_> = fields.iter().map(|(name, value)| format!("{name}: {}", alike(value))).collect();
            format!("{fields:?}")
        }
        other => other.to_string(),
    }
}

#[test]
fn what_is_tried_out_at_admission_is_what_haptic_webhook_configuration_says() -> Result<()> {
    let helm = Helm::three()?;
    let mut compared = 0;
    for case in Case::all()? {
        // This one has conditions of its own.
        if case.name == "existing-certificates" {
            continue;
        }
        let rendered = helm.render(&case.values())?;
        let Some(configuration) = rendered.iter().find(|object| object["kind"] == "ValidatingWebhookConfiguration")
        else {
            continue;
        };
        let name = configuration["metadata"]["name"].as_str().context("a name")?;
        let service = configuration.pointer("/webhooks/0/clientConfig/service/name").and_then(Value::as_str);
        let folder = tempfile::tempdir().context("make a folder")?;
        write_configuration(&rendered, folder.path())?;
        let mut command = Command::new(binary());
        command.args(["webhook-configuration", "--namespace", NAMESPACE, "--name", name]);
        command.args(["--service", service.context("a Service")?, "--config-dir"]).arg(folder.path());
        let output = command.output().context("run haptic webhook-configuration")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let needed = documents(&String::from_utf8(output.stdout).context("read what it printed")?)?;
        assert_eq!(tried_out(configuration), tried_out(&needed[0]), "{}", case.name);
        compared += 1;
    }
    ensure!(compared > 3, "only {compared} cases have a webhook");
    Ok(())
}
