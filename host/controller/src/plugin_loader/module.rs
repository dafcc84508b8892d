//! Where the module of one plugin is: in the objects at hand, in the binary, or elsewhere.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use haptic_api::{ConfigMapModule, OciModule, PluginReason};
use haptic_model::Digest;
use haptic_modules::{DockerConfig, Source, Wanted};
use haptic_store::RawObject;
use serde_json::Value;

use crate::{config::NamedPlugin, plugin_loader::PluginFault};

const PULL_SECRET_TYPE: &str = "kubernetes.io/dockerconfigjson";
const PULL_SECRET_KEY: &str = ".dockerconfigjson";

pub(super) enum Module {
    Here(Bytes),
    Elsewhere(Wanted),
}

// === impl Module ===

impl Module {
    /// `attached` are the ConfigMaps and Secrets that plugins name.
    pub(super) fn of(
        named: &NamedPlugin,
        attached: &[Arc<RawObject>],
        builtin: &BTreeMap<String, Bytes>,
    ) -> Result<Self, PluginFault> {
        if let Some(wanted) = Self::elsewhere(named, attached)? {
            return Ok(Self::Elsewhere(wanted));
        }
        let module = &named.plugin.spec.module;
        if let Some(wanted) = &module.builtin {
            let known = || builtin.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return builtin.get(&wanted.name).cloned().map(Self::Here).ok_or_else(|| {
                let message = format!("no plugin `{}` comes with haptic, only {}", wanted.name, known());
                PluginFault::new(PluginReason::NotFound, message, "correct module.builtin.name")
            });
        }
        match &module.config_map {
            Some(config_map) if pin(named).is_some() => {
                from_config_map(config_map, find(named, attached)).map(Self::Here)
            }
            _ => {
                let message = "the module is not pinned, and nothing unpinned is loaded".to_owned();
                Err(PluginFault::new(PluginReason::NotPinned, message, "set sha256 to the module's digest"))
            }
        }
    }

    /// What must be fetched; `None` for what is at hand, which is not looked at: it may be large.
    pub(super) fn elsewhere(named: &NamedPlugin, attached: &[Arc<RawObject>]) -> Result<Option<Wanted>, PluginFault> {
        let spec = &named.plugin.spec;
        let module = &spec.module;
        if spec.cosign_key.is_some() && module.oci.is_none() {
            let message = "cosignKey is set, and only an image carries signatures".to_owned();
            let next = "use a module of type oci, or remove cosignKey";
            return Err(PluginFault::new(PluginReason::SignatureMissing, message, next));
        }
        if module.builtin.is_some() {
            return Ok(None);
        }
        let source = match (&module.oci, &module.http, &module.config_map, &module.file) {
            (Some(oci), ..) => {
                Source::Oci { image: oci.image.clone(), pull_secret: pull_secret(oci, find(named, attached))? }
            }
            (_, Some(http), ..) => Source::Http { url: http.url.clone() },
            (_, _, None, Some(file)) => Source::File { path: Path::new(named.folder.as_ref()).join(&file.path) },
            _ => return Ok(None),
        };
        let (name, cosign_key) = (named.raw.name.to_string(), spec.cosign_key.clone());
        Ok(Some(Wanted { name, source, pin: pin(named), cosign_key }))
    }
}

fn pin(named: &NamedPlugin) -> Option<Digest> {
    named.plugin.spec.sha256.as_deref().and_then(|digest| digest.parse().ok())
}

/// Finds an object of the plugin's namespace by kind and name.
fn find<'a>(named: &NamedPlugin, attached: &'a [Arc<RawObject>]) -> impl Fn(&str, &str) -> Option<&'a Arc<RawObject>> {
    let namespace = named.raw.namespace.clone();
    move |kind, name| {
        attached.iter().find(|object| *object.kind == *kind && object.namespace == namespace && *object.name == *name)
    }
}

fn from_config_map<'a>(
    wanted: &ConfigMapModule,
    find: impl Fn(&str, &str) -> Option<&'a Arc<RawObject>>,
) -> Result<Bytes, PluginFault> {
    let ConfigMapModule { name, key } = wanted;
    let absent = |message, next| Err(PluginFault::new(PluginReason::NotFound, message, next));
    let Some(found) = find("ConfigMap", name) else {
        return absent(
            format!("the ConfigMap `{name}` is missing, or may not be read"),
            "add it to the plugin's namespace, in a cluster with the permissions that `haptic rbac` tells",
        );
    };
    let value = found.value();
    let Some(text) = value.get("binaryData").and_then(|data| data.get(key)).and_then(Value::as_str) else {
        let plain = value.get("data").is_some_and(|data| data.get(key).is_some());
        let next = if plain { "put it below binaryData, which is for bytes" } else { "correct module.configMap.key" };
        return absent(format!("the ConfigMap `{name}` has no `{key}` in its binaryData"), next);
    };
    let packed: String = text.split_ascii_whitespace().collect();
    BASE64_STANDARD.decode(packed).map(Bytes::from).map_err(|_| {
        let message = format!("`{key}` of the ConfigMap `{name}` is not base64");
        PluginFault::new(PluginReason::InvalidSource, message, "write it with `kubectl create configmap --from-file`")
    })
}

fn pull_secret<'a>(
    oci: &OciModule,
    find: impl Fn(&str, &str) -> Option<&'a Arc<RawObject>>,
) -> Result<Option<DockerConfig>, PluginFault> {
    let Some(name) = &oci.pull_secret else { return Ok(None) };
    let invalid = |why: String| {
        let message = format!("the pull secret `{name}` {why}");
        PluginFault::new(
            PluginReason::InvalidPullSecret,
            message,
            format!("make it with `kubectl create secret docker-registry {name}` in the plugin's namespace"),
        )
    };
    let secret = find("Secret", name).ok_or_else(|| invalid("is missing".to_owned()))?.value();
    if secret.get("type").and_then(Value::as_str) != Some(PULL_SECRET_TYPE) {
        return Err(invalid(format!("is not of type {PULL_SECRET_TYPE}")));
    }
    let text = secret.get("data").and_then(|data| data.get(PULL_SECRET_KEY)).and_then(Value::as_str);
    let text = text.ok_or_else(|| invalid(format!("has no {PULL_SECRET_KEY}")))?;
    let packed: String = text.split_ascii_whitespace().collect();
    let json = BASE64_STANDARD.decode(packed).map_err(|_| invalid(format!("has no base64 in {PULL_SECRET_KEY}")))?;
    DockerConfig::parse(&json).map(Some).map_err(|error| invalid(format!("cannot be read: {error}")))
}
