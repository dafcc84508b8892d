//! Calls of plugins, in this process.

use std::{fs, sync::Arc, time::Instant};

use anyhow::{Context as _, Result, ensure};
use haptic_model::{
    File, FileKind, FilePath, FileSet,
    ports::{FilterCall, Now, OutputValidators as _, TemplateFilters as _},
};
use haptic_plugins::{Limits, LoadedPlugin, PluginHost, PluginSet, PluginSettings, PluginUse, ValidatorScope};

use crate::{Subject, stats::Samples};

const CALLS: usize = 400;
const LARGE_CALLS: usize = 20;
const LOADS: usize = 30;

pub(crate) fn measure(subject: &Subject) -> Result<()> {
    let cache = tempfile::tempdir()?;
    load(subject, cache.path())?;
    let host = PluginHost::new(Some(cache.path().to_owned()))?;
    validator(&plugin(subject, &host, "error-file", serde_json::json!({"bufferBytes": 16 << 20}))?)?;
    policy(&plugin(subject, &host, "policy", serde_json::json!({}))?)?;
    filter(&plugin(subject, &host, "network", serde_json::json!({}))?)
}

fn plugin(subject: &Subject, host: &PluginHost, name: &str, config: serde_json::Value) -> Result<Arc<LoadedPlugin>> {
    let path = subject.plugins.join(format!("{name}.wasm"));
    let bytes = fs::read(&path).with_context(|| format!("reading {}: run `make plugins`", path.display()))?;
    let settings = PluginSettings { config, limits: Limits::default(), ..PluginSettings::default() };
    Ok(host.load(name, &bytes, None, &settings)?)
}

fn load(subject: &Subject, cache: &std::path::Path) -> Result<()> {
    let compiled = PluginHost::new(Some(cache.to_owned()))?;
    let first = Instant::now();
    plugin(subject, &compiled, "network", serde_json::json!({}))?;
    crate::stats::print("load of a plugin, compiled (network)", &crate::stats::shown(first.elapsed()), "");
    let mut samples = Samples::default();
    for _ in 0..LOADS {
        // A new host has nothing in memory, so the image comes from the cache and is verified.
        let host = PluginHost::new(Some(cache.to_owned()))?;
        let began = Instant::now();
        let loaded = plugin(subject, &host, "network", serde_json::json!({}))?;
        samples.push(began.elapsed());
        ensure!(loaded.from_cache(), "the compiled cache was used");
    }
    samples.print("load of a plugin, verified, from the compiled cache", "4 ms");
    Ok(())
}

fn validator(plugin: &Arc<LoadedPlugin>) -> Result<()> {
    for (bytes, calls, goal) in [(1_024, CALLS, "40 µs"), (5 << 20, LARGE_CALLS, "")] {
        let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n\r\n";
        let content = format!("{head}{}", "x".repeat(bytes - head.len()));
        let file = File::new(FilePath::new("general/503.http")?, FileKind::General, content);
        let files = FileSet::from([(file.path.clone(), file)]);
        let scope = ValidatorScope { files: vec!["general/*.http".to_owned()], data_files: Vec::new() };
        let set = PluginSet::new(vec![PluginUse { plugin: Arc::clone(plugin), validators: vec![scope] }])?;
        let mut samples = Samples::default();
        for _ in 0..calls {
            let began = Instant::now();
            let reports = set.validate_auxiliary(&files, Now(0));
            samples.push(began.elapsed());
            ensure!(reports.len() == 1 && !reports[0].stops(), "the file is valid: {reports:?}");
        }
        let size = if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) };
        samples.print(&format!("validator call, fresh instance, file of {size}"), goal);
    }
    Ok(())
}

fn policy(plugin: &Arc<LoadedPlugin>) -> Result<()> {
    let section = "backend app from profile\n  server a 10.0.0.1:80 weight 100 check inter 5s\n";
    let config = section.repeat((3 << 19) / section.len());
    let file = File::new(FilePath::new("haproxy.cfg")?, FileKind::Config, config);
    let files = FileSet::from([(file.path.clone(), file)]);
    let set =
        PluginSet::new(vec![PluginUse { plugin: Arc::clone(plugin), validators: vec![ValidatorScope::default()] }])?;
    let mut samples = Samples::default();
    for _ in 0..LARGE_CALLS {
        let began = Instant::now();
        let reports = set.validate_output(&files, Now(0));
        samples.push(began.elapsed());
        ensure!(reports.len() == 1 && reports[0].failure.is_none(), "{reports:?}");
    }
    samples.print("policy plugin, configuration of 1.5 MiB", "");
    Ok(())
}

fn filter(plugin: &Arc<LoadedPlugin>) -> Result<()> {
    let set = PluginSet::new(vec![PluginUse { plugin: Arc::clone(plugin), validators: Vec::new() }])?;
    for (distinct, what) in [(20_000, "filter call, every value new"), (200, "filter call, memoised (200 values)")] {
        let values: Vec<String> = (0..distinct).map(|n| format!("\"10.{}.{}.1\"", n / 250, n % 250)).collect();
        let mut session = set.session();
        let began = Instant::now();
        for value in values.iter().cycle().take(20_000) {
            session.call(FilterCall { filter: "ip_version", value, positional: &[], named: &[] })?;
        }
        let each = began.elapsed() / 20_000;
        crate::stats::print(what, &crate::stats::shown(each), "0.6 µs");
    }
    Ok(())
}
