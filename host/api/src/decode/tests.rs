#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_model::Severity;
use serde_json::json;

use super::*;
use crate::{AssertionType, Bytes, HAProxyPlugin, HAProxyTemplateConfig, HAProxyTemplateLibrary, StorePolicy};

fn source(text: &str) -> (Value, ManifestSource) {
    let document = yaml::read(text).unwrap().remove(0);
    let line = document.start().line;
    (document.into_value(), ManifestSource { line, text: text.into(), ..ManifestSource::named("dir/a.yaml") })
}

fn mistakes<T: Kind + std::fmt::Debug>(text: &str) -> Vec<String> {
    let (value, source) = source(text);
    let findings = decode::<T>(&value, &source).unwrap_err();
    assert!(findings.iter().all(|finding| finding.severity == Severity::Error && finding.object.is_some()));
    let shown = |finding: &Finding| Finding { object: None, ..finding.clone() }.to_string();
    findings.iter().map(|finding| shown(finding).replace("dir/a.yaml:", "")).collect()
}

const CONFIG: &str = "apiVersion: haptic.rs/v1alpha1\nkind: HAProxyTemplateConfig\nmetadata: {name: c, namespace: n}\n";
const PLUGIN: &str = "apiVersion: haptic.rs/v1alpha1\nkind: HAProxyPlugin\nmetadata: {name: p}\n";

#[test]
fn an_unknown_field_is_told_with_path_line_and_the_nearest_name() {
    let text = format!(
        "{CONFIG}spec:\n  watchedResources:\n    ingresses:\n      apiVersion: v1\n      resources: ingresses\n      indexby: []\n  hapoxyConfig:\n    template: x\n"
    );
    assert_eq!(
        mistakes::<HAProxyTemplateConfig>(&text),
        [
            "9:7: spec.watchedResources.ingresses.indexby is not a known field (next step: write `indexBy`)",
            "10:3: spec.hapoxyConfig is not a known field (next step: write `haproxyConfig`)",
        ]
    );
}

#[test]
fn a_field_that_is_near_to_nothing_has_no_hint() {
    let text = format!("{CONFIG}spec: {{}}\nsomethingElse: 1\n");
    assert_eq!(mistakes::<HAProxyTemplateConfig>(&text), ["5:1: somethingElse is not a known field"]);
}

#[test]
fn wrong_types_and_values_are_told_with_path_and_line() {
    let text = format!(
        "{CONFIG}spec:\n  maps:\n    a.map: text\n  deployment:\n    minDeploymentInterval: 2\n    deploymentTimeout: soon\n    maxParallel: -1\n  libraryRefs:\n  - name: base\n  - revision: r1\n  - name: base\n  templating:\n    rawText: allowed\n"
    );
    assert_eq!(
        mistakes::<HAProxyTemplateConfig>(&text),
        [
            "6:5: spec.maps[\"a.map\"] must be an object, but is a text",
            "8:5: spec.deployment.minDeploymentInterval must be a text (put it in quotes if it looks like a number), but is a number",
            "9:5: spec.deployment.deploymentTimeout is `soon`, which does not match `^(0|([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`",
            "10:5: spec.deployment.maxParallel is -1, less than 0",
            "13:5: spec.libraryRefs[1].name is missing",
            "14:5: spec.libraryRefs[2] has the same name as an item before it",
            "16:5: spec.templating.rawText is `allowed`; it must be one of Refused, Allowed (next step: write `Allowed`)",
        ]
    );
}

#[test]
fn a_value_that_may_be_secret_is_not_repeated() {
    let pin = "ab".repeat(32);
    for url in ["ftp://user:hunter2@host/m.wasm", "host/m.wasm?sig=hunter2", "user:hunter2", "hunter2@host"] {
        let text = format!("{PLUGIN}spec:\n  sha256: '{pin}'\n  module:\n    http:\n      url: '{url}'\n");
        assert_eq!(
            mistakes::<HAProxyPlugin>(&text),
            ["8:7: spec.module.http.url does not match `^https?://`"],
            "{url}"
        );
    }
    let text = format!("{PLUGIN}spec:\n  sha256: ABCD\n  module: {{file: {{path: a.wasm}}}}\n");
    let expected = "5:3: spec.sha256 is `ABCD`, which does not match `^[0-9a-f]{64}$`";
    assert_eq!(mistakes::<HAProxyPlugin>(&text), [expected]);
}

#[test]
fn the_wrong_kind_is_refused() {
    assert_eq!(
        mistakes::<HAProxyTemplateConfig>("apiVersion: haptic.rs/v1\nkind: Ingress\nspec: {}\n"),
        ["1:1: apiVersion must be `haptic.rs/v1alpha1`", "2:1: kind must be `HAProxyTemplateConfig`"]
    );
}

#[test]
fn rules_between_fields_hold_without_an_api_server() {
    let both = format!("{PLUGIN}spec:\n  module:\n    file: {{path: a.wasm}}\n    builtin: {{name: x}}\n");
    assert_eq!(
        mistakes::<HAProxyPlugin>(&both),
        ["5:3: spec.module: exactly one of oci, http, configMap, file and builtin must be set"]
    );
    let unpinned = format!("{PLUGIN}spec:\n  module:\n    file: {{path: a.wasm}}\n");
    assert_eq!(
        mistakes::<HAProxyPlugin>(&unpinned),
        ["4:1: spec: sha256 is required for every module that is not builtin"]
    );
    let versions = format!("{CONFIG}spec:\n  watchedResources:\n    a: {{resources: as}}\n");
    assert_eq!(
        mistakes::<HAProxyTemplateConfig>(&versions),
        ["6:5: spec.watchedResources.a: exactly one of apiVersion and apiVersions must be set"]
    );
}

#[test]
fn every_rule_of_the_schemas_has_its_twin_in_rust() {
    fn walk(schema: &Value, found: &mut Vec<String>) {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            found.push(rule["rule"].as_str().unwrap().to_owned());
        }
        match schema {
            Value::Object(fields) => fields.values().for_each(|field| walk(field, found)),
            Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    SCHEMAS.values().for_each(|schema| walk(schema, &mut found));
    assert!(found.len() >= 5, "{found:?}");
    assert!(found.iter().all(|cel| rules::find(cel).is_some()), "{found:?}");
}

#[test]
fn a_whole_configuration_decodes_with_its_defaults() {
    let text = format!(
        "{CONFIG}spec:\n  podSelector: {{matchLabels: {{app: haproxy}}}}\n  watchedResources:\n    ingresses: {{apiVersion: networking.k8s.io/v1, resources: ingresses, store: on-demand}}\n    slices: {{apiVersions: [discovery.k8s.io/v1], resources: endpointslices, debounceInterval: '0'}}\n  extraContext: {{anything: [1, {{goes: here}}]}}\n  maps: {{a.map: {{template: x, ordered: true}}}}\n  validationTests:\n    t:\n      fixtures: {{ingresses: [{{metadata: {{name: a}}, free: {{x: 1}}}}]}}\n      assertions: [{{type: haproxy_valid}}, {{type: match_count, pattern: x, expected: 3}}]\nstatus: {{nonsense: true}}\n"
    );
    let (value, source) = source(&text);
    let config: HAProxyTemplateConfig = decode(&value, &source).unwrap();
    let spec = &config.spec;
    assert_eq!(spec.watched_resources["ingresses"].store, StorePolicy::OnDemand);
    assert_eq!(spec.watched_resources["ingresses"].debounce_interval.get().as_millis(), 100);
    assert_eq!(spec.watched_resources["slices"].debounce_interval.get().as_millis(), 0);
    assert_eq!(spec.watched_resources["slices"].versions().collect::<Vec<_>>(), ["discovery.k8s.io/v1"]);
    assert!(spec.maps["a.map"].ordered && !spec.templating.pure_plugins && spec.render_gate.enabled);
    assert_eq!(spec.deployment.min_deployment_interval.get().as_secs(), 2);
    assert_eq!(spec.extra_context["anything"][1]["goes"], "here");
    let test = &spec.validation_tests["t"];
    assert_eq!(test.assertions[0].kind, AssertionType::HaproxyValid);
    assert_eq!(test.assertions[1].expected, json!(3));
}

#[test]
fn a_plugin_and_a_library_decode() {
    let text = format!(
        "{PLUGIN}spec:\n  module: {{file: {{path: a.wasm}}}}\n  sha256: '{}'\n  limits: {{timeout: 250ms, memory: 67108864}}\n  failurePolicy: Ignore\n  config: {{deny: [lua]}}\n",
        "ab".repeat(32)
    );
    let (value, origin) = source(&text);
    let plugin: HAProxyPlugin = decode(&value, &origin).unwrap();
    assert_eq!(plugin.spec.limits.timeout.get().as_millis(), 250);
    assert_eq!(plugin.spec.limits.memory, Bytes::from_mib(64));
    assert_eq!(plugin.spec.limits.output_bytes, Bytes::from_mib(1));
    let text = "apiVersion: haptic.rs/v1alpha1\nkind: HAProxyTemplateLibrary\nmetadata: {name: base}\nspec:\n  revision: r1\n  templateSnippets: {a: {template: x}}\n  haproxyConfig: {template: y}\n";
    let (value, source) = source(text);
    let library: HAProxyTemplateLibrary = decode(&value, &source).unwrap();
    assert_eq!(library.spec.revision, "r1");
    assert_eq!(library.spec.haproxy_config.unwrap().template, "y");
}

#[test]
fn the_line_is_that_of_the_right_document() {
    let text = format!("a: 1\n---\nb: 2\n---\n{PLUGIN}spec: {{modul: 1}}\n");
    let document = yaml::read(&text).unwrap().remove(2);
    let source =
        ManifestSource { line: document.start().line, text: text.as_str().into(), ..ManifestSource::named("f") };
    let findings = decode::<HAProxyPlugin>(&document.into_value(), &source).unwrap_err();
    assert_eq!(findings[0].location.as_ref().unwrap().line, 8, "{findings:?}");
}

#[test]
fn without_the_text_a_mistake_is_told_with_the_file_only() {
    let value =
        json!({ "apiVersion": "haptic.rs/v1alpha1", "kind": "HAProxyPlugin", "spec": { "module": {}, "x": 1 } });
    let findings = decode::<HAProxyPlugin>(&value, &ManifestSource::named("request")).unwrap_err();
    assert!(findings.iter().all(|finding| finding.location.as_ref().unwrap().line == 0));
}
