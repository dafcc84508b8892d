#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};

use crate::{check::CheckBounds, config::ConfigObjects, core::Settings, pipeline::Pacing, testing::raw};

#[test]
fn later_libraries_win_over_earlier_ones_and_the_configuration_over_all() {
    let candidate = pick(&[
        library(
            "base",
            "1",
            &json!({ "a": { "template": "base" }, "b": { "template": "base" }, "c": { "template": "base" } }),
        ),
        library("ingress", "7", &json!({ "b": { "template": "ingress" }, "c": { "template": "ingress" } })),
        config(
            &json!([{ "name": "base" }, { "name": "ingress", "revision": "7" }]),
            &json!({ "c": { "template": "config" } }),
        ),
    ])
    .candidate()
    .unwrap();
    let sources: Vec<_> =
        candidate.templates.snippets.iter().map(|(name, template)| (name.as_str(), &*template.source)).collect();
    assert_eq!(sources, [("a", "base"), ("b", "ingress"), ("c", "config")]);
    assert_eq!(&*candidate.templates.snippets["b"].name, "HAProxyTemplateLibrary default/ingress, snippet b");
}

#[test]
fn a_torn_set_is_no_candidate_and_says_what_to_do() {
    let refs = json!([{ "name": "base", "revision": "2" }, { "name": "absent" }]);
    let objects = pick(&[library("base", "1", &json!({})), config(&refs, &json!({}))]);
    let findings = objects.candidate().unwrap_err();
    let texts: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(texts[0].contains("has revision 1, and 2 is wanted") && texts[0].contains("next step"), "{texts:?}");
    assert!(texts[1].contains("`absent` is missing"), "{texts:?}");
    assert!(texts.iter().all(|text| text.contains("test.yaml:1")), "{texts:?}");
}

#[test]
fn what_cannot_be_done_is_refused_and_not_ignored() {
    for (part, value, words) in [
        ("templating", json!({ "unitFailure": "KeepLast" }), "is not there yet"),
        ("deployment", json!({ "deploymentTimeout": "0" }), "in which nothing is deployed"),
        ("renderGate", json!({ "timeout": "0s" }), "in which nothing is checked"),
        ("renderGate", json!({ "memory": "1Mi" }), "less than HAProxy needs"),
    ] {
        let mut one = config(&json!([]), &json!({}));
        one["spec"][part] = value;
        let findings = pick(&[one]).candidate().unwrap_err();
        assert!(findings[0].to_string().contains(words), "{findings:?}");
    }
}

#[test]
fn bounds_of_checks_and_deployments_are_those_of_the_configuration() {
    let settings = |parts: &[(&str, serde_json::Value)]| {
        let mut one = config(&json!([]), &json!({}));
        for (part, value) in parts {
            one["spec"][*part] = value.clone();
        }
        pick(&[one]).candidate().unwrap().settings
    };
    assert_eq!(settings(&[]), Settings::default(), "what the API says is the default is one");
    let changed = settings(&[
        ("deployment", json!({ "maxParallel": 2, "deploymentTimeout": "5s", "minDeploymentInterval": "3s" })),
        ("renderGate", json!({ "timeout": "4s", "memory": "512Mi" })),
    ]);
    let seconds = std::time::Duration::from_secs;
    assert_eq!(changed.pacing, Pacing { reload_interval: seconds(3), timeout: seconds(5), most_at_once: 2 });
    assert_eq!(changed.check, CheckBounds { time: seconds(4), memory: 512 << 20 });
}

#[test]
fn two_configurations_are_a_mistake_and_none_is_one_too() {
    assert!(ConfigObjects::default().candidate().is_err());
    let mut second = config(&json!([]), &json!({}));
    second["metadata"]["name"] = json!("second");
    assert!(pick(&[config(&json!([]), &json!({})), second]).candidate().is_err());
}

#[test]
fn one_test_name_in_two_objects_is_a_mistake_but_the_global_test_accumulates() {
    let test = |kind: &str| json!({ "assertions": [{ "type": kind }] });
    let mut library = library("base", "1", &json!({}));
    library["spec"]["validationTests"] = json!({ "_global": test("haproxy_valid"), "own": test("deterministic") });
    let mut config = config(&json!([{ "name": "base" }]), &json!({}));
    config["spec"]["validationTests"] = json!({ "_global": test("deterministic") });
    let candidate = pick(&[library.clone(), config.clone()]).candidate().unwrap();
    assert_eq!(candidate.tests["_global"].assertions.len(), 2);
    config["spec"]["validationTests"]["own"] = test("haproxy_valid");
    let findings = pick(&[library, config]).candidate().unwrap_err();
    assert!(findings[0].message.contains("validation test `own`"), "{}", findings[0]);
}

#[test]
fn the_basic_validator_names_every_mistake_in_one_attempt() {
    let mut config = config(&json!([]), &json!({}));
    config["spec"]["maps"] = json!({ "../escape": { "template": "" } });
    config["spec"]["validators"] = json!([{ "plugin": "absent" }]);
    let findings = pick(&[config]).candidate().unwrap().check_basics();
    assert_eq!(findings.len(), 2, "{findings:?}");
}

fn pick(objects: &[Value]) -> ConfigObjects {
    ConfigObjects::pick(objects.iter().map(raw))
}

fn library(name: &str, revision: &str, snippets: &Value) -> Value {
    json!({
        "apiVersion": "haptic.rs/v1alpha1",
        "kind": "HAProxyTemplateLibrary",
        "metadata": { "namespace": "default", "name": name },
        "spec": { "revision": revision, "templateSnippets": snippets },
    })
}

fn config(libraries: &Value, snippets: &Value) -> Value {
    json!({
        "apiVersion": "haptic.rs/v1alpha1",
        "kind": "HAProxyTemplateConfig",
        "metadata": { "namespace": "default", "name": "shop" },
        "spec": {
            "libraryRefs": libraries,
            "watchedResources": { "services": { "apiVersion": "v1", "resources": "services" } },
            "haproxyConfig": { "template": "global\n" },
            "templateSnippets": snippets,
        },
    })
}
