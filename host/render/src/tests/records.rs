use haptic_model::{Entries, SectionKind, ServerAddress};

use super::fixture::{Fixture, findings, text};

const BACKEND: &str = r#"
{% call backend("b", from="haptic", balance="roundrobin") %}
  timeout server 30s
  {{ server("s1", "10.0.0.1", 80, weight=10, check=true, inter="5s") }}
  {{ server("s2", "2001:db8::1", 80) }}
{% endcall %}
"#;

#[test]
fn a_backends_body_is_hoisted_into_a_profile() {
    let rendered = Fixture::new(BACKEND, &[]).render("{}");
    let backend = &rendered.plan.backends["b"];
    assert_eq!(&*backend.body, "");
    assert!(backend.dynamic_servers);
    let profile = &backend.profile;
    assert_eq!(
        text(&rendered, "haproxy.cfg"),
        format!(
            "\ndefaults {profile} from haptic\n  mode http\n  balance roundrobin\n  timeout server 30s\n\n\
             backend b from {profile}\n  server s1 10.0.0.1:80 weight 10 check inter 5s\n  \
             server s2 [2001:db8::1]:80 weight 1\n"
        )
    );
    let kinds: Vec<_> = rendered.plan.sections.iter().map(|section| section.kind).collect();
    assert_eq!(kinds, [SectionKind::Profile, SectionKind::Backend]);
}

#[test]
fn a_line_that_defaults_cannot_hold_stays_in_the_backend() {
    let template = BACKEND.replace("timeout server 30s", "acl local src 10.0.0.0/8");
    let rendered = Fixture::new(&template, &[]).render("{}");
    assert_eq!(&*rendered.plan.backends["b"].body, "  acl local src 10.0.0.0/8\n");
}

#[test]
fn a_server_with_a_host_name_is_resolved_later_and_never_stops_the_proxy() {
    let template = BACKEND.replace("10.0.0.1", "db.example");
    let rendered = Fixture::new(&template, &[]).render("{}");
    let server = &rendered.plan.backends["b"].servers[0];
    assert_eq!(server.address, ServerAddress::Host("db.example".into()));
    assert!(text(&rendered, "haproxy.cfg").contains("resolvers haptic init-addr none"));
}

#[test]
fn a_bad_server_is_the_objects_fault() {
    for call in [
        "server('a b', '10.0.0.1', 80)",
        "server('a', '10.0.0.1 x', 80)",
        "server('a', '10.0.0.1', 0)",
        "server('a', '10.0.0.1', 70000)",
        "server('a', '10.0.0.1', 80, weight=300)",
        "server('a', '10.0.0.1', 80, inter='5s\n check')",
    ] {
        let unit = format!("{{% call backend('b') %}}{{{{ {call} }}}}{{% endcall %}}");
        let fixture = Fixture::new(r#"{{ render_each("unit", resources.things.list()) }}"#, &[("unit", &unit)]);
        let rendered = fixture.render("things: [{metadata: {name: a, namespace: n}}]");
        assert_eq!(rendered.findings.len(), 1, "{call}");
        assert!(rendered.plan.backends.is_empty(), "{call}");
    }
}

#[test]
fn an_address_bound_outside_of_bind_is_an_error_with_its_line() {
    let fixture = Fixture::new("frontend x\n  {{ bind('x', 80) }}\n  bind :81\n", &[]);
    let failure = fixture.failure("{}");
    assert!(failure[0].starts_with("config main:3: `bind :81` is not written by bind(…)"), "{failure:?}");
    let fixture = Fixture::new("frontend x\n  {{ bind('x', 80, address='::1', ssl=true) }}\n", &[]);
    let rendered = fixture.render("{}");
    assert_eq!(rendered.plan.binds.len(), 1);
    assert!(text(&rendered, "haproxy.cfg").contains("bind [::1]:80 ssl"));
}

#[test]
fn a_map_merges_its_template_and_all_units_in_key_order() {
    let fixture = Fixture::new(
        r#"{{ render_each("unit", resources.things.list()) }}"#,
        &[("unit", "{{ map_entry('m.map', key=item.key, value=item.metadata.name) }}")],
    )
    .map("m.map", "# a comment\nzz last one\nb mine\n", false);
    let rendered = fixture.render(
        "things: [{metadata: {name: one, namespace: n}, key: c}, {metadata: {name: two, namespace: n}, key: b}]",
    );
    assert_eq!(text(&rendered, "maps/m.map"), "b mine\nc one\nzz last one\n");
    assert!(findings(&rendered)[0].starts_with("Thing n/two: `b` of maps/m.map is already taken by the configuration"));
    assert!(matches!(rendered.plan.files["maps/m.map"].entries, Entries::Map { ordered: false, .. }));
    assert_eq!(rendered.sources.origin("maps/m.map", 2).unwrap().object.as_ref().unwrap().name.as_ref(), "one");
}

#[test]
fn the_older_object_keeps_a_key_whatever_the_order() {
    let fixture = Fixture::new(
        r#"{{ render_each("unit", resources.things.list()) }}"#,
        &[("unit", "{{ map_entry('m.map', key='k', value=item.metadata.name) }}")],
    );
    let young = "{metadata: {name: a, namespace: n, creationTimestamp: '2026-01-02T00:00:00Z'}}";
    let old = "{metadata: {name: b, namespace: n, creationTimestamp: '2026-01-01T00:00:00Z'}}";
    for objects in [format!("things: [{young}, {old}]"), format!("things: [{old}, {young}]")] {
        let rendered = fixture.render(&objects);
        assert_eq!(text(&rendered, "maps/m.map"), "k b\n");
        assert!(findings(&rendered)[0].starts_with("Thing n/a: `k` of maps/m.map is already taken by Thing n/b"));
    }
}

#[test]
fn general_files_are_written_as_they_are_and_keep_their_reload_flag() {
    let fixture = Fixture::new("global\n", &[]).file("503.http", "HTTP/1.0 503 {{ v }}\r\n\r\n# \"x\"\n");
    let fixture = fixture.context(serde_json::json!({"v": "Service Unavailable"}));
    let rendered = fixture.render("{}");
    assert_eq!(text(&rendered, "general/503.http"), "HTTP/1.0 503 Service Unavailable\r\n\r\n# \"x\"\n");
    assert!(rendered.plan.files["general/503.http"].reload_on_change);
}

#[test]
fn an_entry_of_the_configuration_is_not_of_the_object_whose_entry_comes_before_it() {
    let main =
        "{{ render_each(\"unit\", resources.things.list()) }}{{ map_entry(\"m.map\", key=\"m\", value=\"main\") }}\n";
    let unit = "{{ map_entry(\"m.map\", key=item.metadata.name, value=\"unit\") }}";
    let things = "things: [{metadata: {namespace: n, name: a}}, {metadata: {namespace: n, name: z}}]";
    let rendered = Fixture::new(main, &[("unit", unit)]).render(things);
    assert_eq!(text(&rendered, "maps/m.map"), "a unit\nm main\nz unit\n");
    let object = |line| rendered.sources.origin("maps/m.map", line).unwrap().object.as_ref().map(ToString::to_string);
    assert_eq!([object(1), object(2), object(3)], [Some("Thing n/a".to_owned()), None, Some("Thing n/z".to_owned())]);
}
