#![allow(clippy::unwrap_used, reason = "tests")]

use std::{env, fs, path::Path};

use serde_json::json;

use super::*;
use crate::testing::raw;

fn names() -> WebhookNames {
    WebhookNames {
        namespace: None,
        name: None,
        service: "haptic-webhook".to_owned(),
        failure_policy: FailurePolicy::Fail,
        ca_bundle: None,
    }
}

fn configuration(watched: &Value, names: WebhookNames) -> WebhookConfiguration {
    let config = raw(&json!({
        "apiVersion": "haptic.rs/v1alpha1", "kind": "HAProxyTemplateConfig",
        "metadata": { "namespace": "edge", "name": "main" },
        "spec": { "watchedResources": watched, "haproxyConfig": { "template": "global" } },
    }));
    WebhookConfiguration::of(&ConfigObjects::pick([config]), names).unwrap()
}

fn compare(file: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cluster/webhook/configuration/tests").join(file);
    if env::var_os("HAPTIC_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{} differs; run the tests with HAPTIC_BLESS=1 and review", path.display());
}

#[test]
fn each_kind_is_judged_where_it_is_watched_and_only_once() {
    let on = |api_versions: Value, resources: &str, namespaces: Value| {
        json!({
            "apiVersions": api_versions, "resources": resources, "namespaces": namespaces,
            "enableValidationWebhook": true,
        })
    };
    let watched = json!({
        "ingresses": on(json!(["networking.k8s.io/v1"]), "ingresses", json!([])),
        "internal": on(json!(["networking.k8s.io/v1"]), "ingresses", json!(["intern"])),
        "routes": on(json!(["gateway.networking.k8s.io/v1", "gateway.networking.k8s.io/v1beta1"]), "httproutes",
                     json!(["shop"])),
        "services": on(json!(["v1"]), "services", json!(["shop"])),
        "services-elsewhere": on(json!(["v1"]), "services", json!(["intern"])),
        "secrets": { "apiVersion": "v1", "resources": "secrets" },
    });
    let names = WebhookNames {
        ca_bundle: Some("Q0E=".to_owned()),
        failure_policy: FailurePolicy::Ignore,
        namespace: Some("haptic".to_owned()),
        name: Some("admission".to_owned()),
        ..names()
    };
    compare("several.yaml", &configuration(&watched, names).yaml());
}

#[test]
fn a_small_configuration_has_one_webhook_and_an_empty_one_none() {
    let one = json!({ "services": { "apiVersion": "v1", "resources": "services", "enableValidationWebhook": true } });
    compare("small.yaml", &configuration(&one, names()).yaml());
    let none = configuration(&json!({ "services": { "apiVersion": "v1", "resources": "services" } }), names());
    assert_eq!(none.manifest()["webhooks"], json!([]));
}
