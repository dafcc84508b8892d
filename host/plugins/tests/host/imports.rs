//! Components that ask for, or are built for, what this host does not have.

use haptic_plugins::{LoadErrorReason, PluginSettings};

use crate::{
    built::{shared_host, unique},
    wat,
};

fn refusal(component: &str) -> LoadErrorReason {
    let loaded = shared_host().load(&unique("imports"), &wat::parse(component), None, &PluginSettings::default());
    loaded.err().unwrap_or_else(|| panic!("it was loaded: {component}")).reason
}

/// A component with one import and an export that makes it look like a plugin.
fn importing(name: &str, instance: &str) -> String {
    format!(
        r#"(component (import "{name}" (instance {instance})) {})"#,
        exporting("1.0.0", "(param \"config\" string)")
    )
}

/// A validator whose `configure` takes `parameters`.
fn exporting(version: &str, parameters: &str) -> String {
    format!(
        r#"
        (core module $m
          (memory (export "memory") 1)
          (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
          (func (export "two") (param i32 i32) (result i32) (i32.const 0))
          (func (export "one") (param i32) (result i32) (i32.const 0)))
        (core instance $i (instantiate $m))
        (func $configure {parameters} (result (result (error string)))
          (canon lift (core func $i "{}") (memory $i "memory") (realloc (func $i "realloc"))))
        (instance $validator (export "configure" (func $configure)))
        (export "haptic:plugin/auxiliary-file-validator@{version}" (instance $validator))"#,
        if parameters.contains("string") { "two" } else { "one" }
    )
}

#[test]
fn imports_that_nobody_offers_are_refused_by_name() {
    for name in [
        "evil:plugin/backdoor@0.1.0",
        "wasi:sockets/tcp@0.2.6",
        "wasi:http/outgoing-handler@0.2.6",
        "wasi:cli/environment@0.3.0",
        "haptic:plugin/secrets@1.0.0",
    ] {
        match refusal(&importing(name, "(export \"open\" (func))")) {
            LoadErrorReason::ForeignImports(names) => assert_eq!(names, [name]),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn plain_functions_are_no_way_around() {
    // What a core module built for a browser or for a foreign host imports from `env`.
    let component = format!("(component (import \"env\" (func)) {})", exporting("1.0.0", "(param \"config\" string)"));
    match refusal(&component) {
        LoadErrorReason::ForeignImports(names) => assert_eq!(names, ["env"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_function_that_an_offered_interface_does_not_have_is_named() {
    let told = refusal(&importing("haptic:plugin/logging@1.0.0", "(export \"shred\" (func))")).to_string();
    assert!(told.contains("haptic:plugin/logging@1.0.0") && told.contains("shred"), "{told}");
    let told = refusal(&importing("wasi:cli/exit@0.2.6", "(export \"restart\" (func))")).to_string();
    assert!(told.contains("wasi:cli/exit@0.2.6") && told.contains("restart"), "{told}");
}

#[test]
fn another_generation_is_refused_by_its_number() {
    for version in ["2.0.0", "0.9.0"] {
        let component = format!("(component {})", exporting(version, "(param \"config\" string)"));
        match refusal(&component) {
            LoadErrorReason::Generation { found, served } => assert_eq!((found.as_str(), served), (version, "1.0.0")),
            other => panic!("{version}: {other:?}"),
        }
    }
}

#[test]
fn the_right_generation_with_another_type_is_refused() {
    let component = format!("(component {})", exporting("1.0.0", "(param \"config\" u32)"));
    let refused = refusal(&component);
    assert!(matches!(refused, LoadErrorReason::Type(_)), "{refused:?}");
    // `validate` is missing.
    let component = format!("(component {})", exporting("1.0.0", "(param \"config\" string)"));
    let told = refusal(&component).to_string();
    assert!(told.contains("generation 1.0.0") && told.contains("validate"), "{told}");
}
