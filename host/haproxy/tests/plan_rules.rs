//! One table per rule of the plan diff.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "plan_rules/build.rs"]
mod plan_build;

use std::collections::BTreeSet;

use haptic_haproxy::plan::{Baseline, Diff, Inventory, MAX_REASONS, diff};
use haptic_model::{Op, Plan, ReasonCode, ServerState, Verdict};

use crate::plan_build::{Build, backend, inventory, path, server};

fn run(old: &Build, next: &Build, haproxy: (u16, u16)) -> Diff {
    with(&old.plan(), &next.plan(), haproxy, &inventory(&old.plan()), &BTreeSet::new(), false)
}

fn with(
    old: &Plan,
    next: &Plan,
    haproxy: (u16, u16),
    inventory: &Inventory,
    pending_deletes: &BTreeSet<String>,
    reload_pending: bool,
) -> Diff {
    diff(next, &Baseline { plan: Some(old), haproxy, inventory, pending_deletes, reload_pending })
}

/// Two plans that differ by `change`.
fn after(change: impl Fn(&mut Build)) -> Diff {
    after_on((3, 4), change)
}

fn after_on(haproxy: (u16, u16), change: impl Fn(&mut Build)) -> Diff {
    let old = Build::sample();
    let mut next = Build::sample();
    change(&mut next);
    run(&old, &next, haproxy)
}

/// Operations in short, one a line.
fn short(ops: &[Op]) -> Vec<String> {
    ops.iter()
        .map(|op| match op {
            Op::BackendAdd { name, profile, .. } => format!("backend_add {name} {profile}"),
            Op::BackendPublish { name } => format!("publish {name}"),
            Op::BackendUnpublish { name } => format!("unpublish {name}"),
            Op::BackendDel { name } => format!("backend_del {name}"),
            Op::ServerAdd { backend, server, address, port, weight, .. } => {
                format!("server_add {backend}/{server} {address}:{port} {weight}")
            }
            Op::ServerEnable { backend, server, health } => format!("enable {backend}/{server} health={health}"),
            Op::ServerSetAddr { backend, server, address, port } => format!("addr {backend}/{server} {address}:{port}"),
            Op::ServerSetWeight { backend, server, weight } => format!("weight {backend}/{server} {weight}"),
            Op::ServerSetState { backend, server, state } => format!("state {backend}/{server} {state}"),
            Op::ServerDel { backend, server } => format!("server_del {backend}/{server}"),
            Op::MapAdd { map, key, value } => format!("map_add {map} {key} {value}"),
            Op::MapSet { map, key, value } => format!("map_set {map} {key} {value}"),
            Op::MapDel { map, key } => format!("map_del {map} {key}"),
            Op::MapReplace { map } => format!("map_replace {map}"),
            Op::CertNew { certificate } => format!("cert_new {certificate}"),
            Op::CertSet { certificate } => format!("cert_set {certificate}"),
            Op::CertDel { certificate } => format!("cert_del {certificate}"),
            Op::CaSet { file } => format!("ca_set {file}"),
            Op::CrlSet { file } => format!("crl_set {file}"),
            Op::CrtListAdd { list, entry } => format!("list_add {list} {}", entry.certificate),
            Op::CrtListDel { list, certificate } => format!("list_del {list} {certificate}"),
        })
        .collect()
}

#[track_caller]
fn runtime(diff: &Diff, ops: &[&str]) {
    assert_eq!(diff.verdict, Verdict::Runtime, "{:?}", diff.reasons);
    assert_eq!(short(&diff.ops), ops);
    assert!(diff.reasons.is_empty());
}

#[track_caller]
fn reload(diff: &Diff, code: ReasonCode, words: &str) {
    assert_eq!(diff.verdict, Verdict::Reload, "{diff:?}");
    assert!(diff.ops.is_empty());
    let found = diff.reasons.iter().any(|reason| reason.code == code && reason.message.contains(words));
    assert!(found, "no {code:?} with `{words}` in {:?}", diff.reasons);
}

#[test]
fn rule_1_without_a_usable_baseline_everything_is_loaded() {
    let next = Build::sample().plan();
    let (inventory, pending) = (Inventory::default(), BTreeSet::new());
    let baseline = Baseline {
        plan: None,
        haproxy: (3, 4),
        inventory: &inventory,
        pending_deletes: &pending,
        reload_pending: false,
    };
    let decided = diff(&next, &baseline);
    reload(&decided, ReasonCode::NoBaseline, "not known");
    assert_eq!(decided.changed_files.len(), next.files.len());
    let mut old = next.clone();
    old.schema_version += 1;
    reload(&with(&old, &next, (3, 4), &inventory, &pending, false), ReasonCode::NoBaseline, "another version");
}

#[test]
fn an_equal_plan_is_a_noop() {
    let decided = after(|_| {});
    assert_eq!(decided.verdict, Verdict::Noop);
    assert!(decided.changed_files.is_empty() && decided.ops.is_empty() && decided.in_place_ops.is_empty());
}

#[test]
fn rule_2_core_and_profile_sections_are_only_read_at_load() {
    reload(&after(|b| b.core("frontend http", "new text")), ReasonCode::SectionChanged, "frontend http changed");
    reload(&after(|b| b.core("frontend other", "text")), ReasonCode::SectionAdded, "frontend other is new");
    reload(&after(|b| b.core.retain(|(name, _)| name != "frontend http")), ReasonCode::SectionRemoved, "frontend http");
    reload(&after(|b| b.core.reverse()), ReasonCode::SectionChanged, "order");
    reload(&after(|b| b.profile("slow", "text")), ReasonCode::ProfileAdded, "profile slow is new");
    reload(&after(|b| b.profile("fast", "other")), ReasonCode::ProfileChanged, "profile fast changed");
}

#[test]
fn rule_2_a_profile_goes_for_free_with_its_last_user() {
    let mut old = Build::sample();
    old.profile("slow", "text");
    old.backends.push(backend("b9", "slow", vec![server("s1", 1)]));
    let decided = run(&old, &Build::sample(), (3, 4));
    runtime(&decided, &["unpublish b9", "server_del b9/s1", "backend_del b9"]);
    assert!(decided.notes.iter().any(|note| note.message.contains("profile slow")));
    let mut moved = Build::sample();
    moved.backends.push(backend("b9", "fast", vec![server("s1", 1)]));
    reload(&run(&old, &moved, (3, 4)), ReasonCode::BackendStructural, "from slow to fast");
}

#[test]
fn rule_3_whole_backends_come_and_go_from_3_4_on() {
    let add = |b: &mut Build| b.backends.push(backend("b3", "fast", vec![server("s1", 7)]));
    let expected =
        ["backend_add b3 fast", "server_add b3/s1 10.0.0.7:80 100", "enable b3/s1 health=false", "publish b3"];
    runtime(&after(add), &expected);
    reload(
        &after_on((3, 2), add),
        ReasonCode::BackendNeedsNewerHAProxy,
        "backend b3: HAProxy 3.2 cannot add a backend",
    );
    let remove = |b: &mut Build| b.backends.retain(|backend| &*backend.name != "b2");
    runtime(&after(remove), &["unpublish b2", "server_del b2/s1", "backend_del b2"]);
    reload(&after_on((3, 0), remove), ReasonCode::BackendNeedsNewerHAProxy, "HAProxy 3.0 cannot remove");
    let with_body = |b: &mut Build| {
        let mut new = backend("b3", "fast", vec![]);
        new.body = "  acl x path /\n".into();
        b.backends.push(new);
    };
    reload(&after(with_body), ReasonCode::BackendStructural, "settings of its own");
    let of_new_profile = |b: &mut Build| {
        b.profile("slow", "text");
        b.backends.push(backend("b3", "slow", vec![]));
    };
    reload(&after(of_new_profile), ReasonCode::ProfileAdded, "profile slow is not loaded");
}

#[test]
fn rule_3_a_name_that_waits_for_its_removal_is_taken() {
    let old = Build::sample().plan();
    let mut next = Build::sample();
    next.backends.push(backend("b3", "fast", vec![]));
    let pending = BTreeSet::from(["b3".to_owned()]);
    let decided = with(&old, &next.plan(), (3, 4), &inventory(&old), &pending, false);
    reload(&decided, ReasonCode::BackendStructural, "name is still taken");
    let mut next = Build::sample();
    next.backends[0].servers.push(server("s9", 9));
    let pending = BTreeSet::from(["b1/s9".to_owned()]);
    let decided = with(&old, &next.plan(), (3, 4), &inventory(&old), &pending, false);
    reload(&decided, ReasonCode::ServerStructural, "still finishes its connections");
}

#[test]
fn rule_4_server_changes() {
    type Change = fn(&mut Build);
    let table: &[(Change, &[&str])] = &[
        (|b| b.backends[0].servers[0] = server("s1", 50), &["addr b1/s1 10.0.0.50:80"]),
        (|b| b.backends[0].servers[0].port = 81, &["addr b1/s1 10.0.0.1:81"]),
        (|b| b.backends[0].servers[0].weight = 0, &["weight b1/s1 0"]),
        (|b| b.backends[0].servers[0].disabled = true, &["state b1/s1 maint"]),
        (|b| b.backends[0].servers[2].disabled = false, &["enable b1/s3 health=true"]),
        (
            |b| b.backends[0].servers[0] = server("s8", 8),
            &["server_add b1/s8 10.0.0.8:80 100", "enable b1/s8 health=false", "server_del b1/s1"],
        ),
        (
            |b| {
                let mut new = server("s8", 8);
                new.disabled = true;
                b.backends[0].servers.push(new);
            },
            &["server_add b1/s8 10.0.0.8:80 100"],
        ),
        (|b| drop(b.backends[0].servers.remove(0)), &["server_del b1/s1"]),
    ];
    for (change, ops) in table {
        runtime(&after_on((3, 0), change), ops);
    }
    let reordered = after(|b| b.backends[0].servers.reverse());
    assert_eq!(reordered.verdict, Verdict::FileOnly, "{reordered:?}");
}

#[test]
fn rule_4_what_only_a_reload_changes_in_a_server() {
    type Change = fn(&mut Build);
    let table: &[(Change, ReasonCode, &str)] = &[
        (|b| b.keyword(0, 0, "check", None), ReasonCode::ServerStructural, "`check` changed"),
        (|b| b.add_server(0, |s| s.address = plan_build::host("x.test")), ReasonCode::ServerNotDynamic, "(x.test)"),
        (|b| b.backends[0].servers[0].address = plan_build::host("x.test"), ReasonCode::ServerNotDynamic, "is a name"),
        (|b| b.add_server(0, |s| s.port = 0), ReasonCode::ServerNotDynamic, "no port"),
        (|b| b.add_server_with(0, "resolvers", Some("dns")), ReasonCode::ServerNotDynamic, "`resolvers`"),
        (
            |b| b.add_server_with(0, "init-state", Some("down")),
            ReasonCode::ServerNotDynamic,
            "3.0 cannot add a server with `init-state`",
        ),
        (|b| b.add_server_with(0, "cookie", Some("a b")), ReasonCode::UnsafeToken, "`cookie`"),
        (|b| b.add_server_with(0, "cookie", Some("a;b")), ReasonCode::UnsafeToken, "`cookie`"),
        (|b| b.add_server_with(0, "ca-file", Some("ssl/none.pem")), ReasonCode::ServerNotDynamic, "not loaded"),
        (|b| b.add_server_with(0, "crt", Some("ssl/none.pem")), ReasonCode::ServerNotDynamic, "not loaded"),
        (|b| b.add_server_with(0, "ssl", None), ReasonCode::ServerNotDynamic, "verify none"),
        (|b| b.backends[0].body = "  timeout server 5s\n".into(), ReasonCode::BackendStructural, "settings changed"),
        (|b| b.backends[2].servers[0].weight = 3, ReasonCode::ServerNotDynamic, "static"),
        (|b| b.add_server(2, |_| {}), ReasonCode::ServerNotDynamic, "static"),
    ];
    for (change, code, words) in table {
        reload(&after_on((3, 0), change), *code, words);
    }
    assert_eq!(after_on((3, 2), |b| b.add_server_with(0, "init-state", Some("down"))).verdict, Verdict::Runtime);
}

#[test]
fn rule_5_unordered_maps() {
    type Change = fn(&mut Vec<(&'static str, &'static str)>);
    let table: &[(Change, &[&str])] = &[
        (|m| m.push(("/d", "b1")), &["map_add maps/path.map /d b1"]),
        (|m| m.insert(0, ("/d", "b1")), &["map_add maps/path.map /d b1"]),
        (|m| m[1].1 = "b1", &["map_set maps/path.map /b b1"]),
        (
            |m| {
                m.remove(0);
            },
            &["map_del maps/path.map /a"],
        ),
        (|m| m[1] = ("/z", "b1"), &["map_add maps/path.map /z b1", "map_del maps/path.map /b"]),
        (|m| m.reverse(), &[]),
        (|m| m.push(("/d", "max-age=1; include")), &["map_replace maps/path.map"]),
        (|m| m.push(("#d", "x")), &["map_replace maps/path.map"]),
        (|m| m.push(("/d\\.", "x")), &["map_replace maps/path.map"]),
        (|m| m.push(("/a", "b2")), &["map_replace maps/path.map"]),
    ];
    for (change, ops) in table {
        let decided = after(|b| change(b.map("maps/path.map")));
        assert_eq!(short(&decided.ops), *ops, "{:?}", decided.reasons);
        let verdict = if ops.is_empty() { Verdict::FileOnly } else { Verdict::Runtime };
        assert_eq!(decided.verdict, verdict);
        assert_eq!(decided.changed_files, [path("maps/path.map")]);
    }
    reload(&after(|b| b.map("maps/path.map").push(("/d", ""))), ReasonCode::UnsafeToken, "lacks a key or a value");
}

#[test]
fn rule_5_ordered_maps_keep_their_order() {
    type Change = fn(&mut Vec<(&'static str, &'static str)>);
    let table: &[(Change, &[&str])] = &[
        (|m| m.push(("/d", "b1")), &["map_add maps/regex.map /d b1"]),
        (|m| m[1].1 = "b1", &["map_set maps/regex.map /b b1"]),
        (
            |m| {
                m.remove(1);
            },
            &["map_del maps/regex.map /b"],
        ),
        (
            |m| {
                m.remove(0);
                m.push(("/d", "b1"));
            },
            &["map_add maps/regex.map /d b1", "map_del maps/regex.map /a"],
        ),
        (|m| m.insert(1, ("/d", "b1")), &["map_replace maps/regex.map"]),
        (|m| m.swap(0, 1), &["map_replace maps/regex.map"]),
        (|m| m[0].0 = "/d", &["map_replace maps/regex.map"]),
        (|m| m.push(("/a", "b2")), &["map_replace maps/regex.map"]),
    ];
    for (change, ops) in table {
        runtime(&after(|b| change(b.map("maps/regex.map"))), ops);
    }
}

#[test]
fn rule_5_a_map_that_is_not_loaded_is_only_written() {
    let old = Build::sample().plan();
    let mut next = Build::sample();
    next.map("maps/path.map").push(("/d", "b1"));
    let decided = with(&old, &next.plan(), (3, 4), &Inventory::default(), &BTreeSet::new(), false);
    assert_eq!(decided.verdict, Verdict::FileOnly);
    assert_eq!(decided.notes[0].code, ReasonCode::MapNotLoaded);
    reload(&after(|b| b.maps.truncate(1)), ReasonCode::FileRemoved, "maps/regex.map was removed");
}

#[test]
fn rule_6_certificates_and_their_lists() {
    runtime(&after(|b| b.file("ssl/a.pem", "renewed")), &["cert_set ssl/a.pem"]);
    runtime(&after(|b| b.file("ssl/ca.pem", "renewed")), &["ca_set ssl/ca.pem"]);
    let add = |b: &mut Build| {
        b.file("ssl/c.pem", "new");
        b.list.push(plan_build::entry("ssl/c.pem", "", &["c.test"]));
    };
    runtime(&after(add), &["cert_new ssl/c.pem", "list_add lists/l.list ssl/c.pem"]);
    let remove = |b: &mut Build| {
        b.files.retain(|(path, _)| path != "ssl/b.pem");
        b.list.retain(|entry| entry.certificate.as_str() != "ssl/b.pem");
    };
    runtime(&after(remove), &["list_del lists/l.list ssl/b.pem", "cert_del ssl/b.pem"]);
    let last_options = |b: &mut Build| b.list[1].options = "alpn h2".into();
    runtime(&after(last_options), &["list_del lists/l.list ssl/b.pem", "list_add lists/l.list ssl/b.pem"]);
    reload(&after(|b| b.list[0].options = "alpn h2".into()), ReasonCode::CrtListNotLoaded, "default certificate");
    let middle = |b: &mut Build| {
        b.file("ssl/c.pem", "new");
        b.list.insert(1, plan_build::entry("ssl/c.pem", "", &[]));
    };
    reload(&after(middle), ReasonCode::CrtListNotLoaded, "only adds at the end");
    let unknown = |b: &mut Build| b.list.push(plan_build::entry("ssl/none.pem", "", &[]));
    reload(&after(unknown), ReasonCode::CrtListNotLoaded, "ssl/none.pem is not loaded");
    reload(&after(|b| b.files.retain(|(path, _)| path != "ssl/a.pem")), ReasonCode::FileRemoved, "ssl/a.pem");
    reload(&after(|b| b.file("ssl/a.pem", &"x".repeat(20_000))), ReasonCode::FileReloadsOnChange, "20000 bytes");
}

#[test]
fn rule_6_a_server_brings_its_certificate() {
    let decided = after(|b| {
        b.file("ssl/client.pem", "new");
        b.add_server_with(0, "crt", Some("ssl/client.pem"));
    });
    assert_eq!(short(&decided.ops)[0], "cert_new ssl/client.pem");
    assert_eq!(decided.verdict, Verdict::Runtime);
    assert!(short(&decided.in_place_ops).is_empty(), "{:?}", decided.in_place_ops);
}

#[test]
fn rule_7_files() {
    reload(&after(|b| b.file("general/x.lua", "other")), ReasonCode::FileReloadsOnChange, "general/x.lua changed");
    reload(&after(|b| b.files.retain(|(path, _)| path != "general/x.lua")), ReasonCode::FileRemoved, "general/x.lua");
    let plain = after(|b| b.file("general/page.http", "other"));
    assert_eq!((plain.verdict, plain.changed_files), (Verdict::FileOnly, vec![path("general/page.http")]));
    let gone = after(|b| b.files.retain(|(path, _)| path != "general/page.http"));
    assert_eq!((gone.verdict, gone.removed_files), (Verdict::FileOnly, vec![path("general/page.http")]));
    assert_eq!(gone.notes.len(), 1);
}

#[test]
fn rule_7_text_that_no_record_explains_is_loaded() {
    reload(&after(|b| b.comment = "b1"), ReasonCode::UnexplainedText, "backend b1: its text changed");
    reload(&after(|b| b.preamble = "# generated"), ReasonCode::UnexplainedText, "outside of its sections");
    let order = after(|b| b.backends.reverse());
    assert_eq!(order.verdict, Verdict::FileOnly, "{order:?}");
}

#[test]
fn rule_8_too_much_is_a_reload() {
    let many = |b: &mut Build| {
        for number in 0..4_001 {
            b.backends[0].servers.push(plan_build::numbered(number));
        }
    };
    reload(&after(many), ReasonCode::TooManyOperations, "8002 runtime commands");
    let mut old = Build::sample();
    for number in 0..1_001 {
        old.backends[0].servers.push(plan_build::numbered(number));
    }
    reload(&run(&old, &Build::sample(), (3, 4)), ReasonCode::TooManyOperations, "more than 1000 servers");
    let mut next = Build::sample();
    next.backends.extend((0..50).map(|number| backend(&format!("n{number}"), "fast", vec![])));
    let decided = run(&Build::sample(), &next, (3, 0));
    assert_eq!(decided.reasons.len(), MAX_REASONS + 1);
    assert_eq!(decided.reasons.last().unwrap().message, "and 18 more");
}

#[test]
fn a_rename_creates_switches_and_removes_in_this_order() {
    let decided = after(|b| {
        b.backends.retain(|backend| &*backend.name != "b2");
        b.backends.push(backend("b3", "fast", vec![server("s1", 2)]));
        b.map("maps/path.map")[1].1 = "b3";
    });
    let expected = [
        "backend_add b3 fast",
        "server_add b3/s1 10.0.0.2:80 100",
        "enable b3/s1 health=false",
        "publish b3",
        "map_set maps/path.map /b b3",
        "unpublish b2",
        "server_del b2/s1",
        "backend_del b2",
    ];
    runtime(&decided, &expected);
    // The map names a backend that is not there in place, so it waits.
    assert!(decided.in_place_ops.is_empty(), "{:?}", decided.in_place_ops);
}

#[test]
fn in_place_operations_never_take_away_what_only_the_reload_replaces() {
    let decided = after(|b| {
        b.core("frontend http", "new text");
        b.backends[0].servers[0].weight = 7;
        b.backends[0].servers.push(server("s8", 8));
        b.backends[1].servers.clear();
        b.map("maps/path.map")[1].1 = "b1";
    });
    reload(&decided, ReasonCode::SectionChanged, "frontend http");
    let expected = [
        "weight b1/s1 7",
        "server_add b1/s8 10.0.0.8:80 100",
        "enable b1/s8 health=false",
        "state b2/s1 maint",
        "map_set maps/path.map /b b1",
    ];
    assert_eq!(short(&decided.in_place_ops), expected);
    assert!(matches!(decided.in_place_ops[3], Op::ServerSetState { state: ServerState::Maint, .. }));

    // One value needs a backend of the reload, or an entry goes while the frontends change: all maps wait.
    let waits = after_on((3, 0), |b| {
        b.backends.push(backend("b3", "fast", vec![]));
        b.map("maps/path.map").push(("/d", "b3"));
        b.map("maps/regex.map").push(("/d", "b1"));
    });
    assert!(waits.in_place_ops.is_empty(), "{:?}", waits.in_place_ops);
    let denies = after(|b| {
        b.core("frontend http", "new text");
        b.map("maps/path.map").remove(0);
    });
    assert!(denies.in_place_ops.is_empty(), "{:?}", denies.in_place_ops);
    // The new half of a replacement cannot come in place, so the old half stays.
    let replaced = after(|b| {
        b.backends[0].servers[0].address = plan_build::host("x.test");
        b.backends[0].servers.remove(1);
    });
    assert!(replaced.in_place_ops.is_empty(), "{:?}", replaced.in_place_ops);
}

#[test]
fn a_pending_reload_takes_the_change_along() {
    let old = Build::sample().plan();
    let mut next = Build::sample();
    next.backends[0].servers[0].weight = 7;
    let decided = with(&old, &next.plan(), (3, 4), &inventory(&old), &BTreeSet::new(), true);
    reload(&decided, ReasonCode::ReloadPending, "already pending");
    assert_eq!(short(&decided.in_place_ops), ["weight b1/s1 7"]);
}

#[test]
fn a_large_plan_gives_only_what_changed() {
    let mut big = Build::sample();
    for number in 0..5_000 {
        big.backends.push(backend(&format!("app{number:05}"), "fast", vec![server("s1", 1)]));
    }
    big.maps[0].2 = (0..5_000).map(|n| (&*format!("/path/{n:05}").leak(), "b1")).collect();
    let old = big.plan();
    let loaded = inventory(&old);
    let decided = |next: &Plan| with(&old, next, (3, 4), &loaded, &BTreeSet::new(), false);
    // As an agent sends it: no part is shared with the next plan.
    assert_eq!(decided(&old.clone()).verdict, Verdict::Noop);
    big.map("maps/path.map")[2_500].1 = "b2";
    big.backends[2_500].servers[0].weight = 3;
    assert_eq!(decided(&big.plan()).ops.len(), 2);
}
