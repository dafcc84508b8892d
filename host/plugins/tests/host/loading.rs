//! What is loaded, what is refused, and what is said about it.

use haptic_model::{
    Digest,
    ports::{Contract, PluginFailureKind},
};
use haptic_plugins::{LoadErrorReason, PluginSettings, Purity, inspect};
use serde_json::json;

use crate::built::{guest, host, plugin, settings};

fn refusal(bytes: &[u8], settings: &PluginSettings) -> LoadErrorReason {
    host().load("p", bytes, None, settings).unwrap_err().reason
}

#[test]
fn the_contracts_come_from_the_components_type() {
    let host = host();
    for (name, contract) in [
        ("error-file", Contract::AuxiliaryFile),
        ("policy", Contract::RenderedOutput),
        ("network", Contract::TemplateFilter),
    ] {
        let loaded = host.load(name, &plugin(name), None, &settings(json!({}))).unwrap();
        assert_eq!(loaded.contracts(), [contract], "{name}");
    }
    let all = host.load("fault", &guest("fault"), None, &settings(json!({}))).unwrap();
    assert_eq!(all.contracts(), [Contract::AuxiliaryFile, Contract::RenderedOutput, Contract::TemplateFilter]);
    assert_eq!(all.filters()[0].name, "echo");
}

#[test]
fn a_module_with_another_digest_than_the_pinned_is_refused() {
    let bytes = plugin("network");
    let pinned = Digest::of(b"another module");
    let refused = host().load("p", &bytes, Some(pinned), &PluginSettings::default()).unwrap_err();
    assert!(matches!(refused.reason, LoadErrorReason::Digest { expected, .. } if expected == pinned));
    assert!(host().load("p", &bytes, Some(Digest::of(&bytes)), &PluginSettings::default()).is_ok());
}

#[test]
fn a_config_that_the_plugin_refuses_is_told_in_its_words() {
    let refused = refusal(&plugin("policy"), &settings(json!({ "forbiden": [] })));
    assert!(refused.to_string().contains("unknown field `forbiden`"), "{refused}");
    let refused = refusal(&guest("fault"), &settings(json!({ "on_configure": "error" })));
    assert_eq!(refused.to_string(), "it refuses its config: `size` must be larger");
}

#[test]
fn foreign_imports_are_refused_by_name() {
    match refusal(&guest("foreign-import"), &PluginSettings::default()) {
        LoadErrorReason::ForeignImports(names) => assert_eq!(names, ["evil:plugin/backdoor@0.1.0"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_config_may_demand_a_plugin_without_wasi() {
    let pure = PluginSettings { purity: Purity::Pure, ..PluginSettings::default() };
    match refusal(&plugin("network"), &pure) {
        LoadErrorReason::NotPure(names) => assert!(names.iter().all(|name| name.starts_with("wasi:")), "{names:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_component_is_refused() {
    let settings = PluginSettings::default();
    assert!(matches!(refusal(b"\0asm\x01\0\0\0", &settings), LoadErrorReason::CoreModule));
    assert!(matches!(refusal(b"", &settings), LoadErrorReason::NotAComponent(_)));
    assert!(matches!(refusal(b"#!/bin/sh\n", &settings), LoadErrorReason::NotAComponent(_)));
    let whole = plugin("network");
    assert!(matches!(refusal(&whole[..whole.len() / 2], &settings), LoadErrorReason::NotAComponent(_)));
    // An empty component is one, but it is no plugin.
    assert!(matches!(refusal(b"\0asm\x0d\0\x01\0", &settings), LoadErrorReason::NoContract(names) if names.is_empty()));
}

#[test]
fn filters_with_names_that_templates_cannot_call_are_refused() {
    for names in [json!(["Echo"]), json!(["1st"]), json!([""]), json!(["a", "a"]), json!(["a-b"])] {
        let refused = refusal(&guest("fault"), &settings(json!({ "filters": names })));
        assert!(matches!(refused, LoadErrorReason::Declaration { .. }), "{refused:?}");
    }
}

#[test]
fn a_flood_of_filters_is_refused() {
    let names: Vec<_> = (0..300).map(|number| format!("f{number}")).collect();
    match refusal(&guest("fault"), &settings(json!({ "filters": names }))) {
        LoadErrorReason::Declaration { message } => assert!(message.contains("300 filters"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refusal_can_stand_for_the_plugin_in_a_report() {
    let refused = host().load("p", b"", None, &PluginSettings::default()).unwrap_err();
    let failure = refused.as_failure();
    assert_eq!(&*failure.plugin, "p");
    assert!(matches!(failure.kind, PluginFailureKind::NotLoaded { .. }));
}

#[test]
fn an_inspection_says_what_a_module_is() {
    let bytes = plugin("error-file");
    let inspected = inspect(&bytes).unwrap();
    assert_eq!(inspected.size, bytes.len() as u64);
    assert_eq!(inspected.sha256, Digest::of(&bytes));
    assert_eq!(inspected.generation.as_deref(), Some("1.0.0"));
    assert_eq!(inspected.contracts, [Contract::AuxiliaryFile]);
    assert!(!inspected.pure && inspected.refused_imports.is_empty());
    assert!(inspected.imports.contains(&"haptic:plugin/files@1.0.0".to_owned()), "{:?}", inspected.imports);
    assert!(
        inspected.functions.contains(&"haptic:plugin/auxiliary-file-validator#validate".to_owned()),
        "{:?}",
        inspected.functions
    );
    assert_eq!(inspect(&guest("foreign-import")).unwrap().refused_imports, ["evil:plugin/backdoor@0.1.0"]);
}
