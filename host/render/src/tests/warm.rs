//! A render with a memory gives what one without it gives, whatever happened before.

use std::{collections::BTreeSet, sync::Arc};

use haptic_model::{Rendered, SourceLocation};
use haptic_store::{RawChange, RawObject, Store};
use proptest::{collection::vec, prelude::*, sample::subsequence};
use serde_json::{Value, json};

use super::fixture::{Fixture, text};
use crate::{Inputs, Memo, Renderer, Template};

/// What there is at one moment.
#[derive(Clone, Debug)]
struct World {
    ingresses: Vec<Value>,
    services: Vec<Value>,
    slices: Vec<Value>,
    quarantined: BTreeSet<Arc<str>>,
    /// Something makes the render fail, after the units.
    broken: bool,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn ingress(name: &str, service: usize, path: usize, (annotation, age): (usize, usize)) -> Value {
    let annotations = match annotation {
        0 => json!({}),
        1 => json!({ "haptic.rs/load-balance": "leastconn" }),
        2 => json!({ "haptic.rs/timeout-server": "3s" }),
        _ => json!({ "haptic.rs/load-balance": "no such algorithm" }),
    };
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {
            "name": name, "namespace": "n", "annotations": annotations,
            "creationTimestamp": format!("2026-01-0{}T00:00:00Z", age + 1),
        },
        "spec": { "ingressClassName": "haptic", "rules": [{ "host": format!("h{path}.example"), "http": { "paths": [
            { "path": "/", "pathType": "Prefix", "backend": { "service": { "name": NAMES[service], "port": { "number": 80 } } } },
        ] } }] },
    })
}

fn slice(name: &str, addresses: &[u8]) -> Value {
    let endpoints: Vec<_> = addresses.iter().map(|n| json!({ "addresses": [format!("10.0.0.{n}")] })).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "name": name, "namespace": "n", "labels": { "kubernetes.io/service-name": name } },
        "ports": [{ "port": 8080 }], "endpoints": endpoints,
    })
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": "n" },
        "spec": { "ports": [{ "port": 80 }] },
    })
}

fn worlds() -> impl Strategy<Value = Vec<World>> {
    let ingresses = vec((0..4_usize, 0..6_usize, (0..4_usize, 0..3_usize)), 4);
    let addresses = vec(vec(1..5_u8, 0..3), 4);
    let some = || subsequence(vec![0_usize, 1, 2, 3], 0..=4);
    // Most steps keep most of what was there, as in a cluster.
    let step = (some(), ingresses, some(), addresses, subsequence(NAMES.to_vec(), 0..=1), 0..5_usize);
    vec(step, 2..8).prop_map(|steps| {
        let mut worlds: Vec<World> = Vec::new();
        for (there, specs, served, addresses, quarantined, what) in steps {
            let next = World {
                ingresses: there.iter().map(|i| ingress(NAMES[*i], specs[*i].0, specs[*i].1, specs[*i].2)).collect(),
                services: served.iter().map(|i| service(NAMES[*i])).collect(),
                slices: served.iter().map(|i| slice(NAMES[*i], &addresses[*i])).collect(),
                quarantined: quarantined.iter().map(|name| format!("ingress/Ingress/n/{name}").into()).collect(),
                broken: what == 4,
            };
            let world = match (what, worlds.last()) {
                (0, Some(last)) => World { slices: next.slices, broken: false, ..last.clone() },
                (1, Some(last)) => World { ingresses: next.ingresses, broken: false, ..last.clone() },
                (2, Some(last)) => World { quarantined: next.quarantined, broken: false, ..last.clone() },
                _ => next,
            };
            worlds.push(world);
        }
        worlds
    })
}

fn put(store: &mut Store, resource: &str, objects: &[Value]) {
    let location = || SourceLocation { file: "world.yaml".into(), line: 1, column: 1 };
    let namespace =
        |object: &Value| object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("").to_owned();
    let raw: Vec<_> = objects
        .iter()
        .map(|object| Arc::new(RawObject::new(object, &namespace(object), location()).unwrap()))
        .collect();
    store.replace_all(resource, &raw).unwrap();
}

fn assert_same(warm: &Rendered, cold: &Rendered) {
    assert_eq!(warm.files, cold.files);
    assert_eq!(warm.plan, cold.plan);
    assert_eq!(warm.sources, cold.sources);
    assert_eq!(warm.findings, cold.findings);
    assert_eq!((warm.units, &warm.failed_units), (cold.units, &cold.failed_units));
}

fn both(renderer: &Renderer, inputs: &Inputs, memo: &mut Memo) -> Rendered {
    let warm = renderer.render(inputs, memo).unwrap();
    assert_same(&warm, &renderer.render(inputs, &mut Memo::default()).unwrap());
    warm
}

fn follow(worlds: &[World]) {
    let mut fixture = Fixture::libraries();
    let text = "{{ resources.services.get_single('n', 'broken') is none or fail('broken') }}";
    let broken = Template { name: "units/90-broken".into(), source: text.into() };
    fixture.set.snippets.insert("units/90-broken".to_owned(), broken);
    let renderer = fixture.renderer();
    let mut store = Store::new(fixture.resources.clone());
    let class = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": { "name": "haptic" },
        "spec": { "controller": "haptic.rs/ingress" },
    });
    put(&mut store, "ingressclasses", &[class]);
    let mut memo = Memo::default();
    for world in worlds {
        put(&mut store, "ingresses", &world.ingresses);
        let broken = world.broken.then(|| service("broken"));
        put(&mut store, "services", &world.services.iter().cloned().chain(broken).collect::<Vec<_>>());
        put(&mut store, "endpointslices", &world.slices);
        let quarantined = world.quarantined.clone();
        let inputs = Inputs { snapshot: store.snapshot(), quarantined, haproxy: (3, 4) };
        if world.broken {
            renderer.render(&inputs, &mut memo).unwrap_err();
        } else {
            both(&renderer, &inputs, &mut memo);
            propose(&renderer, &mut store, &inputs, &memo, world);
        }
    }
}

/// A copy of the memory goes its own way, to a state that somebody proposes and back again.
fn propose(renderer: &Renderer, store: &mut Store, inputs: &Inputs, memo: &Memo, world: &World) {
    let nowhere = || SourceLocation { file: "".into(), line: 0, column: 0 };
    let raw = |object: &Value| RawObject::new(object, "n", nowhere()).unwrap();
    let without = |objects: &[Value]| objects.first().map(|object| RawChange::Delete(raw(object).key()));
    let changes = [
        Some(("ingresses", RawChange::Upsert(Arc::new(raw(&ingress("e", 0, 0, (0, 0))))))),
        without(&world.ingresses).map(|change| ("ingresses", change)),
        without(&world.services).map(|change| ("services", change)),
    ];
    let mut aside = memo.clone();
    for (resource, change) in changes.into_iter().flatten() {
        let snapshot = store.overlay(&[(resource.into(), change)]).unwrap().snapshot;
        both(renderer, &Inputs { snapshot, ..inputs.clone() }, &mut aside);
        both(renderer, inputs, &mut aside);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_history_ends_in_what_a_first_render_gives(worlds in worlds()) {
        follow(&worlds);
    }
}

/// Two hooks whose units print text, and one that prints none, so that indices and lines move.
fn hooks() -> Fixture {
    let main = "global\n{{ hook('first') }}\ndefaults haptic\n{{ hook('second') }}\n";
    Fixture::new(
        main,
        &[
            (
                "first/10",
                "{{ render_each('note', resources.things.list() | selectattr('kind_of', 'eq', 'note') | list) }}",
            ),
            (
                "second/10",
                "{{ render_each('line', resources.things.list() | selectattr('kind_of', 'eq', 'line') | list) }}",
            ),
            ("second/20", "# {{ resources.things.get_single('n', 'extra') | default('none', true) | length }} extras"),
            ("note", "{% call backend(item.metadata.name) %}{{ server('s', item.address, 80) }}{% endcall %}"),
            (
                "line",
                "# {{ item.metadata.name }} {{ (resources.things.get_single('n', item.friend) or {}) | dig('address') or 'alone' }}",
            ),
        ],
    )
}

fn thing(name: &str, kind_of: &str, address: &str, friend: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Thing", "metadata": { "name": name, "namespace": "n" },
        "kind_of": kind_of, "address": address, "friend": friend,
    })
}

#[test]
fn a_unit_is_rendered_again_for_what_it_read_and_nothing_else_runs() {
    let fixture = hooks();
    let renderer = fixture.renderer();
    let mut store = Store::new(fixture.resources.clone());
    let mut memo = Memo::default();
    let inputs = |store: &Store| Inputs { snapshot: store.snapshot(), quarantined: BTreeSet::new(), haproxy: (3, 4) };
    let things = |address: &str| {
        vec![
            thing("a", "note", "10.0.0.1", ""),
            thing("b", "line", "", "c"),
            thing("c", "note", address, ""),
            thing("d", "line", "", "nobody"),
        ]
    };
    put(&mut store, "things", &things("10.0.0.3"));
    let first = both(&renderer, &inputs(&store), &mut memo);
    assert!(text(&first, "haproxy.cfg").contains("# b 10.0.0.3\n"), "{}", text(&first, "haproxy.cfg"));
    both(&renderer, &inputs(&store), &mut memo);
    assert_eq!(memo.hits_and_misses(), (4, 0));
    put(&mut store, "things", &things("10.0.0.33"));
    let changed = both(&renderer, &inputs(&store), &mut memo);
    assert_eq!(memo.hits_and_misses(), (2, 2), "the note and the line that reads it");
    assert!(text(&changed, "haproxy.cfg").contains("# b 10.0.0.33\n"));
    // One more note before the lines moves their indices, one fewer moves them back.
    let mut more = things("10.0.0.33");
    more.push(thing("aa", "note", "10.0.0.9", ""));
    put(&mut store, "things", &more);
    both(&renderer, &inputs(&store), &mut memo);
    put(&mut store, "things", &things("10.0.0.33"));
    both(&renderer, &inputs(&store), &mut memo);
}

#[test]
fn a_unit_that_two_hooks_give_is_refused_however_warm_the_memory_is() {
    let fixture = Fixture::new(
        "{{ hook('first') }}{{ hook('second') }}",
        &[
            ("first/10", "{{ render_each('unit', resources.things.list()) }}"),
            ("second/10", "{{ render_each('unit', resources.things.fetch('other')) }}"),
            ("unit", "x"),
        ],
    );
    let renderer = fixture.renderer();
    let mut store = Store::new(fixture.resources.clone());
    let mut memo = Memo::default();
    let inputs = |store: &Store| Inputs { snapshot: store.snapshot(), quarantined: BTreeSet::new(), haproxy: (3, 4) };
    put(&mut store, "things", &[thing("a", "note", "", "")]);
    both(&renderer, &inputs(&store), &mut memo);
    let mut other = thing("z", "note", "", "");
    other["metadata"]["namespace"] = "other".into();
    put(&mut store, "things", &[thing("a", "note", "", ""), other]);
    for memo in [&mut memo, &mut Memo::default()] {
        let error = renderer.render(&inputs(&store), memo).unwrap_err();
        assert!(error.to_string().contains("was given `unit/Thing/other/z` twice"), "{error}");
    }
}

/// Renders one history of `things` with one memory.
fn history(fixture: &Fixture, steps: &[&[Value]]) -> Vec<Rendered> {
    let renderer = fixture.renderer();
    let mut store = Store::new(fixture.resources.clone());
    let mut memo = Memo::default();
    steps
        .iter()
        .map(|things| {
            put(&mut store, "things", things);
            let inputs = Inputs { snapshot: store.snapshot(), quarantined: BTreeSet::new(), haproxy: (3, 4) };
            both(&renderer, &inputs, &mut memo)
        })
        .collect()
}

#[test]
fn a_unit_that_was_not_given_for_a_while_is_not_recalled_with_old_reads() {
    let fixture = Fixture::new(
        "{% if resources.things.get_single('n', 'flag') %}{{ render_each('unit', ['k']) }}{% endif %}",
        &[("unit", "# {{ (resources.things.get_single('n', 'x') or {}) | dig('address') or 'alone' }}")],
    );
    let both = [thing("flag", "", "", ""), thing("x", "", "there", "")];
    let rendered = history(&fixture, &[&both[..1], &both[1..], &both]);
    assert!(text(&rendered[2], "haproxy.cfg").contains("# there"));
}

#[test]
fn a_profile_that_all_units_leave_at_once_is_gone() {
    let fixture = Fixture::new(
        "{{ render_each('unit', resources.things.list() | selectattr('kind_of', 'eq', 'unit') | list) }}",
        &[(
            "unit",
            "{% set balance = resources.things.get_single('n', item.friend).address %}\
             {% call backend(item.metadata.name, balance=balance) %}{% endcall %}",
        )],
    );
    let things = |balance: &str| {
        vec![
            thing("a", "unit", "", "shared"),
            thing("b", "unit", "", "shared"),
            thing("c", "unit", "", "own"),
            thing("own", "", "leastconn", ""),
            thing("shared", "", balance, ""),
        ]
    };
    let rendered = history(&fixture, &[&things("roundrobin"), &things("leastconn"), &things("random")]);
    assert_eq!(rendered.iter().map(|rendered| rendered.plan.profiles.len()).collect::<Vec<_>>(), [2, 1, 2]);
}

#[test]
fn the_older_of_two_claims_wins_also_after_an_object_was_made_anew() {
    let fixture = Fixture::new(
        "{{ render_each('unit', resources.things.list()) }}",
        &[("unit", "{{ map_entry('m.map', key='k', value=item.metadata.name) }}")],
    );
    let made = |name: &str, day: u8| {
        let mut thing = thing(name, "", "", "");
        thing["metadata"]["creationTimestamp"] = format!("2026-01-{day:02}T00:00:00Z").into();
        thing
    };
    let rendered = history(&fixture, &[&[made("a", 1), made("b", 2)], &[made("a", 3), made("b", 2)]]);
    assert_eq!([text(&rendered[0], "maps/m.map"), text(&rendered[1], "maps/m.map")], ["k a\n", "k b\n"]);
}
