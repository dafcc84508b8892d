use std::sync::Arc;

use super::fixture::{Fixture, findings, text};
use crate::Memo;

const MAIN: &str = "global\n{{ render_each(\"unit\", resources.things.list()) }}\n";
const UNIT: &str = "{% call backend(item.metadata.name) %}{{ server('s', item.address, item.port) }}{% endcall %}\
                    {% set friend = resources.things.get_single('n', item.friend) if item.friend is defined %}\
                    {% if friend %}{{ map_entry('m.map', key=item.metadata.name, value=friend.address) }}{% endif %}";

fn fixture() -> Fixture {
    Fixture::new(MAIN, &[("unit", UNIT)])
}

const THREE: &str = "things:
- {metadata: {name: a, namespace: n}, address: 10.0.0.1, port: 80, friend: c}
- {metadata: {name: b, namespace: n}, address: 10.0.0.2, port: 80}
- {metadata: {name: c, namespace: n}, address: 10.0.0.3, port: 80}
";

#[test]
fn a_failing_unit_is_left_out_and_the_others_stay() {
    let rendered = fixture().render(&THREE.replace("10.0.0.2", "not an address"));
    let names: Vec<_> = rendered.plan.backends.keys().map(AsRef::as_ref).collect();
    assert_eq!(names, ["a", "c"]);
    assert!(findings(&rendered)[0].starts_with("Thing n/b: snippet unit:1: "), "{:?}", rendered.findings);
}

#[test]
fn a_template_mistake_fails_the_render_and_names_the_line() {
    for (mistake, says) in [
        ("{{ nonsense(1) }}", "unknown function"),
        ("{{ 1 | nonsense }}", "unknown filter"),
        ("{% include 'nonsense' %}", "template not found"),
        ("{{ resources.things.fetch() }}", "needs at least one key"),
        ("{{ resources.things.select('a') }}", "takes two arguments"),
        ("{{ resources.things.select('', ['a']) }}", "is text like `spec.type`"),
        ("{{ resources.things.fetch('a', 'b', 'c') }}", "with 3 keys"),
        ("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "out of fuel"),
    ] {
        let fixture = Fixture::new(MAIN, &[("unit", &format!("\n{mistake}\n"))]);
        let failure = fixture.failure(THREE);
        assert!(failure[0].contains(says), "{failure:?}");
        assert!(failure[0].contains("snippet unit:2"), "{failure:?}");
    }
}

#[test]
fn select_finds_objects_by_a_value_and_passes_over_those_without_it() {
    let things = "things:
- {metadata: {name: a, namespace: n}, spec: {class: x, port: 80}}
- {metadata: {name: b, namespace: n}, spec: {class: y}}
- {metadata: {name: c, namespace: n}, spec: text}
- {metadata: {name: d, namespace: n}}
- {metadata: {name: e, namespace: n}, spec: {class: x, port: 81}}
";
    for (path, wanted, found) in [
        ("spec.class", "['x']", "[a-e]"),
        ("spec.class", "['y', 'x']", "[a-b-e]"),
        ("spec.class", "[]", "[]"),
        ("spec.port", "[80, 82]", "[a]"),
        ("spec", "['text']", "[c]"),
        ("metadata.name", "['d', 'b']", "[b-d]"),
        ("spec.class.x", "['x']", "[]"),
    ] {
        let selected =
            format!("resources.things.select('{path}', {wanted}) | map(attribute='metadata.name') | join('-')");
        let main = format!("global\n# {{{{ '[' ~ ({selected}) ~ ']' }}}}\n");
        let rendered = text(&Fixture::new(&main, &[]).render(things), "haproxy.cfg");
        assert!(rendered.contains(found), "{path} {wanted}: {rendered}");
    }
}

#[test]
fn a_syntax_error_does_not_compile_and_names_template_and_line() {
    let fixture = Fixture::new(MAIN, &[("unit", "\n\n{% if %}")]);
    let findings = crate::Renderer::compile(fixture.set, Arc::new(haptic_model::ports::NoPlugins)).err().unwrap();
    assert!(findings[0].to_string().starts_with("snippet unit:3: "), "{findings:?}");
}

#[test]
fn a_quarantined_unit_is_left_out() {
    let fixture = fixture();
    let mut inputs = fixture.inputs(THREE);
    inputs.quarantined.insert("unit/Thing/n/b".into());
    let rendered = fixture.renderer().render(&inputs, &mut Memo::default()).unwrap();
    assert!(!rendered.plan.backends.contains_key("b"));
    assert!(findings(&rendered)[0].starts_with("Thing n/b: HAProxy refused"));
}

#[test]
fn every_input_order_gives_the_same_bytes() {
    let mut lines: Vec<&str> = THREE.lines().skip(1).collect();
    let first = fixture().render(THREE);
    for _ in 0..3 {
        lines.rotate_left(1);
        let objects = format!("things:\n{}\n", lines.join("\n"));
        let again = fixture().render(&objects);
        assert_eq!(again.plan, first.plan);
        assert_eq!(again.files, first.files);
    }
}

#[test]
fn a_warm_render_gives_the_bytes_of_a_cold_one_and_renders_only_what_changed() {
    let fixture = fixture();
    let renderer = fixture.renderer();
    let mut memo = Memo::default();
    let first = renderer.render(&fixture.inputs(THREE), &mut memo).unwrap();
    assert_eq!(memo.hits_and_misses(), (0, 3));
    // A new store has new serials: everything is rendered, and what is equal keeps its pointers.
    let changed = THREE.replace("10.0.0.3", "10.0.0.9");
    let warm = renderer.render(&fixture.inputs(&changed), &mut memo).unwrap();
    let cold = renderer.render(&fixture.inputs(&changed), &mut Memo::default()).unwrap();
    assert_eq!(warm.files, cold.files);
    assert_eq!(warm.plan, cold.plan);
    assert!(Arc::ptr_eq(&warm.plan.backends["b"], &first.plan.backends["b"]));
    assert!(!Arc::ptr_eq(&warm.plan.backends["c"], &first.plan.backends["c"]));
    assert_eq!(text(&warm, "maps/m.map"), "a 10.0.0.9\n", "a read of another object is an input too");
}

#[test]
fn an_item_given_twice_is_refused() {
    let fixture =
        Fixture::new("{{ render_each('unit', resources.things.list() + resources.things.list()) }}", &[("unit", "x")]);
    assert!(fixture.failure(THREE)[0].contains("twice"));
}
