//! What a scrape tells about plugins.

use std::{fmt::Debug, str::FromStr};

use haptic_model::ports::{FilterCall, OutputValidators as _, TemplateFilters as _};
use prometheus_client::{encoding::text, registry::Registry};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    built::{LIMITS, NOW, check_file, files, guest, host, hurried, set_of, settings},
    wat,
};

fn scrape(registry: &Registry) -> String {
    let mut told = String::new();
    text::encode(&mut told, registry).unwrap();
    told
}

/// The value of the one line that begins with `series`.
fn value<T: FromStr<Err: Debug>>(told: &str, series: &str) -> T {
    let mut lines = told.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let value = lines.next().unwrap_or_else(|| panic!("no `{series}` in\n{told}"));
    assert_eq!(lines.next(), None, "{series} is told twice");
    value.parse().unwrap()
}

#[test]
fn calls_failures_and_costs_are_told_by_plugin() {
    let host = host();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(host.metrics()));
    assert_eq!(scrape(&registry).lines().filter(|line| !line.starts_with('#')).count(), 0);

    let load = |name: &str, config| host.load(name, &guest("fault"), None, &settings(config)).unwrap();
    let hog = load("hog", json!({ "on_call": "memory-hog", "filters": ["hog"] }));
    let talker = load("talker", json!({ "on_call": "many-notes", "filters": ["talk"] }));
    let judge = load(
        "judge",
        json!({ "on_call": "answer", "answer": { "verdict": "error", "errors": [[1, 1]] }, "filters": ["judge"] }),
    );
    let set = set_of([hog, talker, judge]);
    check_all(&set);
    let mut session = set.session();
    for (filter, value) in [("talk", "1"), ("talk", "1"), ("talk", "2"), ("hog", "\"now\"")] {
        let _ = session.call(FilterCall { filter, value, positional: &[], named: &[] });
    }

    let told = scrape(&registry);
    let auxiliary = |plugin: &str| format!("plugin=\"{plugin}\",contract=\"auxiliary-file\"");
    let calls = |plugin: &str, verdict: &str| {
        value::<u64>(&told, &format!("haptic_plugin_calls_total{{{},verdict=\"{verdict}\"}}", auxiliary(plugin)))
    };
    assert_eq!((calls("hog", "failed"), calls("talker", "valid"), calls("judge", "error")), (1, 1, 1));
    let filters = "plugin=\"talker\",contract=\"template-filter\"";
    // The second call was answered from memory.
    assert_eq!(value::<u64>(&told, &format!("haptic_plugin_calls_total{{{filters},verdict=\"answered\"}}")), 2);
    let failures = format!("haptic_plugin_failures_total{{{},reason=\"memory_limit\"}}", auxiliary("hog"));
    assert_eq!(value::<u64>(&told, &failures), 1);
    assert_eq!(value::<u64>(&told, &format!("haptic_plugin_call_duration_seconds_count{{{filters}}}")), 2);
    let last = format!("haptic_plugin_call_duration_seconds_bucket{{le=\"+Inf\",{filters}}}");
    assert_eq!(value::<u64>(&told, &last), 2);
    assert!(value::<f64>(&told, &format!("haptic_plugin_call_duration_seconds_sum{{{filters}}}")) > 0.0);
    let peak: u64 = value(&told, "haptic_plugin_memory_peak_bytes{plugin=\"hog\"}");
    assert!((8 << 20..=LIMITS.memory_bytes).contains(&peak), "{peak}");
    // Of 5000 notes of one call, 20 are written.
    assert_eq!(value::<u64>(&told, "haptic_plugin_notes_dropped_total{plugin=\"talker\"}"), 4980);
    assert_eq!(value::<u64>(&told, "haptic_plugin_loads_total{plugin=\"hog\",module=\"compiled\"}"), 1);
    assert_eq!(value::<u64>(&told, "haptic_plugin_loads_total{plugin=\"talker\",module=\"shared\"}"), 1);
    assert!(value::<f64>(&told, "haptic_plugin_load_seconds{plugin=\"hog\"}") > 0.0);
}

fn check_all(set: &haptic_plugins::PluginSet) {
    let reports = set.validate_auxiliary(&files([("general/a", "one\n")]), NOW);
    assert_eq!(reports.len(), 3);
}

#[test]
fn plugins_that_cannot_be_loaded_are_told_with_the_reason() {
    let host = host();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(host.metrics()));
    let load = |name: &str, bytes: &[u8], config| host.load(name, bytes, None, &hurried(config)).unwrap_err();
    load("broken", b"\0asm\x0d\0\x01", json!({}));
    load("foreign", &guest("foreign-import"), json!({}));
    load("looping", &wat::component("loop-in-start"), json!({}));
    load("looping", &wat::component("loop-in-start"), json!({}));
    load("misconfigured", &guest("fault"), json!({ "unknown": 1 }));
    let told = scrape(&registry);
    for (plugin, reason, times) in [
        ("broken", "not_a_component", 1),
        ("foreign", "foreign_imports", 1),
        ("looping", "timeout", 2),
        ("misconfigured", "config", 1),
    ] {
        let series = format!("haptic_plugin_load_failures_total{{plugin=\"{plugin}\",reason=\"{reason}\"}}");
        assert_eq!(value::<u64>(&told, &series), times);
    }
}

#[test]
fn a_load_from_the_cache_is_told_as_one_and_counters_survive_a_reload() {
    let cache = TempDir::new().unwrap();
    let load = |host: &haptic_plugins::PluginHost| {
        host.load("honest", &wat::component("honest"), None, &settings(json!({}))).unwrap()
    };
    load(&haptic_plugins::PluginHost::new(Some(cache.path().to_owned())).unwrap());
    let host = haptic_plugins::PluginHost::new(Some(cache.path().to_owned())).unwrap();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(host.metrics()));
    for _ in 0..2 {
        check_file(&set_of([load(&host)]), "general/a", "one\n");
    }
    let told = scrape(&registry);
    assert_eq!(value::<u64>(&told, "haptic_plugin_loads_total{plugin=\"honest\",module=\"cache\"}"), 2);
    let calls = "haptic_plugin_calls_total{plugin=\"honest\",contract=\"auxiliary-file\",verdict=\"valid\"}";
    assert_eq!(value::<u64>(&told, calls), 2);
}

#[test]
fn notes_over_many_calls_are_held_to_what_a_log_bears() {
    let host = host();
    let config = json!({ "on_call": "many-notes" });
    let plugin = host.load("talker", &guest("fault"), None, &settings(config)).unwrap();
    let set = set_of([plugin.clone()]);
    let calls: u64 = 40;
    let started = std::time::Instant::now();
    for _ in 0..calls {
        check_file(&set, "general/a", "one\n");
    }
    // 100 at once and five a second; each call alone would write 20.
    let allowed = 100 + 5 * started.elapsed().as_secs() + 5;
    let written = calls * 5000 - plugin.counter().dropped_notes;
    assert!(written >= 100 && written <= allowed, "{written} of at most {allowed}");
}
