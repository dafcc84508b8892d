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
fn names_of_a_module_do_not_reach_a_log_as_they_are() {
    // An import by address may have every character and any length.
    let address = |index: usize| format!("url=<https://a.example/{index}{}\\1b[2J\\0alie>", "x".repeat(90_000 / 20));
    let imports: String = (0..20).map(|index| format!("(import \"{}\" (func))", address(index))).collect();
    let refused = refusal(&format!("(component {imports} {})", exporting("1.0.0", "(param \"config\" string)")));
    assert!(matches!(&refused, LoadErrorReason::ForeignImports(names) if names.len() == 20), "{refused:?}");
    let told = refused.to_string();
    assert!(told.contains("`url=<https://a.example/0xx") && told.contains(" and 12 more"), "{told}");
    assert_tame(&told);

    // Short enough to be told whole.
    let import = "(import \"url=<\\1b[2J\\0alie>\" (func))";
    let told =
        refusal(&format!("(component {import} {})", exporting("1.0.0", "(param \"config\" string)"))).to_string();
    assert!(told.contains("`url=< [2J lie>`"), "{told}");
    assert_tame(&told);
}

#[test]
fn what_the_runtime_says_of_a_module_is_cut() {
    let long = "x".repeat(90_000);
    // The type of an import of an offered interface, which the runtime names.
    let told = refusal(&importing("haptic:plugin/logging@1.0.0", &format!("(export \"{long}\" (func))"))).to_string();
    assert!(told.contains("generation 1.0.0"), "{told}");
    assert_tame(&told);
    // A component that is none, because of a name in it.
    let told = refusal(&format!("(component (import \"url=<{long}\\1b\" (func)))")).to_string();
    assert!(told.contains("not a component"), "{told}");
    assert_tame(&told);
    // A version without end.
    let component = format!("(component {})", exporting(&format!("2.0.0-{long}"), "(param \"config\" string)"));
    let told = refusal(&component).to_string();
    assert!(told.contains("generation 2.0.0-xx"), "{told}");
    assert_tame(&told);
}

/// Fit for one line of a log, a status or a terminal.
fn assert_tame(told: &str) {
    assert!(told.len() < 2000, "{} bytes: {told}", told.len());
    assert!(!told.contains(char::is_control), "{told:?}");
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
