//! Runtime operations are effective, in the very same worker.

use haptic_model::{CrtListEntry, FileKind, Keyword, Mode, Op, ReasonCode, ServerState};
use haptic_wire::WorkerIdentity;

use crate::common::{Pod, Set, VERSIONS, backend, certificate, echo, path, until};

async fn serving(version: &str) -> (Pod, Set, WorkerIdentity) {
    let mut pod = Pod::new(version).await;
    let (one, two) = (echo("one").await, echo("two").await);
    let backends = format!("{}{}", backend("be_one", &[("s1", one)]), backend("be_two", &[("s1", two)]));
    let set = Set::new(&pod, &backends, "one.test be_one\n");
    let result = pod.reload(&set).await;
    assert!(result.ok, "{result:?}");
    let worker = result.worker.unwrap();
    (pod, set, worker)
}

fn name(text: &str) -> std::sync::Arc<str> {
    text.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_added_changed_and_deleted_in_the_same_worker() {
    for version in VERSIONS {
        let (mut pod, set, worker) = serving(version).await;
        let three = echo("three").await;
        let (b, s) = (name("be_one"), name("s2"));
        let add = Op::ServerAdd {
            backend: b.clone(),
            server: s.clone(),
            address: three.ip(),
            port: three.port(),
            weight: 1,
            keywords: vec![Keyword::flag("check"), Keyword::with("inter", "1s")],
        };
        let enable = Op::ServerEnable { backend: b.clone(), server: s.clone(), health: true };
        let drain = Op::ServerSetState { backend: b.clone(), server: name("s1"), state: ServerState::Drain };
        let next = set.with("note.txt", FileKind::General, "added");
        let result = pod.run(&next, vec![add, enable, drain]).await;
        assert!(result.ok && result.mode == Mode::Runtime && result.ops_run == 3, "{version}: {result:?}");
        assert_eq!(result.worker, Some(worker), "{version}");
        assert_eq!(pod.get("one.test").await, "three", "{version}");

        let four = echo("four").await;
        let readdress =
            Op::ServerSetAddr { backend: b.clone(), server: s.clone(), address: four.ip(), port: four.port() };
        let weigh = Op::ServerSetWeight { backend: b.clone(), server: s.clone(), weight: 77 };
        let result = pod.run(&set.with("note.txt", FileKind::General, "changed"), vec![readdress, weigh]).await;
        assert!(result.ok && result.mode == Mode::Runtime, "{version}: {result:?}");
        assert_eq!(pod.get("one.test").await, "four", "{version}");
        assert!(pod.ask("show servers state be_one").await.contains(" 77 "), "{version}");

        let ready = Op::ServerSetState { backend: b.clone(), server: name("s1"), state: ServerState::Ready };
        let delete = Op::ServerDel { backend: b, server: s };
        let result = pod.run(&set, vec![ready, delete]).await;
        assert!(result.ok && result.mode == Mode::Runtime, "{version}: {result:?}");
        assert_eq!(pod.get("one.test").await, "one", "{version}");
        until("the server is deleted", async || !pod.ask("show servers state be_one").await.contains(" s2 ")).await;
        until("nothing waits to be deleted", async || pod.state().await.pending_deletes.is_empty()).await;
        assert_eq!(pod.state().await.haproxy.unwrap().worker, worker, "{version}");
        assert_eq!(pod.state().await.reloads, 0, "{version}: the first load is a start");
        pod.assert_on_disk(&set);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn map_entries_are_added_set_deleted_and_replaced() {
    for version in VERSIONS {
        let (mut pod, set, worker) = serving(version).await;
        let hosts = path("maps/hosts.map");
        let with_hosts = |text: &str| set.with("maps/hosts.map", FileKind::Map, text);

        let add = Op::MapAdd { map: hosts.clone(), key: name("two.test"), value: name("be_two") };
        let result = pod.run(&with_hosts("one.test be_one\ntwo.test be_two\n"), vec![add]).await;
        assert!(result.ok && result.mode == Mode::Runtime, "{version}: {result:?}");
        assert_eq!(pod.get("two.test").await, "two", "{version}");

        // A key that is there already, as after a lost answer, must not become a duplicate that loses.
        let again = Op::MapAdd { map: hosts.clone(), key: name("two.test"), value: name("be_one") };
        let result = pod.run(&with_hosts("one.test be_one\ntwo.test be_one\n"), vec![again]).await;
        assert!(result.ok, "{version}: {result:?}");
        assert_eq!(pod.get("two.test").await, "one", "{version}");
        assert_eq!(pod.ask("show map maps/hosts.map").await.matches("two.test").count(), 1, "{version}");

        let change = Op::MapSet { map: hosts.clone(), key: name("two.test"), value: name("be_two") };
        let result = pod.run(&with_hosts("one.test be_one\ntwo.test be_two\n# again\n"), vec![change]).await;
        assert!(result.ok, "{version}: {result:?}");
        assert_eq!(pod.get("two.test").await, "two", "{version}");

        let delete = Op::MapDel { map: hosts.clone(), key: name("two.test") };
        let result = pod.run(&set, vec![delete]).await;
        assert!(result.ok, "{version}: {result:?}");
        assert_eq!(pod.get("two.test").await, "none", "{version}");

        let mut many = (0..2000).map(|number| format!("host-{number}.test be_two")).collect::<Vec<_>>().join("\n");
        many.push('\n');
        let result = pod.run(&with_hosts(&many), vec![Op::MapReplace { map: hosts.clone() }]).await;
        assert!(result.ok && result.mode == Mode::Runtime, "{version}: {result:?}");
        assert_eq!(pod.get("host-1999.test").await, "two", "{version}");
        assert_eq!(pod.get("one.test").await, "none", "{version}");
        assert_eq!(pod.ask("show map maps/hosts.map").await.lines().count(), 2000, "{version}");
        assert_eq!(pod.state().await.haproxy.unwrap().worker, worker, "{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_rotated_added_and_removed() {
    for version in VERSIONS {
        let (mut pod, set, worker) = serving(version).await;
        let serial = |text: &str| text.lines().find(|line| line.starts_with("Serial:")).unwrap().to_owned();
        let before = serial(&pod.ask("show ssl cert ssl/default.pem").await);
        let rotated = set.with("ssl/default.pem", FileKind::Cert, certificate("default.test"));
        let result = pod.run(&rotated, vec![Op::CertSet { certificate: path("ssl/default.pem") }]).await;
        assert!(result.ok && result.mode == Mode::Runtime, "{version}: {result:?}");
        assert_ne!(serial(&pod.ask("show ssl cert ssl/default.pem").await), before, "{version}");

        let entry = CrtListEntry {
            certificate: path("ssl/new.pem"),
            options: name("alpn h2,http/1.1"),
            sni: vec![name("new.test")],
        };
        let list = "ssl/default.pem\nssl/new.pem [alpn h2,http/1.1] new.test\n";
        let more = rotated.with("ssl/new.pem", FileKind::Cert, certificate("new.test")).with(
            "lists/certs.list",
            FileKind::CrtList,
            list,
        );
        let ops = vec![
            Op::CertNew { certificate: path("ssl/new.pem") },
            Op::CrtListAdd { list: path("lists/certs.list"), entry },
        ];
        let result = pod.run(&more, ops).await;
        assert!(result.ok && result.mode == Mode::Runtime, "{version}: {result:?}");
        assert!(result.inventory.unwrap().certificates.contains(&path("ssl/new.pem")), "{version}");
        assert!(pod.ask("show ssl crt-list -n lists/certs.list").await.contains("new.test"), "{version}");
        assert!(pod.ask("show ssl cert ssl/new.pem").await.contains("Status: Used"), "{version}");

        let ops = vec![
            Op::CrtListDel { list: path("lists/certs.list"), certificate: path("ssl/new.pem") },
            Op::CertDel { certificate: path("ssl/new.pem") },
        ];
        let result = pod.run(&rotated, ops).await;
        assert!(result.ok && result.mode == Mode::Runtime, "{version}: {result:?}");
        assert!(!result.inventory.unwrap().certificates.contains(&path("ssl/new.pem")), "{version}");
        assert_eq!(pod.state().await.haproxy.unwrap().worker, worker, "{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_haproxy_refuses_leaves_no_transaction_behind() {
    let (mut pod, set, _) = serving("3.4").await;
    let broken = set.with("ssl/default.pem", FileKind::Cert, "no certificate\n");
    let result = pod.run(&broken, vec![Op::CertSet { certificate: path("ssl/default.pem") }]).await;
    assert!(!result.ok && result.rolled_back, "{result:?}");
    assert!(result.reasons.iter().any(|reason| reason.code == ReasonCode::RuntimeRefused), "{result:?}");
    let error = result.error.unwrap();
    assert!(error.contains("ssl/default.pem"), "HAProxy's own words name the file: {error}");
    pod.assert_on_disk(&set);
    let good = set.with("ssl/default.pem", FileKind::Cert, certificate("default.test"));
    let result = pod.run(&good, vec![Op::CertSet { certificate: path("ssl/default.pem") }]).await;
    assert!(result.ok && result.mode == Mode::Runtime, "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ca_file_is_replaced() {
    for version in VERSIONS {
        let (mut pod, set, worker) = serving(version).await;
        let only_certificate =
            |pem: &str| pem.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap().to_owned();
        let config = set
            .text("haproxy.cfg")
            .replace("crt-list lists/certs.list", "crt-list lists/certs.list ca-file ssl/ca.pem verify optional");
        let with_ca = set.with("haproxy.cfg", FileKind::Config, config).with(
            "ssl/ca.pem",
            FileKind::Ca,
            only_certificate(&certificate("ca.test")),
        );
        let result = pod.reload(&with_ca).await;
        assert!(result.ok && result.mode == Mode::Reload, "{version}: {result:?}");
        assert_ne!(result.worker, Some(worker), "{version}");
        assert_eq!(result.inventory.as_ref().unwrap().ca_files, [path("ssl/ca.pem")], "{version}");
        let subject = "other-ca.test";
        let next = with_ca.with("ssl/ca.pem", FileKind::Ca, only_certificate(&certificate(subject)));
        let before = pod.ask("show ssl ca-file ssl/ca.pem").await;
        let result = pod.run(&next, vec![Op::CaSet { file: path("ssl/ca.pem") }]).await;
        assert!(result.ok && result.mode == Mode::Runtime, "{version}: {result:?}");
        let after = pod.ask("show ssl ca-file ssl/ca.pem").await;
        let serial = |text: &str| text.lines().find(|line| line.starts_with("Serial:")).map(str::to_owned);
        assert!(serial(&after).is_some() && serial(&after) != serial(&before), "{version}: {after}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_backend_comes_and_goes_at_run_time_on_3_4() {
    let (mut pod, set, worker) = serving("3.4").await;
    let new = echo("new").await;
    let config = format!("{}{}", set.text("haproxy.cfg"), backend("be_new", &[("s1", new)]));
    let next = set.with("haproxy.cfg", FileKind::Config, config).with(
        "maps/hosts.map",
        FileKind::Map,
        "one.test be_one\nnew.test be_new\n",
    );
    let hosts = path("maps/hosts.map");
    let (b, s) = (name("be_new"), name("s1"));
    let ops = vec![
        Op::BackendAdd { name: b.clone(), profile: name("web"), mode: haptic_model::ProxyMode::Http },
        Op::ServerAdd {
            backend: b.clone(),
            server: s.clone(),
            address: new.ip(),
            port: new.port(),
            weight: 1,
            keywords: Vec::new(),
        },
        Op::ServerEnable { backend: b.clone(), server: s.clone(), health: false },
        Op::BackendPublish { name: b.clone() },
        Op::MapAdd { map: hosts.clone(), key: name("new.test"), value: b.clone() },
    ];
    let result = pod.run(&next, ops).await;
    assert!(result.ok && result.mode == Mode::Runtime, "{result:?}");
    assert_eq!(pod.get("new.test").await, "new");

    let ops = vec![
        Op::MapDel { map: hosts, key: name("new.test") },
        Op::BackendUnpublish { name: b.clone() },
        Op::ServerDel { backend: b.clone(), server: s },
        Op::BackendDel { name: b },
    ];
    let result = pod.run(&set, ops).await;
    assert!(result.ok && result.mode == Mode::Runtime, "{result:?}");
    assert_eq!(pod.get("new.test").await, "none");
    until("the backend is deleted", async || !pod.ask("show backend").await.contains("be_new")).await;
    until("nothing waits to be deleted", async || pod.state().await.pending_deletes.is_empty()).await;
    assert_eq!(pod.state().await.haproxy.unwrap().worker, worker);
    assert_eq!(pod.state().await.reloads, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_operation_falls_back_to_one_reload_of_the_same_set() {
    for version in ["3.0", "3.4"] {
        let (mut pod, set, worker) = serving(version).await;
        let three = echo("three").await;
        let config = format!("{}{}", set.text("haproxy.cfg"), backend("be_three", &[("s1", three)]));
        let next = set.with("haproxy.cfg", FileKind::Config, config).with(
            "maps/hosts.map",
            FileKind::Map,
            "three.test be_three\n",
        );
        // No such backend runs, so HAProxy refuses; the words of a map entry are not one token.
        let bad = Op::ServerSetWeight { backend: name("be_three"), server: name("s1"), weight: 5 };
        let result = pod.run(&next, vec![bad]).await;
        assert!(result.ok && result.mode == Mode::Reload, "{version}: {result:?}");
        assert!(result.reasons.iter().any(|reason| reason.code == ReasonCode::RuntimeRefused), "{version}: {result:?}");
        assert_ne!(result.worker, Some(worker), "{version}");
        assert_eq!(pod.get("three.test").await, "three", "{version}");
        assert_eq!(pod.state().await.reloads, 1, "{version}");

        let unsafe_op = Op::MapAdd { map: path("maps/hosts.map"), key: name("a b;c"), value: name("be_one") };
        let result = pod.run(&next.with("note.txt", FileKind::General, "x"), vec![unsafe_op]).await;
        assert!(result.ok && result.mode == Mode::Reload, "{version}: {result:?}");
        assert!(result.reasons[0].message.contains("cannot stand in a runtime command"), "{version}: {result:?}");
    }
}
