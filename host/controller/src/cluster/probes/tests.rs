#![allow(clippy::unwrap_used, reason = "tests")]

use std::{net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::RwLock;
use prometheus_client::{metrics::counter::Counter, registry::Registry};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::advance,
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    bus::EventBus,
    clock::WallClock,
    commentator::{Commentator, History},
    events::{Correlation, Event, EventKind},
};

const MINUTE: Duration = Duration::from_mins(1);

/// `/healthz`, `/readyz` and `/livez`.
fn answers(health: &Health) -> (bool, bool, bool) {
    (health.healthz().ok, health.readyz().ok, health.livez().ok)
}

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn json_of((status, body): (u16, String)) -> (u16, Value) {
    (status, serde_json::from_str(&body).unwrap())
}

#[test]
fn the_stages_are_called_as_the_log_calls_them() {
    let labels: Vec<_> = Stage::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(labels[0], "Stage 1: Creating config management components");
    assert_eq!(labels[7], "Stage 8: Registering debug variables and updating health checker");
    for (index, stage) in Stage::ALL.into_iter().enumerate() {
        assert_eq!(usize::from(stage.number()), index + 1);
        assert!(labels[index].starts_with(&format!("Stage {}: ", index + 1)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_is_healthy_for_one_episode_that_retries_do_not_renew() {
    let health = Health::default();
    assert_eq!(answers(&health), (true, false, true));
    for number in 1..=4 {
        let iteration = health.iteration(number);
        iteration.stage(Stage::AcceptedConfig);
        assert_eq!(answers(&health), (true, false, true), "attempt {number}");
        advance(MINUTE).await;
        iteration.failed("the API server refuses");
    }
    let iteration = health.iteration(5);
    advance(MINUTE).await;
    assert!(health.healthz().ok, "exactly at its end");
    advance(Duration::from_secs(1)).await;
    assert_eq!(answers(&health), (false, false, true), "a restart does not help a start");
    iteration.serving();
    assert_eq!(answers(&health), (true, true, true));
}

#[tokio::test(start_paused = true)]
async fn a_reload_that_keeps_failing_never_takes_health_from_what_serves() {
    let health = Health::default();
    health.iteration(1).serving();
    for number in 2..40 {
        let reload = health.iteration(number);
        reload.stage(Stage::ResourceWatchers);
        advance(MINUTE * 4).await;
        assert_eq!(answers(&health), (true, true, true), "while it is tried");
        reload.failed("a template does not compile");
        assert_eq!(answers(&health), (true, true, true), "after it failed");
    }
    let report = health.healthz();
    assert_eq!(report.iterations[&39], "failed in Stage 3: Waiting for resource watchers: a template does not compile");
    assert_eq!(report.iterations[&1], "serving");
    advance(MINUTE * 60).await;
    assert_eq!(answers(&health), (true, true, true));
}

#[tokio::test(start_paused = true)]
async fn a_reload_that_hangs_is_told_and_the_one_that_serves_lives_on() {
    let health = Health::default();
    health.iteration(1).serving();
    let second = health.iteration(2);
    advance(MINUTE * 3).await;
    // A newer candidate displaces it, which is no new episode.
    let third = health.iteration(3);
    second.retired();
    third.stage(Stage::ResourceWatchers);
    advance(MINUTE * 3).await;
    assert_eq!(answers(&health), (false, true, true));
    let report = health.healthz();
    assert_eq!(report.iteration, Some(3));
    assert_eq!(report.stage, Some(Stage::ResourceWatchers));
    third.serving();
    health.iteration(4);
    assert_eq!(answers(&health), (true, true, true), "the next one has an episode of its own");
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_is_never_seen() {
    let health = Health::default();
    let first = health.iteration(1);
    first.serving();
    let second = health.iteration(2);
    assert_eq!(health.readyz().iteration, Some(1));
    second.serving();
    assert_eq!(health.readyz().iteration, Some(2));
    first.retired();
    assert_eq!(answers(&health), (true, true, true));
    assert!(!health.healthz().iterations.contains_key(&1));
    first.serving();
    assert!(!health.healthz().iterations.contains_key(&1), "what was retired says nothing any more");
}

#[tokio::test(start_paused = true)]
async fn a_dead_iteration_is_not_ready_and_costs_life_after_the_grace() {
    let health = Health::default();
    let first = health.iteration(1);
    first.serving();
    advance(MINUTE * 60).await;
    first.failed("the stage Deployer ended early");
    first.retired();
    assert_eq!(answers(&health), (true, false, true));
    assert!(health.healthz().reason.contains("the stage Deployer ended early"));
    let second = health.iteration(2);
    advance(MINUTE * 4).await;
    second.failed("again");
    health.iteration(3);
    assert_eq!(answers(&health), (true, false, true));
    advance(MINUTE * 2).await;
    assert_eq!(answers(&health), (false, false, false));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_lacks_what_it_requires_is_not_ready_and_alive() {
    let health = Health::default();
    health.require("door", Some("the key is missing".to_owned()));
    health.iteration(1).serving();
    let report = health.readyz();
    assert!(!report.ok && report.reason == "door: the key is missing", "{report:?}");
    assert!(health.livez().ok && health.healthz().ok);
    health.require("door", None);
    assert!(health.readyz().ok);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_told_to_end_is_not_ready_and_alive() {
    let health = Health::default();
    let iteration = health.iteration(1);
    iteration.serving();
    health.stop();
    assert_eq!(answers(&health), (true, false, true));
    iteration.retired();
    advance(MINUTE * 10).await;
    assert!(health.livez().ok, "it is ending; to kill it would cut its last work short");
}

#[tokio::test]
async fn probes_tell_stage_and_reasons() {
    let health = Health::default();
    let server = ProbeServer::bind(([127, 0, 0, 1], 0).into(), health.clone()).await.unwrap();
    let address = server.address();
    let end = CancellationToken::new();
    let serving = tokio::spawn(server.run(end.clone()));

    assert_eq!(json_of(get(address, "/healthz").await).0, 200);
    let iteration = health.iteration(3);
    iteration.stage(Stage::ResourceWatchers);
    iteration.component("ResourceWatcher", Some("waits for ingresses".to_owned()));
    let (status, body) = json_of(get(address, "/readyz").await);
    assert_eq!(status, 503);
    let expected = json!({
        "status": "unavailable",
        "reason": "no iteration serves",
        "iteration": 3,
        "stage": "Stage 3: Waiting for resource watchers",
        "components": { "ResourceWatcher": "waits for ingresses" },
        "iterations": { "3": "starting, Stage 3: Waiting for resource watchers" },
    });
    assert_eq!(body, expected);
    iteration.component("ResourceWatcher", None);
    iteration.serving();
    let (status, body) = json_of(get(address, "/readyz").await);
    assert_eq!((status, &body["status"]), (200, &json!("ok")));
    assert_eq!(body.get("components"), None);
    assert_eq!(json_of(get(address, "/livez").await).0, 200);
    assert_eq!(get(address, "/debug/vars").await.0, 404);

    end.cancel();
    serving.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_client_that_hangs_is_displaced_and_never_shuts_a_probe_out() {
    let hour = Duration::from_hours(1);
    let limits = server::Limits { connections: 3, head: hour, connection: hour };
    let server = ProbeServer::bind_within(limits, ([127, 0, 0, 1], 0).into(), Health::default()).await.unwrap();
    let address = server.address();
    let end = CancellationToken::new();
    let serving = tokio::spawn(server.run(end.clone()));
    let mut hanging = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /healthz").await.unwrap();
        hanging.push(stream);
    }
    assert_eq!(get(address, "/livez").await.0, 200);
    closed(&mut hanging[0]).await;
    // The others still get their answer.
    hanging[1].write_all(b" HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    hanging[1].read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    end.cancel();
    serving.await.unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_say_what_it_wants_is_let_go() {
    let moment = Duration::from_millis(1);
    for limits in [
        server::Limits { head: moment, connection: Duration::from_hours(1), connections: 1 },
        server::Limits { head: Duration::from_hours(1), connection: moment, connections: 1 },
    ] {
        let server = ProbeServer::bind_within(limits, ([127, 0, 0, 1], 0).into(), Health::default()).await.unwrap();
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        let end = CancellationToken::new();
        let serving = tokio::spawn(server.run(end.clone()));
        closed(&mut stream).await;
        end.cancel();
        serving.await.unwrap();
    }
}

/// Waits until the other side has closed the connection.
async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(MINUTE, stream.read_to_end(&mut rest)).await.expect("closed in time");
    assert!(read.is_err() || !rest.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&rest));
}

#[tokio::test]
async fn the_debug_server_is_for_this_machine_only() {
    let registry = Arc::new(RwLock::new(Registry::default()));
    let bind = |address: &str| {
        let address: SocketAddr = address.parse().unwrap();
        DebugServer::bind(address, Health::default(), History::default(), Debugged::default(), registry.clone())
    };
    for address in ["0.0.0.0:0", "[::]:0", "10.0.0.1:0"] {
        let error = bind(address).await.err().unwrap().to_string();
        assert!(error.contains("is not a loopback address; use one such as 127.0.0.1:6060"), "{error}");
    }
    assert!(bind("127.0.0.1:0").await.is_ok());
}

#[tokio::test]
async fn a_taken_address_is_named() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = ProbeServer::bind(address, Health::default()).await.err().unwrap().to_string();
    assert!(error.contains(&address.to_string()) && error.contains("its port is free"), "{error}");
}

#[tokio::test]
async fn debug_variables_are_those_of_the_iteration_that_registered_last() {
    let (health, debugged, bus) = (Health::default(), Debugged::default(), EventBus::new());
    let history = remembered(3).await;
    let mut registry = Registry::default();
    let counter = Counter::<u64>::default();
    registry.register("haptic_test", "A test", counter.clone());
    let registry = Arc::new(RwLock::new(registry));
    let address = ([127, 0, 0, 1], 0).into();
    let server = DebugServer::bind(address, health.clone(), history.clone(), debugged.clone(), registry.clone());
    let server = server.await.unwrap();
    let address = server.address();
    let metrics = MetricsServer::bind(([127, 0, 0, 1], 0).into(), registry).await.unwrap();
    let elsewhere = metrics.address();
    let end = CancellationToken::new();
    let servers = (tokio::spawn(server.run(end.clone())), tokio::spawn(metrics.run(end.clone())));

    health.iteration(1).stage(Stage::ConfigWatchers);
    let stage = "Stage 4: Waiting for config and credentials watchers";
    let before = json!({ "stage": stage, "iterations": { "1": format!("starting, {stage}") } });
    assert_eq!(json_of(get(address, "/debug/vars").await), (200, before));

    let _waiting = bus.subscribe("Deployer", &[EventKind::DriftPreventionTriggered]);
    bus.publish(Event::DriftPreventionTriggered { correlation: bus.correlate() });
    bus.start();
    let (leadership, heard) = tokio::sync::watch::channel(haptic_kubernetes::Leadership::Follower { holder: None });
    let variables = Variables::default()
        .leadership(heard)
        .mailboxes(bus.clone())
        .reconciliations(history)
        .with("epoch", || json!(7));
    debugged.register(1, variables);
    leadership.send_replace(haptic_kubernetes::Leadership::Leader { epoch: 7 });
    let (_, shown) = json_of(get(address, "/debug/vars").await);
    assert_eq!(shown["iteration"], 1);
    assert_eq!(shown["epoch"], 7);
    assert_eq!(shown["leadership"], json!({ "leads": true, "epoch": 7 }));
    assert_eq!(shown["mailboxes"], json!({ "Deployer": 1 }));
    assert_eq!(shown["lastReconciliation"], Value::Null);

    debugged.register(2, Variables::default());
    debugged.withdraw(1);
    assert_eq!(json_of(get(address, "/debug/vars").await).1["iteration"], 2);
    debugged.withdraw(2);
    assert_eq!(json_of(get(address, "/debug/vars").await).1.get("iteration"), None);

    let (status, events) = json_of(get(address, "/debug/events").await);
    assert_eq!((status, events["events"].as_array().unwrap().len()), (200, 3));
    assert_eq!(events["events"][0]["event"], "BecameLeaderEvent");
    let one = json_of(get(address, "/debug/events?correlation=r2").await).1;
    assert_eq!(one["events"].as_array().unwrap().len(), 1);
    assert_eq!(get(address, "/debug/events?correlation=x").await.0, 400);

    counter.inc();
    for address in [address, elsewhere] {
        let (status, text) = get(address, "/metrics").await;
        assert_eq!(status, 200);
        assert!(text.contains("haptic_test_total 1") && text.ends_with("# EOF\n"), "{text}");
    }
    assert_eq!(get(elsewhere, "/debug/vars").await.0, 404);
    end.cancel();
    servers.0.await.unwrap();
    servers.1.await.unwrap();
}

/// The history of a bus on which this many events were published.
async fn remembered(events: u64) -> History {
    let (bus, history) = (EventBus::new(), History::default());
    let commentator = Commentator::new(&bus, WallClock::fixed(0), history.clone());
    for number in 1..=events {
        bus.publish(Event::BecameLeader { correlation: Correlation(number), epoch: number });
        if number == 1 {
            bus.start();
        }
    }
    bus.close();
    commentator.run().await;
    history
}
