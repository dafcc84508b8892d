#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use haptic_api::{ConditionStatus, PluginConditionType, PluginReason};
use haptic_model::Digest;
use haptic_modules::{Backoff, Fetcher, Limits, Modules, Transport};
use haptic_plugins::PluginHost;
use haptic_store::{RawChange, RawKey};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    config::{Candidate, ConfigObjects},
    plugin_loader::{PluginLoader, Proof, module::Module},
    testing::raw,
};

fn loader() -> PluginLoader {
    let fetcher = Fetcher::new(Transport::new(Limits::default()).unwrap(), None);
    let builtin = BTreeMap::from([("junk".to_owned(), Bytes::from_static(b"not wasm"))]);
    PluginLoader::new(Arc::new(PluginHost::new(None).unwrap()), builtin, Modules::new(fetcher, Backoff::default()))
}

fn config(plugins: &[&str]) -> Value {
    let plugins: Vec<_> = plugins.iter().map(|name| json!({ "name": name })).collect();
    json!({
        "apiVersion": "haptic.rs/v1alpha1",
        "kind": "HAProxyTemplateConfig",
        "metadata": { "namespace": "default", "name": "test" },
        "spec": {
            "watchedResources": { "services": { "apiVersion": "v1", "resources": "services" } },
            "haproxyConfig": { "template": "global\n" },
            "plugins": plugins,
        },
    })
}

/// A plugin `guard` of which the module is `module`, pinned to `bytes`.
fn plugin(module: &Value, bytes: &[u8], policy: &str) -> Value {
    json!({
        "apiVersion": "haptic.rs/v1alpha1",
        "kind": "HAProxyPlugin",
        "metadata": { "namespace": "default", "name": "guard", "generation": 7 },
        "spec": { "module": module, "sha256": Digest::of(bytes).to_string(), "failurePolicy": policy },
    })
}

fn objects(values: &[Value]) -> ConfigObjects {
    ConfigObjects::pick(values.iter().map(raw))
}

fn candidate(values: &[Value]) -> Candidate {
    objects(values).candidate().unwrap()
}

/// Loads and gives the condition that stands against the plugin: type, status, reason and message.
fn fault(candidate: &Candidate) -> (PluginConditionType, PluginReason, String) {
    let mut loading = loader().load(candidate);
    let findings = loading.set.err().unwrap();
    assert!(findings[0].to_string().contains("plugin `guard` cannot be loaded"), "{findings:?}");
    let state = loading.states.remove(0);
    assert_eq!(state.generation, Some(7));
    let conditions = state.conditions();
    let ready = conditions.last().unwrap();
    assert_eq!((ready.kind, ready.status), (PluginConditionType::Ready, ConditionStatus::False));
    assert!(ready.message.contains("next step"), "{}", ready.message);
    let first = conditions.iter().find(|found| found.status == ConditionStatus::False).unwrap();
    assert_eq!(first.reason, ready.reason);
    (first.kind, first.reason, first.message.clone())
}

#[test]
fn a_config_map_is_read_from_the_objects_and_must_be_what_is_pinned() {
    let guard = plugin(&json!({ "configMap": { "name": "modules", "key": "m.wasm" } }), b"a module", "Fail");
    let map = |field: &str, bytes: &[u8]| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": "default", "name": "modules" },
            field: { "m.wasm": BASE64_STANDARD.encode(bytes) },
        })
    };
    let with = |map: Value| fault(&candidate(&[config(&["guard"]), guard.clone(), map]));
    let (kind, reason, _) = fault(&candidate(&[config(&["guard"]), guard.clone()]));
    assert_eq!((kind, reason), (PluginConditionType::Fetched, PluginReason::NotFound));
    let (_, reason, message) = with(map("data", b"a module"));
    assert!(reason == PluginReason::NotFound && message.contains("binaryData"), "{message}");
    let (kind, reason, _) = with(map("binaryData", b"other bytes"));
    assert_eq!((kind, reason), (PluginConditionType::Verified, PluginReason::DigestMismatch));
    // What is pinned is looked at: these bytes are no component.
    let (kind, reason, _) = with(map("binaryData", b"a module"));
    assert_eq!((kind, reason), (PluginConditionType::Compiled, PluginReason::NotAComponent));
    let mut elsewhere = map("binaryData", b"a module");
    elsewhere["metadata"]["namespace"] = json!("other");
    assert_eq!(with(elsewhere).1, PluginReason::NotFound, "of the plugin's namespace alone");
}

#[test]
fn a_pull_secret_is_read_from_the_objects() {
    let oci = json!({ "oci": { "image": "127.0.0.1:1/acme/guard:1", "pullSecret": "pull" } });
    let guard = plugin(&oci, b"a module", "Fail");
    let secret = |kind: &str, text: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": "default", "name": "pull" },
            "type": kind, "data": { ".dockerconfigjson": BASE64_STANDARD.encode(text) },
        })
    };
    let with = |secret: Value| fault(&candidate(&[config(&["guard"]), guard.clone(), secret]));
    assert_eq!(fault(&candidate(&[config(&["guard"]), guard.clone()])).1, PluginReason::InvalidPullSecret);
    for secret in [secret("Opaque", "{}"), secret("kubernetes.io/dockerconfigjson", "hunter2")] {
        let (_, reason, message) = with(secret);
        assert_eq!(reason, PluginReason::InvalidPullSecret);
        assert!(!message.contains("hunter2"), "{message}");
    }
}

/// Decoding refuses such a plugin; what loads does not rely on that.
#[test]
fn a_key_for_what_carries_no_signature_is_refused() {
    let modules = [
        json!({ "builtin": { "name": "junk" } }),
        json!({ "configMap": { "name": "modules", "key": "m.wasm" } }),
        json!({ "file": { "path": "/m.wasm" } }),
        json!({ "http": { "url": "http://127.0.0.1:1/m.wasm" } }),
    ];
    for module in modules {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": "default", "name": "modules" },
            "binaryData": { "m.wasm": BASE64_STANDARD.encode(b"not wasm") },
        });
        let mut candidate = candidate(&[config(&["guard"]), plugin(&module, b"not wasm", "Fail"), map]);
        candidate.plugins[0].plugin.spec.cosign_key = Some("a key".to_owned());
        let (kind, reason, _) = fault(&candidate);
        assert_eq!((kind, reason), (PluginConditionType::Verified, PluginReason::SignatureMissing), "{module}");
        assert_ne!(loader().load(&candidate).states[0].proof, Proof::PinAndSignature, "{module}");
        assert!(PluginLoader::wanted(&candidate).is_empty(), "{module}");
    }
}

/// The list of what must be fetched is made where nothing may take long.
#[test]
fn what_is_at_hand_is_not_decoded_to_know_what_must_be_fetched() {
    let http = json!({ "http": { "url": "http://127.0.0.1:1/m.wasm" } });
    assert_eq!(PluginLoader::wanted(&candidate(&[config(&["guard"]), plugin(&http, b"", "Fail")])).len(), 1);
    let map = json!({ "configMap": { "name": "modules", "key": "m.wasm" } });
    // It is not even looked for: a missing one is no fault here, as it is one of a load.
    let candidate = candidate(&[config(&["guard"]), plugin(&map, b"", "Fail")]);
    assert!(matches!(Module::elsewhere(&candidate.plugins[0], &candidate.attached), Ok(None)));
    assert_eq!(fault(&candidate).1, PluginReason::NotFound);
}

#[test]
fn a_change_of_what_a_plugin_names_concerns_the_configuration() {
    let map = json!({ "configMap": { "name": "modules", "key": "m.wasm" } });
    let objects = objects(&[config(&["guard"]), plugin(&map, b"a module", "Fail")]);
    let key = |kind: &str, name: &str| RawKey {
        group: "".into(),
        kind: kind.into(),
        namespace: "default".into(),
        name: name.into(),
    };
    assert!(objects.concerned(&RawChange::Delete(key("ConfigMap", "modules"))));
    assert!(!objects.concerned(&RawChange::Delete(key("ConfigMap", "others"))));
    assert!(!objects.concerned(&RawChange::Delete(key("Secret", "modules"))));
}

#[test]
fn a_plugin_that_may_be_missing_is_left_out_with_a_warning() {
    let guard = plugin(&json!({ "builtin": { "name": "absent" } }), b"", "Ignore");
    let loading = loader().load(&candidate(&[config(&["guard"]), guard]));
    assert_eq!(loading.set.unwrap().plugins().count(), 0);
    let warning = loading.warnings[0].to_string();
    for words in ["`guard` is left out", "unchecked", "NotFound", "only junk", "next step"] {
        assert!(warning.contains(words), "{warning}");
    }
    assert_eq!(loading.states.len(), 1);
}

#[tokio::test]
async fn a_module_that_is_not_there_is_missing_until_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.wasm");
    let guard = plugin(&json!({ "file": { "path": path.to_str().unwrap() } }), b"a module", "Fail");
    let candidate = candidate(&[config(&["guard"]), guard]);
    let loader = loader();
    let mut states = loader.load(&candidate).states;
    let reason = |state: &super::PluginState| state.progress.clone().unwrap_err().reason;
    assert_eq!(reason(&states[0]), PluginReason::Fetching);
    assert_eq!(states[0].conditions()[0].status, ConditionStatus::Unknown);

    loader.fetch_once(&candidate).await;
    assert!(!loader.look_again(&mut states));
    assert_eq!(reason(&states[0]), PluginReason::NotFound);
    tokio::fs::write(&path, b"a module").await.unwrap();
    let running = tokio::spawn(loader.modules().clone().run());
    loader.want(&candidate, Instant::now() + Duration::from_secs(20)).await;
    let came = async {
        let mut changed = loader.modules().changed();
        while !loader.look_again(&mut states) {
            changed.changed().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(20), came).await.unwrap();
    // It is there now, and turns out to be no component.
    let states = loader.load(&candidate).states;
    assert_eq!(reason(&states[0]), PluginReason::NotAComponent);
    assert!(states[0].missing.is_none());
    running.abort();
}

#[test]
fn conditions_come_true_in_order() {
    let guard = plugin(&json!({ "builtin": { "name": "junk" } }), b"not wasm", "Fail");
    let loading = loader().load(&candidate(&[config(&["guard"]), guard]));
    let conditions = loading.states[0].conditions();
    let found: Vec<_> = conditions.iter().map(|found| (found.kind, found.status, found.reason)).collect();
    assert_eq!(
        found,
        [
            (PluginConditionType::Fetched, ConditionStatus::True, PluginReason::BuiltIn),
            (PluginConditionType::Verified, ConditionStatus::True, PluginReason::BuiltIn),
            (PluginConditionType::Compiled, ConditionStatus::False, PluginReason::NotAComponent),
            (PluginConditionType::Ready, ConditionStatus::False, PluginReason::NotAComponent),
        ]
    );
}
