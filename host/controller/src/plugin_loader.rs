//! Loads the plugins of a candidate from where their manifests say, pinned by digest. Blocks.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use haptic_api as api;
use haptic_model::{Digest, Finding, FindingCode, ports::FailurePolicy};
use haptic_plugins::{
    Limits, LoadedPlugin, MAX_MODULE_BYTES, PluginHost, PluginSet, PluginSettings, PluginUse, Purity, ValidatorScope,
};

use crate::config::{Candidate, NamedPlugin};

#[derive(Clone)]
pub struct PluginLoader {
    host: Arc<PluginHost>,
    /// Modules that come with the binary.
    builtin: Arc<BTreeMap<String, Bytes>>,
}

// === impl PluginLoader ===

impl PluginLoader {
    pub fn new(host: Arc<PluginHost>, builtin: BTreeMap<String, Bytes>) -> Self {
        Self { host, builtin: Arc::new(builtin) }
    }

    /// # Errors
    /// Every plugin that cannot be loaded, with the manifest's file and line.
    pub fn load(&self, candidate: &Candidate) -> Result<Arc<PluginSet>, Vec<Finding>> {
        let mut uses = Vec::new();
        let mut findings = Vec::new();
        for named in &candidate.plugins {
            match self.load_one(named, candidate.pure_plugins) {
                Ok(plugin) => {
                    let validators = scopes(candidate, &named.raw.name);
                    uses.push(PluginUse { plugin, validators });
                }
                Err((message, hint)) => findings.push(about(named, message).hint(hint)),
            }
        }
        if !findings.is_empty() {
            return Err(findings);
        }
        PluginSet::new(uses).map(Arc::new).map_err(|error| {
            let finding = Finding::error(FindingCode::ConfigInvalid, format!("{}: {error}", candidate.name));
            vec![finding.hint("correct plugins and validators of the configuration")]
        })
    }

    fn load_one(&self, named: &NamedPlugin, pure: bool) -> Result<Arc<LoadedPlugin>, (String, &'static str)> {
        let spec = &named.plugin.spec;
        if spec.cosign_key.is_some() {
            // A key that nobody checks would look like a signature that somebody did.
            let message = "cosignKey is set, and signatures are not verified yet".to_owned();
            return Err((message, "remove cosignKey, and pin the module with sha256"));
        }
        let module = self.module(named)?;
        let pinned = spec.sha256.as_deref().map(str::parse::<Digest>).transpose();
        let pinned = pinned.map_err(|error| (format!("sha256: {error}"), "pin the digest that `sha256sum` prints"))?;
        let settings = PluginSettings {
            config: serde_json::Value::Object(spec.config.clone()),
            limits: Limits {
                timeout: spec.limits.timeout.get(),
                memory_bytes: spec.limits.memory.get(),
                output_bytes: spec.limits.output_bytes.get(),
                ..Limits::default()
            },
            failure_policy: match spec.failure_policy {
                api::FailurePolicy::Fail => FailurePolicy::Fail,
                api::FailurePolicy::Ignore => FailurePolicy::Ignore,
            },
            purity: if pure || spec.pure { Purity::Pure } else { Purity::Wasi },
        };
        self.host
            .load(&named.raw.name, &module, pinned, &settings)
            .map_err(|error| (error.to_string(), "see `haptic plugin inspect` for what the module is"))
    }

    fn module(&self, named: &NamedPlugin) -> Result<Bytes, (String, &'static str)> {
        let module = &named.plugin.spec.module;
        if let Some(builtin) = &module.builtin {
            let known = || self.builtin.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return self.builtin.get(&builtin.name).cloned().ok_or_else(|| {
                let message = format!("no plugin `{}` comes with haptic, only {}", builtin.name, known());
                (message, "correct module.builtin.name")
            });
        }
        if let Some(file) = &module.file {
            return read(&Path::new(named.folder.as_ref()).join(&file.path));
        }
        Err((
            "standalone mode reads modules of `builtin` and `file` only".to_owned(),
            "download the module and name it with module.file.path",
        ))
    }
}

fn read(path: &PathBuf) -> Result<Bytes, (String, &'static str)> {
    let failed = |error: std::io::Error| {
        (
            format!("could not read the module {}: {error}", path.display()),
            "build the plugin, or correct module.file.path",
        )
    };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > MAX_MODULE_BYTES as u64 {
        let message = format!("the module {} has {size} bytes, over the limit of {MAX_MODULE_BYTES}", path.display());
        return Err((message, "build the plugin for size"));
    }
    std::fs::read(path).map(Bytes::from).map_err(failed)
}

fn scopes(candidate: &Candidate, plugin: &str) -> Vec<ValidatorScope> {
    let named = candidate.validators.iter().filter(|validator| validator.plugin == plugin);
    named
        .map(|validator| ValidatorScope { files: validator.files.clone(), data_files: validator.data_files.clone() })
        .collect()
}

fn about(named: &NamedPlugin, message: String) -> Finding {
    Finding::error(FindingCode::PluginFailed, message).about(Some(named.raw.reference())).at(
        named.raw.source.file.clone(),
        named.raw.source.line,
        0,
    )
}
