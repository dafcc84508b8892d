//! Which plugin sees what, and in which order reports come.

use std::sync::Arc;

use haptic_model::ports::{OutputValidators as _, TemplateFilters as _};
use haptic_plugins::{InvalidPluginSet, LoadedPlugin, PluginSet, PluginUse, ValidatorScope};
use serde_json::json;

use crate::built::{NOW, files, guest, host, plugin, settings};

fn named(name: &str, config: serde_json::Value) -> Arc<LoadedPlugin> {
    host().load(name, &guest("fault"), None, &settings(config)).unwrap()
}

fn scope(files: &[&str], data_files: &[&str]) -> ValidatorScope {
    let owned = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
    ValidatorScope { files: owned(files), data_files: owned(data_files) }
}

fn asked(set: &PluginSet) -> Vec<(String, String)> {
    let files = files([
        ("general/a.http", ""),
        ("general/b.http", ""),
        ("general/sub/c.http", ""),
        ("haproxy.cfg", "global\n"),
        ("maps/d.map", ""),
    ]);
    let reports = set.validate_auxiliary(&files, NOW);
    assert!(reports.iter().all(|report| report.failure.is_none()), "{reports:?}");
    reports.into_iter().map(|report| (report.plugin.to_string(), report.path)).collect()
}

#[test]
fn reports_come_by_plugin_then_scope_then_path() {
    let set = PluginSet::new(vec![
        PluginUse {
            plugin: named("z", json!({ "filters": [] })),
            validators: vec![scope(&["maps/*"], &[]), scope(&["general/*.http"], &[])],
        },
        PluginUse { plugin: named("a", json!({ "filters": [] })), validators: vec![scope(&["general/**"], &[])] },
    ])
    .unwrap();
    let expected = [
        ("z", "maps/d.map"),
        ("z", "general/a.http"),
        ("z", "general/b.http"),
        ("a", "general/a.http"),
        ("a", "general/b.http"),
        ("a", "general/sub/c.http"),
    ];
    let expected = expected.map(|(plugin, path)| (plugin.to_owned(), path.to_owned()));
    assert_eq!(asked(&set), expected);
    assert_eq!(asked(&set), expected, "an exact repeat is asked again");
    assert_eq!(set.counters()["z"].calls, 6);
}

#[test]
fn a_file_that_both_globs_match_is_data_and_the_configuration_is_never_auxiliary() {
    let used = vec![scope(&["**"], &["general/**"])];
    let set = PluginSet::new(vec![PluginUse { plugin: named("a", json!({})), validators: used }]).unwrap();
    assert_eq!(asked(&set), [("a".to_owned(), "maps/d.map".to_owned())]);
}

#[test]
fn a_plugin_without_a_scope_offers_only_its_filters() {
    let set = PluginSet::new(vec![PluginUse { plugin: named("a", json!({})), validators: Vec::new() }]).unwrap();
    assert_eq!(asked(&set), []);
    assert!(set.validate_output(&files([("haproxy.cfg", "")]), NOW).is_empty());
    assert_eq!(set.declared()[0].name, "echo");
}

#[test]
fn sets_that_cannot_work_are_refused() {
    let fault = named("a", json!({}));
    let use_of = |plugin: &Arc<LoadedPlugin>, validators: &[ValidatorScope]| PluginUse {
        plugin: Arc::clone(plugin),
        validators: validators.to_vec(),
    };
    let refusal = |uses| PluginSet::new(uses).err().unwrap();
    assert!(matches!(refusal(vec![use_of(&fault, &[scope(&["["], &[])])]), InvalidPluginSet::Glob { .. }));
    assert!(matches!(refusal(vec![use_of(&fault, &[]), use_of(&fault, &[])]), InvalidPluginSet::PluginTwice { .. }));
    let other = named("b", json!({}));
    assert!(matches!(refusal(vec![use_of(&fault, &[]), use_of(&other, &[])]), InvalidPluginSet::FilterTwice { .. }));
    let network = host().load("network", &plugin("network"), None, &settings(json!({}))).unwrap();
    let refused = refusal(vec![use_of(&network, &[scope(&["**"], &[])])]);
    assert!(matches!(refused, InvalidPluginSet::NoValidator { .. }), "{refused}");
}
