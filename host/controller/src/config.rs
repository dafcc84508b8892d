//! From API objects to what serves: one `HAProxyTemplateConfig`, the libraries it refers to by name and revision, and
//! the plugins it names. Later libraries win over earlier ones, the configuration over all. A set that is torn (a
//! library is missing or has another revision) is no candidate: the last good one is held.

mod basic;
mod locate;
mod merge;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haptic_api::{
    ControllerSettings, HAProxyPlugin, HAProxyTemplateConfig, HAProxyTemplateLibrary, ValidationTest, Validator,
    WatchedResource,
};
use haptic_model::{Finding, FindingCode};
use haptic_render::TemplateSet;
use haptic_store::{RawChange, RawKey, RawObject};

use crate::core::Settings;

pub use locate::TemplateSources;
pub(crate) use merge::merge_values;

/// The objects of haptic's own group, as a source delivered them.
#[derive(Clone, Debug, Default)]
pub struct ConfigObjects {
    pub configs: Vec<Arc<RawObject>>,
    pub libraries: Vec<Arc<RawObject>>,
    pub plugins: Vec<Arc<RawObject>>,
    /// ConfigMaps and Secrets that plugins name, those that are there.
    pub attached: Vec<Arc<RawObject>>,
    /// Everything that plugins name, there or not: when it comes or changes, the configuration is tried again.
    references: BTreeSet<RawKey>,
}

/// A decoded and merged configuration that has yet to pass the load gate.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// For a person, e.g. `HAProxyTemplateConfig default/shop`.
    pub name: Arc<str>,
    pub templates: TemplateSet,
    pub watched: BTreeMap<String, WatchedResource>,
    pub ignore_fields: Vec<String>,
    pub tests: BTreeMap<String, ValidationTest>,
    /// In the order of the configuration's `plugins`.
    pub plugins: Vec<NamedPlugin>,
    /// ConfigMaps and Secrets that plugins name.
    pub attached: Vec<Arc<RawObject>>,
    pub validators: Vec<Validator>,
    pub settings: Settings,
    /// Plugins may import `haptic:plugin/*` only.
    pub pure_plugins: bool,
    pub cluster: ClusterSettings,
    pub sources: TemplateSources,
}

/// What matters in a cluster only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterSettings {
    /// Labels of the HAProxy pods.
    pub pod_labels: BTreeMap<String, String>,
    pub controller: ControllerSettings,
}

#[derive(Clone, Debug)]
pub struct NamedPlugin {
    pub plugin: HAProxyPlugin,
    /// The folder that relative module paths start from.
    pub folder: Arc<str>,
    pub raw: Arc<RawObject>,
}

/// What does not decode of haptic's own kinds, whether a configuration refers to it or not: a mistake that nobody
/// names is found only when it matters.
pub fn mistakes<'a>(objects: impl IntoIterator<Item = &'a Arc<RawObject>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for object in objects.into_iter().filter(|object| object.group() == haptic_api::GROUP) {
        let decoded = match object.kind.as_ref() {
            "HAProxyTemplateConfig" => object.decode::<HAProxyTemplateConfig>().map(|_| ()),
            "HAProxyTemplateLibrary" => object.decode::<HAProxyTemplateLibrary>().map(|_| ()),
            "HAProxyPlugin" => object.decode::<HAProxyPlugin>().map(|_| ()),
            kind => {
                let message = format!("`{kind}` is not a kind of {}", haptic_api::GROUP);
                let finding = torn(object, message);
                Err(vec![finding.hint(format!("use one of {}", READ_KINDS.join(", ")))])
            }
        };
        findings.extend(decoded.err().into_iter().flatten());
    }
    findings.sort();
    findings
}

/// The kinds that people write; the published kinds are written by haptic.
const READ_KINDS: [&str; 3] = ["HAProxyTemplateConfig", "HAProxyTemplateLibrary", "HAProxyPlugin"];

// === impl ConfigObjects ===

impl ConfigObjects {
    /// Picks haptic's own kinds out of all objects of a source.
    pub fn pick(objects: impl IntoIterator<Item = Arc<RawObject>>) -> Self {
        let mut picked = Self::default();
        for object in objects {
            match (object.group(), object.kind.as_ref()) {
                (haptic_api::GROUP, "HAProxyTemplateConfig") => picked.configs.push(object),
                (haptic_api::GROUP, "HAProxyTemplateLibrary") => picked.libraries.push(object),
                (haptic_api::GROUP, "HAProxyPlugin") => picked.plugins.push(object),
                ("", "ConfigMap" | "Secret") => picked.attached.push(object),
                _ => {}
            }
        }
        picked.references = picked.plugins.iter().flat_map(|plugin| references(plugin)).collect();
        let references = &picked.references;
        picked.attached.retain(|object| references.contains(&object.key()));
        for kind in [&mut picked.configs, &mut picked.libraries, &mut picked.plugins, &mut picked.attached] {
            kind.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        }
        picked
    }

    /// Whether two sets are made of the same objects, so that nothing has to be loaded again.
    pub fn same(&self, other: &Self) -> bool {
        let serials = |set: &Self| -> Vec<u64> {
            let all = set.configs.iter().chain(&set.libraries).chain(&set.plugins).chain(&set.attached);
            all.map(|object| object.serial()).collect()
        };
        serials(self) == serials(other)
    }

    /// Whether a change can make another configuration of these objects.
    pub fn concerned(&self, change: &RawChange) -> bool {
        let key = match change {
            RawChange::Upsert(object) => object.key(),
            RawChange::Delete(key) => key.clone(),
        };
        *key.group == *haptic_api::GROUP || self.references.contains(&key)
    }

    /// For a person.
    pub fn name(&self) -> Arc<str> {
        self.configs.first().map_or_else(|| "the configuration".into(), |config| config.reference().to_string().into())
    }

    /// Decodes and merges.
    ///
    /// # Errors
    /// Everything that is wrong with the objects, each with file and line.
    pub fn candidate(&self) -> Result<Candidate, Vec<Finding>> {
        let raw = match self.configs.as_slice() {
            [] => {
                let finding = Finding::error(FindingCode::ConfigInvalid, "there is no HAProxyTemplateConfig")
                    .hint("add a manifest of kind HAProxyTemplateConfig to one of the directories");
                return Err(vec![finding]);
            }
            [one] => one,
            [_, second, ..] => {
                let finding =
                    Finding::error(FindingCode::ConfigInvalid, "there is more than one HAProxyTemplateConfig")
                        .about(Some(second.reference()))
                        .at(second.source.file.clone(), second.source.line, 0)
                        .hint("keep one of them in the directories");
                return Err(vec![finding]);
            }
        };
        let config: HAProxyTemplateConfig = raw.decode()?;
        let mut findings = Vec::new();
        let libraries = self.libraries_of(&config, raw, &mut findings);
        let plugins = self.plugins_of(&config, raw, &mut findings);
        if !findings.is_empty() {
            return Err(findings);
        }
        let candidate = merge::candidate(raw, config, libraries, plugins)?;
        Ok(Candidate { attached: self.attached.clone(), ..candidate })
    }

    fn libraries_of(
        &self,
        config: &HAProxyTemplateConfig,
        raw: &RawObject,
        findings: &mut Vec<Finding>,
    ) -> Vec<(Arc<RawObject>, HAProxyTemplateLibrary)> {
        let mut libraries = Vec::new();
        for wanted in &config.spec.library_refs {
            let named = self.libraries.iter().find(|library| *library.name == *wanted.name);
            let Some(library) = named else {
                let message = format!("the library `{}` is missing", wanted.name);
                findings.push(torn(raw, message).hint("add its manifest, or correct libraryRefs"));
                continue;
            };
            match library.decode::<HAProxyTemplateLibrary>() {
                Err(mistakes) => findings.extend(mistakes),
                Ok(decoded) => match &wanted.revision {
                    Some(revision) if *revision != decoded.spec.revision => {
                        let found = &decoded.spec.revision;
                        let message =
                            format!("the library `{}` has revision {found}, and {revision} is wanted", wanted.name);
                        findings.push(torn(raw, message).hint("apply library and configuration of one release"));
                    }
                    _ => libraries.push((library.clone(), decoded)),
                },
            }
        }
        libraries
    }

    fn plugins_of(
        &self,
        config: &HAProxyTemplateConfig,
        raw: &RawObject,
        findings: &mut Vec<Finding>,
    ) -> Vec<NamedPlugin> {
        let mut plugins = Vec::new();
        for wanted in &config.spec.plugins {
            let Some(plugin) = self.plugins.iter().find(|plugin| *plugin.name == *wanted.name) else {
                let message = format!("the plugin `{}` is missing", wanted.name);
                findings.push(torn(raw, message).hint("add a manifest of kind HAProxyPlugin, or correct plugins"));
                continue;
            };
            match plugin.decode::<HAProxyPlugin>() {
                Err(mistakes) => findings.extend(mistakes),
                Ok(decoded) => {
                    let folder = plugin.source.file.rsplit_once('/').map_or(".", |(folder, _)| folder);
                    plugins.push(NamedPlugin { plugin: decoded, folder: folder.into(), raw: plugin.clone() });
                }
            }
        }
        plugins
    }
}

/// What a plugin names besides itself. A manifest that does not decode names what can be read of it.
pub(crate) fn references(plugin: &RawObject) -> Vec<RawKey> {
    let value = plugin.value();
    let named = [("ConfigMap", "/spec/module/configMap/name"), ("Secret", "/spec/module/oci/pullSecret")];
    let key = |(kind, pointer): (&str, &str)| {
        let name = value.pointer(pointer)?.as_str()?;
        Some(RawKey { group: "".into(), kind: kind.into(), namespace: plugin.namespace.clone(), name: name.into() })
    };
    named.into_iter().filter_map(key).collect()
}

fn torn(raw: &RawObject, message: String) -> Finding {
    Finding::error(FindingCode::ConfigInvalid, message).about(Some(raw.reference())).at(
        raw.source.file.clone(),
        raw.source.line,
        0,
    )
}

// === impl Candidate ===

impl Candidate {
    /// What can be said without compiling or running anything.
    pub fn check_basics(&self) -> Vec<Finding> {
        basic::check(self)
    }

    /// Every watched resource with its parsed selectors, index and ignored fields.
    ///
    /// # Errors
    /// One finding for each expression that does not parse.
    pub fn resources(&self) -> Result<Vec<haptic_store::WatchedResource>, Vec<Finding>> {
        let mut resources = Vec::new();
        let mut findings = Vec::new();
        for (name, spec) in &self.watched {
            match haptic_store::WatchedResource::new(name, spec, &self.ignore_fields) {
                Ok(resource) => resources.push(resource),
                Err(mistakes) => findings.extend(mistakes),
            }
        }
        if findings.is_empty() { Ok(resources) } else { Err(findings) }
    }
}

#[cfg(test)]
mod tests;
