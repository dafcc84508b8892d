//! The folder `crds/` is what the types say.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeSet, env, fs, path::Path};

use serde_json::Value;

#[test]
fn the_folder_holds_exactly_the_generated_definitions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds");
    let manifests = haptic_api::manifests();
    if env::var_os("HAPTIC_BLESS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in &manifests {
            fs::write(folder.join(file), text).unwrap();
        }
    }
    for (file, text) in &manifests {
        let found = fs::read_to_string(folder.join(file)).unwrap_or_default();
        assert!(found == *text, "crds/{file} is not what host/api says; run the tests with HAPTIC_BLESS=1 and review");
    }
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let found: BTreeSet<String> =
        entries.filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "yaml")).collect();
    let expected: BTreeSet<String> = manifests.into_iter().map(|(file, _)| file).collect();
    assert_eq!(found, expected);
}

/// What the API server demands of a schema ("structural"), as far as a wrong derive would break it.
#[test]
fn every_schema_is_structural() {
    fn walk(schema: &Value, path: &str) {
        let Some(fields) = schema.as_object() else { return };
        assert!(!fields.contains_key("$ref"), "{path} has a reference");
        assert!(
            !(fields.contains_key("properties") && fields.contains_key("additionalProperties")),
            "{path} has both properties and additionalProperties"
        );
        let free = schema["x-kubernetes-preserve-unknown-fields"] == true;
        let mixed = schema["x-kubernetes-int-or-string"] == true;
        assert!(fields.contains_key("type") || free || mixed, "{path} has no type: {schema}");
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            walk(inner, &format!("{path}.{name}"));
        }
        for part in ["items", "additionalProperties"] {
            if let Some(inner) = fields.get(part) {
                walk(inner, &format!("{path}[]"));
            }
        }
    }
    for crd in haptic_api::crds() {
        let crd = serde_json::to_value(&crd).unwrap();
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        assert_eq!(crd["spec"]["group"], "haptic.rs");
        assert_eq!(crd["spec"]["scope"], "Namespaced");
        let version = &crd["spec"]["versions"][0];
        assert_eq!(version["name"], "v1alpha1");
        assert!(version["subresources"]["status"].is_object(), "{kind}");
        assert!(version["additionalPrinterColumns"].as_array().is_some_and(|columns| columns.len() > 1), "{kind}");
        assert!(crd["spec"]["names"]["shortNames"].as_array().is_some_and(|names| !names.is_empty()), "{kind}");
        walk(&version["schema"]["openAPIV3Schema"], kind);
    }
}
