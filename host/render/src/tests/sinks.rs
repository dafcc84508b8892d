use super::fixture::{Fixture, findings, text};

fn printed(value: &str) -> Result<String, Vec<String>> {
    let fixture = Fixture::new(
        r#"{{ render_each("unit", resources.things.list()) }}"#,
        &[("unit", "frontend x\n  http-request set-header X {{ item.value }}\n")],
    );
    let value = serde_json::to_string(value).unwrap();
    let rendered = fixture.render(&format!("things: [{{metadata: {{name: a, namespace: n}}, value: {value}}}]"));
    if rendered.findings.is_empty() { Ok(text(&rendered, "haproxy.cfg")) } else { Err(findings(&rendered)) }
}

#[test]
fn a_plain_value_is_printed_as_it_is() {
    assert_eq!(printed("abc/d.e:80").unwrap(), "frontend x\n  http-request set-header X abc/d.e:80\n");
}

#[test]
fn a_value_becomes_exactly_one_word() {
    let line = printed("a b\"c'd#e\\f$HOME").unwrap();
    assert_eq!(line, "frontend x\n  http-request set-header X a\\ b\\\"c\\'d\\#e\\\\f\\x24HOME\n");
}

#[test]
fn what_could_be_a_directive_is_refused_and_the_object_named() {
    for hostile in ["a\nmode tcp", "a\rb", "\u{0}", "%[env(HOME)]", "}", "{", "-f", "\u{1}7\u{1}", "or"] {
        let findings = printed(hostile).unwrap_err();
        assert_eq!(findings.len(), 1, "{hostile:?}");
        assert!(findings[0].starts_with("Thing n/a: snippet unit:2: "), "{findings:?}");
        assert!(findings[0].contains("next step"), "{findings:?}");
    }
}

#[test]
fn a_log_format_sink_doubles_percent_signs_and_a_literal_one_keeps_them() {
    let fixture = Fixture::new("global\n  x {{ v | log_format }} {{ v | literal }} {{ v | regex_escape }}\n", &[])
        .context(serde_json::json!({"v": "50%[x]"}));
    assert_eq!(text(&fixture.render("{}"), "haproxy.cfg"), "global\n  x 50%%[x] 50%[x] 50%\\\\[x\\\\]\n");
}

#[test]
fn raw_text_needs_the_opt_in_of_the_configuration() {
    let mut fixture = Fixture::new(
        r#"{{ render_each("unit", resources.things.list()) }}"#,
        &[("unit", "frontend x\n  {{ item.value | raw }}\n")],
    );
    let objects = "things: [{metadata: {name: a, namespace: n}, value: 'mode http'}]";
    let refused = findings(&fixture.render(objects));
    assert!(refused[0].contains("templating.rawText"), "{refused:?}");
    fixture.set.raw_text = crate::RawText::Allowed;
    assert_eq!(text(&fixture.render(objects), "haproxy.cfg"), "frontend x\n  mode http\n");
}

#[test]
fn the_engine_has_no_way_around_the_sinks() {
    for filter in ["safe", "escape", "e"] {
        let fixture =
            Fixture::new(&format!("global\n  {{{{ v | {filter} }}}}\n"), &[]).context(serde_json::json!({"v": "x"}));
        assert!(fixture.failure("{}")[0].contains("unknown filter"), "{filter}");
    }
}

#[test]
fn upper_case_and_concatenation_do_not_make_a_value_safe() {
    for expression in ["v | upper", "v ~ 'x'", "v | replace('a', 'b')", "[v, v] | join(',')", "v | trim"] {
        let fixture =
            Fixture::new(&format!("global\n  {{{{ {expression} }}}}\n"), &[]).context(serde_json::json!({"v": "a\nb"}));
        assert!(fixture.failure("{}")[0].contains("control character"), "{expression}");
    }
}

#[test]
fn map_keys_and_values_are_checked() {
    for (key, value) in [("a b", "v"), ("#a", "v"), ("", "v"), ("k", "v\nw x"), ("k", " v"), ("k", "")] {
        let (key, value) = (serde_json::to_string(key).unwrap(), serde_json::to_string(value).unwrap());
        let fixture = Fixture::new(
            r#"{{ render_each("unit", resources.things.list()) }}"#,
            &[("unit", "{{ map_entry('m.map', key=item.key, value=item.value) }}")],
        );
        let objects = format!("things: [{{metadata: {{name: a, namespace: n}}, key: {key}, value: {value}}}]");
        assert_eq!(fixture.render(&objects).findings.len(), 1, "{key} {value}");
    }
}
