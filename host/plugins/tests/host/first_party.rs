//! The plugins that come with haptic, as components.

use haptic_model::ports::{Diagnostic, FilterCall, FilterError, OutputValidators as _, TemplateFilters as _};
use serde_json::json;

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

fn set_of_filters() -> haptic_plugins::PluginSet {
    let network = host().load("network", &plugin("network"), None, &settings(json!({}))).unwrap();
    let used = haptic_plugins::PluginUse { plugin: network, validators: Vec::new() };
    haptic_plugins::PluginSet::new(vec![used]).unwrap()
}
