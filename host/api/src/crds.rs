//! The definitions of all kinds, for a cluster and for the folder `crds/`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use serde_json::Value;

use crate::{
    HAProxyCRTListFile, HAProxyCfg, HAProxyGeneralFile, HAProxyMapFile, HAProxyPlugin, HAProxyTemplateConfig,
    HAProxyTemplateLibrary,
};

/// The definitions of all kinds, those that people write first.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        HAProxyTemplateConfig::crd(),
        HAProxyTemplateLibrary::crd(),
        HAProxyPlugin::crd(),
        HAProxyCfg::crd(),
        HAProxyMapFile::crd(),
        HAProxyGeneralFile::crd(),
        HAProxyCRTListFile::crd(),
    ]
}

/// The definitions as YAML, one manifest per kind: file name and text. The same build always gives the same bytes.
pub fn manifests() -> Vec<(String, String)> {
    crds()
        .into_iter()
        .map(|crd| {
            let file = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
            let value = serde_json::to_value(&crd).expect("a definition is plain data");
            let yaml = serde_norway::to_string(&sorted(value)).expect("a definition is plain data");
            (file, format!("# Generated from host/api. Do not edit: run `make bless`.\n---\n{yaml}"))
        })
        .collect()
}

/// Sorts the fields of every object, so that the text does not depend on the order in which a schema was built.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        scalar => scalar,
    }
}
