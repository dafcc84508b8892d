//! What plugins cost: loading, calls against the same code run natively, memory, and what hostile neighbours do to them.

pub(crate) mod idle;

mod filters;
mod load;
mod native;
mod neighbours;
mod validators;

use std::{fs, path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use haptic_model::{File, FileKind, FilePath, FileSet};
use haptic_plugins::{LoadedPlugin, PluginHost, PluginSet, PluginSettings, PluginUse, ValidatorScope};

use crate::Subject;

/// All sections, or the one of this name.
pub(crate) fn measure(subject: &Subject, section: Option<&str>) -> Result<()> {
    println!("\nplugin host {}, contract haptic:plugin@1", env!("CARGO_PKG_VERSION"));
    let cache = tempfile::tempdir()?;
    let host = PluginHost::new(Some(cache.path().to_owned()))?;
    let sections: [(&str, &dyn Fn() -> Result<()>); 5] = [
        ("load", &|| load::measure(subject)),
        ("validators", &|| validators::measure(subject, &host)),
        ("filters", &|| filters::measure(subject, &host)),
        ("neighbours", &|| neighbours::measure(subject, &host)),
        ("idle", &|| idle::measure(subject)),
    ];
    let chosen: Vec<_> = sections.iter().filter(|(name, _)| section.is_none_or(|section| section == *name)).collect();
    let known = sections.map(|(name, _)| name).join(", ");
    ensure!(!chosen.is_empty(), "there is no such section; known: {known}");
    chosen.into_iter().try_for_each(|(_, measure)| measure())
}

/// A first-party plugin.
fn plugin(subject: &Subject, host: &PluginHost, name: &str, config: serde_json::Value) -> Result<Arc<LoadedPlugin>> {
    let path = subject.plugins.join(format!("{name}.wasm"));
    let bytes = fs::read(&path).with_context(|| format!("reading {}: run `make plugins`", path.display()))?;
    Ok(host.load(name, &bytes, None, &PluginSettings { config, ..PluginSettings::default() })?)
}

/// Every first-party plugin, by name.
fn modules(subject: &Subject) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(&subject.plugins).context("listing the plugins")?;
    let mut modules = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    modules.retain(|path| path.extension().is_some_and(|extension| extension == "wasm"));
    modules.sort();
    Ok(modules)
}

fn name(module: &std::path::Path) -> String {
    module.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// One file, and a plugin that checks it.
fn checked(plugin: &Arc<LoadedPlugin>, path: &str, content: &str) -> Result<(PluginSet, FileSet)> {
    let file = File::new(FilePath::new(path)?, FileKind::General, content.to_owned());
    let scope = ValidatorScope { files: vec![path.to_owned()], data_files: Vec::new() };
    let set = PluginSet::new(vec![PluginUse { plugin: Arc::clone(plugin), validators: vec![scope] }])?;
    Ok((set, FileSet::from([(file.path.clone(), file)])))
}
