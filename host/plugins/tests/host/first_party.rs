//! The plugins that come with haptic, as components.

use haptic_model::ports::{Diagnostic, FilterCall, FilterError, OutputValidators as _, TemplateFilters as _};
use haptic_plugins::{PluginSet, PluginSettings, PluginUse, ValidatorScope};
use serde_json::{Value, json};

use crate::built::{NOW, check_file, files, host, plugin, set_of, settings};

#[test]
fn an_error_file_must_be_a_complete_response() {
    let set = set_of([host().load("error-file", &plugin("error-file"), None, &settings(json!({}))).unwrap()]);
    let good = "HTTP/1.0 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nsorry";
    let report = check_file(&set, "general/errors/503.http", good);
    assert!(report.failure.is_none() && !report.stops(), "{report:?}");
    let report = check_file(&set, "general/errors/503.http", &good.replace("5\r\n\r\n", "12\r\n\r\n"));
    assert!(report.stops());
    let Diagnostic { path, line, column, message } = &report.errors[0];
    assert_eq!((path.as_str(), *line, *column), ("general/errors/503.http", 2, 17));
    assert!(message.contains("write 5"), "{message}");
}

#[test]
fn a_policy_finds_its_line_in_a_large_configuration() {
    let config = json!({
        "forbidden": [{ "directive": "stats socket", "reason": "haptic owns it" }],
        "minTlsVersion": "TLSv1.2",
    });
    let set = set_of([host().load("policy", &plugin("policy"), None, &settings(config)).unwrap()]);
    let backend = "backend b\n  mode http\n  server s 192.0.2.1:80 check inter 5s\n";
    let text = format!("global\n{}  stats socket /s\n", backend.repeat(20_000));
    let reports = set.validate_output(&files([("haproxy.cfg", text.as_str()), ("maps/a.map", "a b\n")]), NOW);
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].failure, None);
    assert_eq!((reports[0].errors[0].line, reports[0].errors[0].column), (60_002, 3));
}

#[test]
fn a_policy_looks_into_lists_of_certificates() {
    let config = json!({ "minTlsVersion": "TLSv1.2" });
    let set = set_of([host().load("policy", &plugin("policy"), None, &settings(config)).unwrap()]);
    let text = "frontend f\n  bind :443 ssl crt-list ssl/list.txt ssl-min-ver TLSv1.2\n";
    let list = "ssl/a.pem [ssl-min-ver TLSv1.0] a.example\n";
    let reports = set.validate_output(&files([("haproxy.cfg", text), ("ssl/list.txt", list)]), NOW);
    let Diagnostic { path, line, column, .. } = &reports[0].errors[0];
    assert_eq!((path.as_str(), *line, *column), ("ssl/list.txt", 1, 24));
}

#[test]
fn an_spoe_file_is_held_against_the_configuration_that_loads_it() {
    let set = with_configuration("spoe", "general/spoe-*.conf");
    let config = "backend agents\n  mode tcp\nfrontend f\n  filter spoe engine waf config general/spoe-waf.conf\n";
    let spoe = "[waf]\nspoe-agent a\n  messages m\n  timeout processing 1s\n  use-backend agent\n\
                spoe-message m\n  args ip=src\n  evnt on-client-session\n";
    let reports = set.validate_auxiliary(&files([("haproxy.cfg", config), ("general/spoe-waf.conf", spoe)]), NOW);
    assert_eq!(reports.len(), 1, "{reports:?}");
    let mut found: Vec<_> = reports[0].errors.iter().map(|error| (error.line, error.column)).collect();
    found.sort_unstable();
    // The backend, the message that is never sent, and why.
    assert_eq!(found, [(5, 15), (6, 14), (8, 3)], "{reports:?}");
    assert!(reports[0].errors.iter().any(|error| error.message.contains("did you mean `agents`?")), "{reports:?}");
}

#[test]
fn many_names_that_are_not_declared_fit_the_limits_of_a_call() {
    let set = set_of([host().load("spoe", &plugin("spoe"), None, &usual(json!({}))).unwrap()]);
    // As long as names are that are compared letter by letter, and as many as are looked at.
    let declared: String = (0..200).map(|index| format!("spoe-message {index:040}\n  args ip=src\n")).collect();
    let listed: String = (0..20_000).map(|index| format!("  messages {index:a>40}\n")).collect();
    let spoe = format!("[waf]\nspoe-agent a\n{listed}{declared}");
    let report = check_file(&set, "general/spoe-waf.conf", &spoe);
    assert!(report.failure.is_none() && report.stops(), "{:?}", report.failure);
    assert!(report.errors.last().unwrap().message.contains("more errors are not listed"), "{report:?}");
}

#[test]
fn a_map_is_read_as_the_configuration_uses_it() {
    let set = with_configuration("maps", "maps/*");
    let map = ".example one\nshop.example two\n";
    let validate = |converter: &str| {
        let config = format!("frontend f\n  use_backend %[hdr(host),{converter}(maps/a.map)]\n");
        let mut reports = set.validate_auxiliary(&files([("haproxy.cfg", config.as_str()), ("maps/a.map", map)]), NOW);
        reports.remove(0)
    };
    assert!(validate("map_beg").warnings.is_empty());
    let report = validate("map_end");
    assert_eq!((report.warnings[0].line, report.warnings[0].column), (2, 1), "{report:?}");
    assert!(validate("map_ip").stops());
}

#[test]
fn a_large_map_fits_small_limits() {
    let config = json!({ "rules": [{ "files": ["**"], "match": "end" }] });
    let set = set_of([host().load("maps", &plugin("maps"), None, &settings(config)).unwrap()]);
    let mut map: String = (0..100_000).map(|index| format!("host{index}.example backend{index}\n")).collect();
    map.push_str("host7.example other\n");
    let report = check_file(&set, "maps/a.map", &map);
    assert_eq!(report.failure, None);
    assert_eq!(report.warnings.len(), 1);
    assert_eq!((report.warnings[0].line, report.warnings[0].column), (100_001, 1));
}

#[test]
fn filters_answer_in_json_and_refuse_bad_data() {
    let set = set_of_filters();
    let mut session = set.session();
    let mut call = |filter: &str, value: &str, positional: &[String]| {
        session.call(FilterCall { filter, value, positional, named: &[] })
    };
    assert_eq!(call("ip_version", "\"2001:db8::1\"", &[]).unwrap(), "6");
    assert_eq!(call("cidr_contains", "\"10.0.0.0/8\"", &["\"10.1.2.3\"".to_owned()]).unwrap(), "true");
    assert_eq!(call("cidr_collapse", r#"["10.0.0.0/9","10.128.0.0/9"]"#, &[]).unwrap(), r#"["10.0.0.0/8"]"#);
    let refused = call("ip_version", "\"10.0.0.256\"", &[]).unwrap_err();
    assert!(matches!(&refused, FilterError::Refused { filter, .. } if filter == "ip_version"), "{refused}");
    // Also when it is remembered.
    assert!(matches!(call("ip_version", "\"10.0.0.256\"", &[]), Err(FilterError::Refused { .. })));
}

#[test]
fn a_filter_is_not_called_again_with_the_same_arguments_in_one_session() {
    let set = set_of_filters();
    let call = FilterCall { filter: "ip_version", value: "\"::1\"", positional: &[], named: &[] };
    let mut session = set.session();
    for _ in 0..3 {
        assert_eq!(session.call(call).unwrap(), "6");
    }
    assert_eq!(set.counters()["network"].calls, 1);
    set.session().call(call).unwrap();
    assert_eq!(set.counters()["network"].calls, 2);
}

#[test]
fn certificates_are_checked_with_their_keys_and_chains() {
    let set = set_of([host().load("certificates", &plugin("certificates"), None, &usual(json!({}))).unwrap()]);
    let chain = case("certificates", "complete-chain", "ssl/shop.pem");
    let report = check_file(&set, "ssl/shop.pem", &chain);
    assert!(report.failure.is_none() && !report.stops(), "{report:?}");
    let report = check_file(&set, "ssl/shop.pem", &case("certificates", "key-of-another", "ssl/shop.pem"));
    assert!(report.stops() && report.errors[0].message.contains("does not belong"), "{report:?}");
    // As long as it may be.
    let huge = chain.repeat(4 << 20 >> 12).into_bytes();
    let huge = String::from_utf8(huge[..huge.len().min(4 << 20)].to_vec()).unwrap();
    let report = check_file(&set, "ssl/shop.pem", &huge);
    assert!(report.failure.is_none() && report.stops(), "{:?}", report.failure);
}

#[test]
fn lua_is_checked_and_cannot_nest_too_deep() {
    let set = set_of([host().load("lua", &plugin("lua"), None, &usual(json!({}))).unwrap()]);
    let report = check_file(&set, "lua/shop.lua", &case("lua", "everything", "lua/shop.lua"));
    assert!(report.failure.is_none() && !report.stops(), "{report:?}");
    for (open, close) in [("(", ")"), ("{", "}"), ("function() return ", " end"), ("not ", ""), ("a..", "")] {
        let text = format!("x = {}1{}", open.repeat(40_000), close.repeat(40_000));
        let report = check_file(&set, "lua/shop.lua", &text);
        assert_eq!(report.failure, None, "{open}");
        assert!(report.errors[0].message.contains("nests deeper"), "{open}: {report:?}");
    }
    let names: String = (0..80_000).map(|number| format!("a{number}={number}\n")).collect();
    let report = check_file(&set, "lua/shop.lua", &names);
    assert!(report.failure.is_none() && !report.stops(), "{:?}", report.failure);
}

#[test]
fn every_hash_fits_the_limits_of_a_call() {
    let set = filters_of([("password", json!({"allowWeak": true}))]);
    let mut session = set.session();
    let mut call = |filter: &str, value: &str, positional: &[&str]| {
        let positional: Vec<String> = positional.iter().map(|value| (*value).to_owned()).collect();
        session.call(FilterCall { filter, value, positional: &positional, named: &[] }).unwrap()
    };
    let salt = "\"0123456789abcdef\"";
    let longest = format!("\"{}\"", "p".repeat(256));
    assert!(call("sha256_crypt", &longest, &[salt, "50000"]).starts_with("\"$5$rounds=50000$"));
    assert!(call("sha512_crypt", &longest, &[salt, "50000"]).starts_with("\"$6$rounds=50000$"));
    assert!(call("bcrypt", "\"p\"", &[salt, "10"]).starts_with("\"$2b$10$"));
    assert!(call("yescrypt", &longest, &[salt]).starts_with("\"$y$j9T$"));
    assert!(call("md5_crypt", &longest, &["\"01234567\""]).starts_with("\"$1$01234567$"));
}

#[test]
fn values_are_picked_and_versions_compared() {
    let set = filters_of([("pick", json!({})), ("semver", json!({}))]);
    let mut session = set.session();
    let mut call = |filter: &str, value: &str, argument: &str| {
        session.call(FilterCall { filter, value, positional: &[argument.to_owned()], named: &[] })
    };
    let rules = r#"[{"host":"a","ports":[1,2]},{"host":"b","ports":[]}]"#;
    // `length` is found in a registry that is filled when the module starts.
    assert_eq!(call("pick", rules, r#""$[?length(@.ports) > 1].host""#).unwrap(), r#"["a"]"#);
    assert_eq!(call("json_pointer", rules, "\"/1/host\"").unwrap(), "\"b\"");
    assert_eq!(call("semver_satisfies", "\"v1.33.1\"", "\">=1.30\"").unwrap(), "true");
    assert!(matches!(call("semver_satisfies", "\"1.33\"", "\"*\""), Err(FilterError::Refused { .. })));
}

/// Plugins that have filters alone.
fn filters_of<const N: usize>(plugins: [(&str, Value); N]) -> PluginSet {
    let used = plugins.map(|(name, config)| {
        let plugin = host().load(name, &plugin(name), None, &usual(config)).unwrap();
        PluginUse { plugin, validators: Vec::new() }
    });
    PluginSet::new(used.into()).unwrap()
}

/// The limits that a plugin has where none are set.
fn usual(config: Value) -> PluginSettings {
    PluginSettings { config, ..PluginSettings::default() }
}

/// A file of a plugin's own case.
fn case(plugin: &str, name: &str, file: &str) -> String {
    let plugins = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
    std::fs::read_to_string(plugins.join(plugin).join("cases").join(name).join("files").join(file)).unwrap()
}

/// A validator of the files that `glob` matches, which also gets `haproxy.cfg`.
fn with_configuration(name: &str, glob: &str) -> PluginSet {
    let plugin = host().load(name, &plugin(name), None, &settings(json!({}))).unwrap();
    let scope = ValidatorScope { files: vec![glob.to_owned()], data_files: vec!["haproxy.cfg".to_owned()] };
    PluginSet::new(vec![PluginUse { plugin, validators: vec![scope] }]).unwrap()
}

fn set_of_filters() -> PluginSet {
    let network = host().load("network", &plugin("network"), None, &settings(json!({}))).unwrap();
    let used = PluginUse { plugin: network, validators: Vec::new() };
    PluginSet::new(vec![used]).unwrap()
}
