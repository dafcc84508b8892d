#![allow(clippy::unwrap_used, reason = "tests")]

use std::{env, fs, path::Path};

use serde_json::json;

use super::*;
use crate::{cluster::certificates::WebhookCertificate, testing::raw};

fn names() -> AccessNames {
    let name = || "haptic".to_owned();
    AccessNames { namespace: None, service_account: name(), name: name(), certificates: None }
}

fn object(kind: &str, name: &str, spec: Value) -> std::sync::Arc<RawObject> {
    raw(&json!({
        "apiVersion": "haptic.rs/v1alpha1",
        "kind": kind,
        "metadata": { "namespace": "edge", "name": name },
        "spec": spec,
    }))
}

fn config(spec: Value) -> std::sync::Arc<RawObject> {
    let mut spec = spec;
    spec["haproxyConfig"] = json!({ "template": "global" });
    object("HAProxyTemplateConfig", "main", spec)
}

fn access(objects: impl IntoIterator<Item = std::sync::Arc<RawObject>>, names: AccessNames) -> Access {
    Access::of(&ConfigObjects::pick(objects), names).unwrap()
}

fn compare(file: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cluster/rbac/tests").join(file);
    if env::var_os("HAPTIC_BLESS").is_some() {
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{} differs; run the tests with HAPTIC_BLESS=1 and review", path.display());
}

/// Whether some rule in this namespace (`None` = of the cluster) allows it.
fn allows(access: &Access, namespace: Option<&str>, verb: &str, resource: &str, name: &str) -> bool {
    let (group, resource) = resource.split_once(':').unwrap();
    access.manifests().iter().any(|object| {
        let here = object["metadata"]["namespace"].as_str() == namespace;
        here && object["rules"].as_array().into_iter().flatten().any(|rule| {
            let has = |key: &str, value: &str| rule[key].as_array().unwrap().contains(&json!(value));
            let named = rule.get("resourceNames").is_none() || has("resourceNames", name);
            has("apiGroups", group) && has("resources", resource) && has("verbs", verb) && named
        })
    })
}

#[test]
fn a_small_configuration_needs_little() {
    let spec = json!({ "watchedResources": {
        "services": { "apiVersion": "v1", "resources": "services", "namespaces": ["shop"] },
    } });
    compare("small.yaml", &access([config(spec)], names()).yaml());
}

#[test]
fn a_large_configuration_needs_what_it_names() {
    let library = object(
        "HAProxyTemplateLibrary",
        "ingress",
        json!({ "revision": "1", "watchedResources": {
            "ingresses": { "apiVersions": ["networking.k8s.io/v1", "extensions/v1beta1"], "resources": "ingresses" },
            "ingressclasses": { "apiVersion": "networking.k8s.io/v1", "resources": "ingressclasses",
                "namespaces": ["shop"] },
        } }),
    );
    let digest = "0".repeat(64);
    let pulled = object(
        "HAProxyPlugin",
        "pulled",
        json!({ "sha256": digest, "module": { "oci": { "image": "r/p:1", "pullSecret": "registry" } } }),
    );
    let mounted = object(
        "HAProxyPlugin",
        "mounted",
        json!({ "sha256": digest, "module": { "configMap": { "name": "modules", "key": "p.wasm" } } }),
    );
    let config = config(json!({
        "credentialsSecretRef": { "name": "agents", "namespace": "vault" },
        "libraryRefs": [{ "name": "ingress" }],
        "plugins": [{ "name": "mounted" }],
        "controller": { "leaderElection": { "leaseName": "edge-leader" } },
        "watchedResources": {
            "endpointslices": { "apiVersion": "discovery.k8s.io/v1", "resources": "endpointslices" },
            "pages": { "apiVersion": "v1", "resources": "configmaps", "namespaces": ["shop", "blog"],
                "fieldSelector": "metadata.name=pages" },
            "tls": { "apiVersion": "v1", "resources": "secrets", "fieldSelector": "type=kubernetes.io/tls" },
        },
    }));
    let names = AccessNames {
        namespace: Some("haptic-system".to_owned()),
        service_account: "controller".to_owned(),
        name: "edge".to_owned(),
        certificates: None,
    };
    compare("large.yaml", &access([config, library, pulled, mounted], names).yaml());
}

#[test]
fn no_rule_has_a_wildcard_and_the_order_of_objects_does_not_matter() {
    let plugin = |name: &str| object("HAProxyPlugin", name, json!({ "module": { "builtin": { "name": "maps" } } }));
    let main = || config(json!({ "plugins": [{ "name": "b" }, { "name": "a" }] }));
    let one = access([main(), plugin("a"), plugin("b")], names()).yaml();
    assert_eq!(one, access([plugin("b"), main(), plugin("a")], names()).yaml());
    assert!(!one.contains('*'), "{one}");
}

#[test]
fn secrets_are_allowed_by_name_only() {
    let access = access([config(json!({ "credentialsSecretRef": { "name": "agents" } }))], names());
    assert!(!allows(&access, Some("edge"), "get", ":secrets", "agents"), "it is followed");
    for verb in ["list", "watch"] {
        assert!(allows(&access, Some("edge"), verb, ":secrets", "agents"), "{verb}");
        assert!(!allows(&access, Some("edge"), verb, ":secrets", "other"), "{verb}");
        assert!(!allows(&access, None, verb, ":secrets", "agents"), "{verb}");
    }
    assert!(!allows(&access, Some("edge"), "delete", ":pods", "haproxy-0"));
    assert!(!allows(&access, Some("edge"), "update", "coordination.k8s.io:leases", "other"));
    assert!(allows(&access, Some("edge"), "update", "coordination.k8s.io:leases", "haptic-leader"));
}

#[test]
fn who_issues_certificates_may_write_exactly_their_secrets_and_one_webhook_configuration() {
    let certificates = CertificateNames {
        authority_secret: "haptic-authority".to_owned(),
        agent_secret: "haptic-agent".to_owned(),
        controller_secret: "haptic-controller".to_owned(),
        webhook: Some(WebhookCertificate {
            secret: "haptic-webhook".to_owned(),
            service: "haptic".to_owned(),
            configuration: Some("haptic".to_owned()),
        }),
    };
    let spec = || config(json!({ "credentialsSecretRef": { "name": "haptic-controller" } }));
    let access = access([spec()], AccessNames { certificates: Some(certificates), ..names() });
    compare("certificates.yaml", &access.yaml());
    let secrets = ["haptic-authority", "haptic-agent", "haptic-controller", "haptic-webhook"];
    for secret in secrets {
        for verb in ["get", "list", "watch", "update"] {
            assert!(allows(&access, Some("edge"), verb, ":secrets", secret), "{verb} {secret}");
        }
        for verb in ["create", "delete", "patch"] {
            assert!(!allows(&access, Some("edge"), verb, ":secrets", secret), "{verb} {secret}");
        }
    }
    assert!(!allows(&access, Some("edge"), "update", ":secrets", "other"));
    let webhooks = "admissionregistration.k8s.io:validatingwebhookconfigurations";
    assert!(allows(&access, None, "patch", webhooks, "haptic") && allows(&access, None, "get", webhooks, "haptic"));
    assert!(!allows(&access, None, "patch", webhooks, "other") && !allows(&access, None, "list", webhooks, "haptic"));
    let without = self::access([spec()], names());
    assert!(!allows(&without, Some("edge"), "update", ":secrets", "haptic-controller"));
    assert!(!allows(&without, None, "patch", webhooks, "haptic"));
}

#[test]
fn the_status_of_ingresses_is_written_only_if_it_is_wanted() {
    assert!(ingress_status(&json!({ "spec": { "controller": {} } })).is_none());
    assert!(ingress_status(&json!({ "spec": { "controller": { "ingressStatus": null } } })).is_none());
    let addresses = json!({ "spec": { "controller": { "ingressStatus": { "addresses": ["192.0.2.1"] } } } });
    assert!(ingress_status(&addresses).unwrap().service.is_none());
    let service = json!({ "publishService": { "name": "haproxy", "namespace": "front" } });
    let status = ingress_status(&json!({ "spec": { "controller": { "ingressStatus": service } } })).unwrap();
    let service = status.service.unwrap();
    assert_eq!((service.name.as_str(), service.namespace.as_deref()), ("haproxy", Some("front")));

    let spec = api::WatchedResource {
        api_version: Some("networking.k8s.io/v1".to_owned()),
        resources: "ingresses".to_owned(),
        namespaces: vec!["shop".to_owned()],
        ..api::WatchedResource::default()
    };
    let ingresses = WatchedResource::new("ingresses", &spec, &[]).unwrap();
    for wanted in [true, false] {
        let mut grants = Grants::default();
        watch(&mut grants, &ingresses, Uses { admission: false, ingress_status: wanted, events_everywhere: true });
        let rules = grants.rules(&Scope::Namespace("shop".to_owned()));
        let status = rules.iter().find(|rule| rule.resources.contains(&"ingresses/status".to_owned()));
        assert_eq!(status.is_some(), wanted, "{rules:?}");
        assert!(status.is_none_or(|rule| rule.verbs.iter().eq(["patch"].iter())));
        // Its status is compared before it is written.
        let read = rules.iter().any(|rule| rule.resources == ["ingresses"] && rule.verbs.contains("get"));
        assert_eq!(read, wanted, "{rules:?}");
    }
}

#[test]
fn what_is_no_configuration_is_told_and_gets_nothing() {
    let torn = config(json!({ "libraryRefs": [{ "name": "gone" }] }));
    let findings = Access::of(&ConfigObjects::pick([torn]), names()).unwrap_err();
    assert!(findings[0].message.contains("the library `gone` is missing"), "{findings:?}");
    assert!(Access::of(&ConfigObjects::default(), names()).is_err());
}

#[test]
fn who_judges_a_kind_in_several_versions_reads_its_definition_and_no_other() {
    let gadgets = |admission: bool| {
        let spec = json!({ "watchedResources": { "gadgets": {
            "apiVersions": ["example.com/v1", "example.com/v1beta1"], "resources": "gadgets",
            "enableValidationWebhook": admission,
        } } });
        access([config(spec)], names())
    };
    let definitions = "apiextensions.k8s.io:customresourcedefinitions";
    let reads = |access: &Access, name: &str| allows(access, None, "get", definitions, name);
    assert!(reads(&gadgets(true), "gadgets.example.com"));
    assert!(!reads(&gadgets(true), "others.example.com"));
    assert!(!reads(&gadgets(false), "gadgets.example.com"));
}

/// Followed are all; read one by one is what is kept without its body, and what a judge may miss.
#[test]
fn single_objects_are_read_where_bodies_are_not_kept_or_writes_are_judged() {
    let gets = |judged: bool, more: Value| {
        let mut services = json!({ "apiVersion": "v1", "resources": "services" });
        for (field, value) in more.as_object().unwrap() {
            services[field] = value.clone();
        }
        let routes =
            json!({ "apiVersion": "example.com/v1", "resources": "routes", "enableValidationWebhook": judged });
        let access =
            access([config(json!({ "watchedResources": { "services": services, "routes": routes } }))], names());
        assert!(allows(&access, None, "watch", ":services", "any"));
        allows(&access, None, "get", ":services", "any")
    };
    assert!(!gets(false, json!({})));
    assert!(gets(false, json!({ "store": "on-demand" })));
    assert!(gets(true, json!({})));
    assert!(gets(true, json!({ "indexBy": ["metadata['namespace']", "{.metadata.name}"] })));
    assert!(!gets(true, json!({ "indexBy": ["metadata.namespace", "metadata.labels['app']"] })));
}

#[test]
fn events_about_a_kind_without_namespaces_are_made_in_one() {
    let classes = json!({ "apiVersion": "networking.k8s.io/v1", "resources": "ingressclasses" });
    let access = access([config(json!({ "watchedResources": { "classes": classes.clone() } }))], names());
    let events = "events.k8s.io:events";
    assert!(allows(&access, Some("default"), "create", events, ""));
    assert!(!allows(&access, None, "create", events, ""));
    let services = json!({ "apiVersion": "v1", "resources": "services" });
    let both = json!({ "watchedResources": { "classes": classes, "services": services } });
    let access = self::access([config(both)], names());
    assert!(!allows(&access, Some("default"), "create", events, ""), "it is not said twice");
    assert!(allows(&access, None, "create", events, ""));
}
