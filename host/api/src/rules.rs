//! Rules between fields: as CEL for the API server, and as Rust for manifests that no API server saw.

use serde_json::{Value, json};

/// A rule about one object of a schema.
pub(crate) struct Rule {
    /// The rule as the API server evaluates it.
    pub(crate) cel: &'static str,
    /// What is wrong when it does not hold.
    pub(crate) message: &'static str,
    /// The same rule.
    pub(crate) holds: fn(&Value) -> bool,
}

pub(crate) const API_VERSION: Rule = Rule {
    cel: "has(self.apiVersion) != has(self.apiVersions)",
    message: "exactly one of apiVersion and apiVersions must be set",
    holds: |resource| has(resource, "apiVersion") != has(resource, "apiVersions"),
};

pub(crate) const DIGEST: Rule = Rule {
    cel: "has(self.module.builtin) || has(self.sha256)",
    message: "sha256 is required for every module that is not builtin",
    holds: |spec| has(&spec["module"], "builtin") || has(spec, "sha256"),
};

pub(crate) const COSIGN: Rule = Rule {
    cel: "!has(self.cosignKey) || has(self.module.oci)",
    message: "cosignKey needs a module of type oci",
    holds: |spec| !has(spec, "cosignKey") || has(&spec["module"], "oci"),
};

pub(crate) const ONE_MODULE: Rule = Rule {
    cel: "[has(self.oci), has(self.http), has(self.configMap), has(self.file), has(self.builtin)].filter(set, set).size() == 1",
    message: "exactly one of oci, http, configMap, file and builtin must be set",
    holds: |module| {
        ["oci", "http", "configMap", "file", "builtin"].into_iter().filter(|kind| has(module, kind)).count() == 1
    },
};

const ALL: [&Rule; 4] = [&API_VERSION, &DIGEST, &COSIGN, &ONE_MODULE];

/// The rules as a schema lists them.
pub(crate) fn schema(rules: &[&Rule]) -> Value {
    rules.iter().map(|rule| json!({ "rule": rule.cel, "message": rule.message })).collect()
}

/// The rule with this CEL text.
pub(crate) fn find(cel: &str) -> Option<&'static Rule> {
    ALL.into_iter().find(|rule| rule.cel == cel)
}

fn has(object: &Value, field: &str) -> bool {
    object.get(field).is_some_and(|value| !value.is_null())
}
