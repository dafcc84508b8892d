//! The manifests of the example in namespaces of their own, so that several tests use them side by side.

use serde_json::Value;

/// Namespaces and cluster-wide names of the example, and what they are called in one test.
#[derive(Clone, Debug)]
pub(super) struct Relocation {
    /// Of the controller: `haptic` in the example.
    pub(super) system: String,
    /// Of the shop: `shop` in the example.
    pub(super) shop: String,
}

/// Fields that name a namespace, an IngressClass, or the value of an IngressClass's controller.
const NAMING: [&str; 3] = ["namespace", "ingressClassName", "namespaces"];
/// Kinds of which one name serves the whole cluster.
const CLUSTER_WIDE: [&str; 4] = ["Namespace", "ClusterRole", "ClusterRoleBinding", "IngressClass"];

// === impl Relocation ===

impl Relocation {
    pub(super) fn apply(&self, object: &mut Value) {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if CLUSTER_WIDE.contains(&kind.as_str()) {
            self.rename(&mut object["metadata"]["name"]);
        }
        if object["roleRef"]["kind"] == "ClusterRole" {
            self.rename(&mut object["roleRef"]["name"]);
        }
        if kind == "IngressClass" {
            object["spec"]["controller"] = self.ingress_controller().into();
        }
        if kind == "HAProxyTemplateConfig" {
            object["spec"]["extraContext"]["ingress_controller"] = self.ingress_controller().into();
        }
        if kind == "HAProxyTemplateLibrary" {
            // Its tests have a world of their own.
            self.walk(&mut object["metadata"]);
        } else {
            self.walk(object);
        }
        if kind == "HAProxyTemplateConfig" {
            self.confine(object);
        }
    }

    /// What an Ingress of the shop says.
    pub(super) fn ingress_class(&self) -> &str {
        &self.system
    }

    fn ingress_controller(&self) -> String {
        format!("haptic.rs/{}", self.system)
    }

    /// What other tests make is not looked at.
    fn confine(&self, config: &mut Value) {
        let watched = &mut config["spec"]["watchedResources"];
        for (name, api_version, index) in [
            ("ingresses", "networking.k8s.io/v1", "metadata.name"),
            ("services", "v1", "metadata.name"),
            ("endpointslices", "discovery.k8s.io/v1", "metadata.labels['kubernetes.io/service-name']"),
            ("secrets", "v1", "metadata.name"),
        ] {
            if watched[name].is_null() {
                watched[name] = serde_json::json!({
                    "apiVersion": api_version, "resources": name, "indexBy": ["metadata.namespace", index],
                    // Tests of the libraries have objects in `shop`.
                    "namespaces": [self.shop, "shop"],
                });
            }
        }
        watched["endpointslices"]["debounceInterval"] = "0".into();
    }

    fn walk(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields.iter_mut() {
                    match value {
                        Value::String(_) if NAMING.contains(&name.as_str()) => self.rename(value),
                        Value::Array(items) if NAMING.contains(&name.as_str()) => {
                            for item in items {
                                self.rename(item);
                            }
                        }
                        _ => self.walk(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item)),
            _ => {}
        }
    }

    fn rename(&self, name: &mut Value) {
        match name.as_str() {
            Some("haptic") => *name = self.system.clone().into(),
            Some("shop") => *name = self.shop.clone().into(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_namespaces_move_and_others_stay() {
        let relocation = Relocation { system: "a".to_owned(), shop: "a-shop".to_owned() };
        let moved = |mut object: Value| {
            relocation.apply(&mut object);
            object
        };
        assert_eq!(
            moved(json!({ "kind": "Ingress", "metadata": { "name": "shop", "namespace": "shop" },
                          "spec": { "ingressClassName": "haptic" } })),
            json!({ "kind": "Ingress", "metadata": { "name": "shop", "namespace": "a-shop" },
                    "spec": { "ingressClassName": "a" } })
        );
        assert_eq!(
            moved(json!({ "kind": "ClusterRoleBinding", "metadata": { "name": "haptic" },
                          "roleRef": { "kind": "ClusterRole", "name": "haptic" },
                          "subjects": [{ "name": "haptic", "namespace": "haptic" }] })),
            json!({ "kind": "ClusterRoleBinding", "metadata": { "name": "a" },
                    "roleRef": { "kind": "ClusterRole", "name": "a" },
                    "subjects": [{ "name": "haptic", "namespace": "a" }] })
        );
        let config = moved(json!({ "kind": "HAProxyTemplateConfig", "metadata": { "name": "shop" }, "spec": {} }));
        assert_eq!(config["spec"]["watchedResources"]["secrets"]["namespaces"], json!(["a-shop", "shop"]));
        assert_eq!(config["spec"]["extraContext"]["ingress_controller"], "haptic.rs/a");
    }
}
