#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use haptic_kubernetes::{Effect, Jitter};
use haptic_store::{RawChange, RawKey, RawObject};
use haptic_wire::{API_VERSION, HaproxyState};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::{
    agent_port::Agent,
    events::Correlation,
    pod::Endpoint,
    testing::{Answering, FakeAgent, next, raw, render},
};

const PORT: u16 = 8443;

/// Updates as a test tells them; the real source is proved against a real API server.
struct Scripted(mpsc::Receiver<Update>);

impl PodUpdates for Scripted {
    async fn next(&mut self) -> Result<Update, SourceEnded> {
        match self.0.recv().await {
            Some(update) => Ok(update),
            // The API server is away.
            None => std::future::pending().await,
        }
    }
}

/// A running discovery, with an agent for every address.
struct World {
    bus: Arc<EventBus>,
    events: Subscription,
    fleet: Fleet,
    updates: mpsc::Sender<Update>,
    agents: Arc<Mutex<HashMap<String, FakeAgent>>>,
    registry: Registry,
    stop: CancellationToken,
    task: JoinHandle<Result<(), DiscoveryError>>,
}

impl World {
    async fn start() -> Self {
        let bus = EventBus::new();
        let events = bus.subscribe("test", &[EventKind::HAProxyPodsDiscovered]);
        bus.start();
        let agents: Arc<Mutex<HashMap<String, FakeAgent>>> = Arc::default();
        let known = agents.clone();
        let connect: Connect = Arc::new(move |endpoint: &Endpoint| {
            let Endpoint::Tls(address) = endpoint else { unreachable!("pods are asked over TLS") };
            let agent = known.lock().entry(address.to_string()).or_insert_with(FakeAgent::new).clone();
            Arc::new(agent) as Arc<dyn Agent>
        });
        let mut registry = Registry::default();
        let labels = BTreeMap::from([("app".to_owned(), "haproxy".to_owned())]);
        let source = SourceSettings::new(Jitter::new(|| 0.0));
        let metrics = DiscoveryMetrics::register(&mut registry);
        let settings = DiscoverySettings::new("shop", &labels, PORT, source, metrics).unwrap();
        // It connects to nothing: the updates of this test are scripted.
        let access = haptic_kubernetes::Access::Plain { url: "http://127.0.0.1:1".to_owned() };
        let client = haptic_kubernetes::connect(&access, Duration::from_secs(1)).await.unwrap();
        let api = Api::new(client, haptic_kubernetes::Limits::default());
        let stop = CancellationToken::new();
        let (discovery, fleet) = Discovery::new(&bus, api, settings, connect, stop.clone());
        let (updates, scripted) = mpsc::channel(8);
        let task = tokio::spawn(discovery.follow(Scripted(scripted)));
        Self { bus, events, fleet, updates, agents, registry, stop, task }
    }

    /// The agent at `10.0.0.LAST`.
    fn agent(&self, last: u8) -> FakeAgent {
        let address = SocketAddr::from(([10, 0, 0, last], PORT));
        self.agents.lock().entry(address.to_string()).or_insert_with(FakeAgent::new).clone()
    }

    async fn tell(&self, changes: Vec<RawChange>, synced: bool) {
        let changes = changes.into_iter().map(|change| (change, Effect::Changed)).collect();
        self.updates.send(Update { resource: "spec.podSelector".into(), changes, synced }).await.unwrap();
    }

    async fn list(&self, pods: &[Value]) {
        self.tell(pods.iter().map(upsert).collect(), true).await;
    }

    async fn change(&self, pod: &Value) {
        self.tell(vec![upsert(pod)], false).await;
    }

    /// What is published next: names and versions.
    async fn discovered(&mut self) -> Vec<(String, Option<(u16, u16)>)> {
        let Event::HAProxyPodsDiscovered { pods, .. } = next(&mut self.events).await else { unreachable!() };
        assert_eq!(pods, *self.fleet.pods().borrow(), "both ways say the same");
        pods.iter().map(|pod| (pod.name.to_string(), pod.haproxy)).collect()
    }

    /// Every pod was asked anew and nothing was published.
    async fn nothing_new(&mut self) {
        self.fleet.ask_again().answered().await;
        assert!(self.events.try_next().is_none());
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

fn pod(name: &str, last: u8) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": "shop", "name": name, "uid": format!("{name}-{last}") },
        "spec": { "containers": [
            { "name": "haproxy", "ports": [{ "containerPort": 80 }] },
            { "name": "agent", "ports": [{ "containerPort": PORT }] },
        ] },
        "status": {
            "phase": "Running",
            "podIP": format!("10.0.0.{last}"),
            "containerStatuses": [status("haproxy", 0), status("agent", 0)],
        },
    })
}

fn status(container: &str, restarts: u64) -> Value {
    let id = format!("containerd://{container}-{restarts}");
    json!({ "name": container, "containerID": id, "restartCount": restarts, "state": { "running": {} } })
}

fn with(mut pod: Value, pointer: &str, value: Value) -> Value {
    *pod.pointer_mut(pointer).unwrap() = value;
    pod
}

fn upsert(pod: &Value) -> RawChange {
    RawChange::Upsert(raw(pod))
}

fn gone(name: &str) -> RawChange {
    RawChange::Delete(RawKey { group: "".into(), kind: "Pod".into(), namespace: "shop".into(), name: name.into() })
}

fn known(name: &str) -> (String, Option<(u16, u16)>) {
    (name.to_owned(), Some((3, 2)))
}

fn unknown(name: &str) -> (String, Option<(u16, u16)>) {
    (name.to_owned(), None)
}

fn haproxy(minor: (u16, u16)) -> HaproxyState {
    let worker = haptic_wire::WorkerIdentity { pid: 1, start_ticks: 1 };
    HaproxyState { version: format!("{}.{}.1", minor.0, minor.1), minor, worker }
}

fn is_candidate(pod: &Value) -> bool {
    candidate::Candidate::of(&raw(pod) as &RawObject, PORT).is_some()
}

#[test]
fn a_pod_is_asked_when_it_has_an_address_and_its_agent_runs() {
    let good = pod("a", 1);
    assert!(is_candidate(&good));
    let ready = json!([{ "type": "Ready", "status": "False" }]);
    let mut not_ready = good.clone();
    not_ready["status"]["conditions"] = ready;
    assert!(is_candidate(&not_ready), "a pod is ready only after it serves");
    for phase in ["Failed", "Succeeded"] {
        assert!(!is_candidate(&with(good.clone(), "/status/phase", json!(phase))), "{phase}");
    }
    assert!(!is_candidate(&with(good.clone(), "/status/podIP", json!(""))));
    let mut ending = good.clone();
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(!is_candidate(&ending));
    let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
    assert!(!is_candidate(&with(good.clone(), "/status/containerStatuses/1/state", waiting.clone())));
    assert!(is_candidate(&with(good.clone(), "/status/containerStatuses/0/state", waiting.clone())));

    let mut sidecar = good.clone();
    sidecar["spec"]["containers"].as_array_mut().unwrap().pop();
    sidecar["spec"]["initContainers"] = json!([{ "name": "agent", "ports": [{ "containerPort": PORT }] }]);
    sidecar["status"]["containerStatuses"] = json!([status("haproxy", 0)]);
    assert!(!is_candidate(&sidecar));
    sidecar["status"]["initContainerStatuses"] = json!([status("agent", 0)]);
    assert!(is_candidate(&sidecar));

    let undeclared = with(good, "/spec/containers/1/ports", json!([]));
    assert!(is_candidate(&undeclared), "asking tells");
    let undeclared = with(undeclared, "/status/containerStatuses/1/state", waiting.clone());
    assert!(is_candidate(&undeclared));
    assert!(!is_candidate(&with(undeclared, "/status/containerStatuses/0/state", waiting)));
}

#[test]
fn labels_are_needed() {
    let settings = |labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect();
        let metrics = DiscoveryMetrics::register(&mut Registry::default());
        DiscoverySettings::new("shop", &labels, PORT, SourceSettings::new(Jitter::new(|| 0.0)), metrics)
    };
    let findings = settings(&[]).unwrap_err();
    assert!(findings[0].to_string().contains("matchLabels is empty"), "{findings:?}");
    assert!(findings[0].hint.is_some());
    assert!(settings(&[("app", "a b,c!")]).is_err(), "it would select something else");
    assert!(settings(&[("app.kubernetes.io/name", "haproxy"), ("tier", "edge")]).is_ok());
}

#[tokio::test(start_paused = true)]
async fn pods_are_published_by_name_with_their_versions() {
    let mut world = World::start().await;
    world.agent(2).alter(|state| state.haproxy = Some(haproxy((3, 4))));
    world.list(&[pod("b", 2), pod("a", 1)]).await;
    assert_eq!(world.discovered().await, [known("a"), ("b".to_owned(), Some((3, 4)))]);
    let pods = world.fleet.pods().borrow().clone();
    assert_eq!(&*pods[1].uid, "b-2");
    assert_eq!(pods[1].endpoint, Endpoint::Tls(([10, 0, 0, 2], PORT).into()));
    world.fleet.synced().wait_for(|synced| *synced).await.unwrap();

    // What differs in nothing that matters is no news.
    world.change(&with(pod("a", 1), "/status/phase", json!("Pending"))).await;
    world.nothing_new().await;
    world.tell(vec![gone("a")], false).await;
    assert_eq!(world.discovered().await, [("b".to_owned(), Some((3, 4)))]);
    world.tell(vec![gone("b")], false).await;
    assert_eq!(world.discovered().await, []);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_before_the_first_list_is_complete() {
    let mut world = World::start().await;
    world.tell(vec![upsert(&pod("a", 1))], false).await;
    let round = tokio::time::timeout(Duration::from_mins(5), world.fleet.ask_again().answered());
    assert!(round.await.is_err(), "a pod that is not listed yet may have seen a higher epoch");
    assert!(world.events.try_next().is_none());
    assert!(!*world.fleet.synced().borrow());
    world.list(&[]).await;
    assert_eq!(world.discovered().await, [known("a")]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_fleet_is_told_too() {
    let mut world = World::start().await;
    world.list(&[]).await;
    assert_eq!(world.discovered().await, []);
    world.fleet.synced().wait_for(|synced| *synced).await.unwrap();
    world.nothing_new().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_never_answers_delays_nobody_and_is_told_as_failed() {
    let mut world = World::start().await;
    world.agent(2).answer(Answering::Never);
    let before = Instant::now();
    world.list(&[pod("a", 1), pod("b", 2)]).await;
    assert_eq!(world.discovered().await, [known("a")]);
    assert!(before.elapsed() < Duration::from_secs(1));
    assert!(!*world.fleet.synced().borrow());

    assert_eq!(world.discovered().await, [known("a"), unknown("b")]);
    assert_eq!(before.elapsed().as_secs(), roster::PATIENCE.as_secs());
    assert!(*world.fleet.synced().borrow());
    assert!(world.metrics().contains(r#"haptic_haproxy_pods{state="silent"} 1"#), "{}", world.metrics());

    world.agent(2).answer(Answering::Normally);
    assert_eq!(world.discovered().await, [known("a"), known("b")]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_refuses_is_asked_again_soon_and_then_more_rarely() {
    let mut world = World::start().await;
    world.agent(1).answer(Answering::Refusing);
    world.list(&[pod("a", 1)]).await;
    assert_eq!(world.discovered().await, [unknown("a")]);
    // After 0, 0.2, 0.6, 1.4, 3, 6.2 s.
    assert_eq!(world.agent(1).questions(), 6);
    world.agent(1).answer(Answering::Normally);
    let before = Instant::now();
    assert_eq!(world.discovered().await, [known("a")]);
    assert!(before.elapsed() <= Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_admitted_stays_while_its_agent_is_away() {
    let mut world = World::start().await;
    world.list(&[pod("a", 1)]).await;
    assert_eq!(world.discovered().await, [known("a")]);
    world.agent(1).answer(Answering::Refusing);
    world.nothing_new().await;
    world.agent(1).answer(Answering::Normally);
    world.agent(1).alter(|state| state.haproxy = None);
    world.nothing_new().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_same_name_with_another_uid_is_another_pod() {
    let mut world = World::start().await;
    world.list(&[pod("a", 1)]).await;
    assert_eq!(world.discovered().await, [known("a")]);
    world.agent(2).answer(Answering::Never);
    world.change(&pod("a", 2)).await;
    assert_eq!(world.discovered().await, [], "what the old one said is not true of the new one");
    assert_eq!(world.discovered().await, [unknown("a")]);
    world.agent(2).answer(Answering::Normally);
    assert_eq!(world.discovered().await, [known("a")]);
    assert_eq!(&*world.fleet.pods().borrow()[0].uid, "a-2");
}

#[tokio::test(start_paused = true)]
async fn a_restarted_container_is_asked_again_and_keeps_its_place_meanwhile() {
    let mut world = World::start().await;
    world.list(&[pod("a", 1)]).await;
    assert_eq!(world.discovered().await, [known("a")]);
    world.agent(1).alter(|state| state.haproxy = Some(haproxy((3, 4))));
    world.change(&with(pod("a", 1), "/status/containerStatuses/0", status("haproxy", 1))).await;
    assert_eq!(world.discovered().await, [("a".to_owned(), Some((3, 4)))]);
}

#[tokio::test(start_paused = true)]
async fn every_drift_pass_asks_again() {
    let mut world = World::start().await;
    world.list(&[pod("a", 1)]).await;
    assert_eq!(world.discovered().await, [known("a")]);
    world.agent(1).alter(|state| state.haproxy = Some(haproxy((3, 4))));
    world.bus.publish(Event::DriftPreventionTriggered { correlation: Correlation(1) });
    assert_eq!(world.discovered().await, [("a".to_owned(), Some((3, 4)))]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_running_haproxy_is_admitted_and_its_version_is_learnt_after_the_first_deployment() {
    let mut world = World::start().await;
    world.agent(1).alter(|state| state.haproxy = None);
    world.list(&[pod("a", 1)]).await;
    assert_eq!(world.discovered().await, [unknown("a")]);
    assert!(*world.fleet.synced().borrow(), "it answered");
    world.agent(1).alter(|state| state.haproxy = Some(haproxy((3, 0))));
    let before = Instant::now();
    let render = render(1, "global\n");
    world.bus.publish(Event::DeploymentCompleted { correlation: Correlation(1), render, reports: [].into() });
    assert_eq!(world.discovered().await, [("a".to_owned(), Some((3, 0)))]);
    assert_eq!(before.elapsed(), Duration::ZERO, "no pause was waited for");
}

#[tokio::test(start_paused = true)]
async fn too_old_haproxies_and_other_apis_are_turned_away_once() {
    let mut world = World::start().await;
    world.agent(1).alter(|state| state.haproxy = Some(haproxy((2, 8))));
    world.agent(2).alter(|state| state.api_version = API_VERSION + 1);
    world.list(&[pod("a", 1), pod("b", 2), pod("c", 3)]).await;
    assert_eq!(world.discovered().await, [known("c")]);
    world.nothing_new().await;
    let metrics = world.metrics();
    for reason in ["haproxy_version", "api_version"] {
        assert!(metrics.contains(&format!(r#"rejected_total{{reason="{reason}"}} 1"#)), "{metrics}");
    }
    let rejected: Vec<_> = world.fleet.rejected().borrow().iter().map(|pod| pod.name.to_string()).collect();
    assert_eq!(rejected, ["a", "b"]);
    // Another image in the same pod.
    world.agent(1).alter(|state| state.haproxy = Some(haproxy((3, 0))));
    world.change(&with(pod("a", 1), "/status/containerStatuses/0", status("haproxy", 1))).await;
    assert_eq!(world.discovered().await, [("a".to_owned(), Some((3, 0))), known("c")]);
    assert_eq!(world.fleet.rejected().borrow().len(), 1);
}

#[test]
fn a_rejection_says_what_to_do() {
    let old = roster::Rejection::OldHaproxy("2.8.9".to_owned());
    assert_eq!(
        old.to_string(),
        "its HAProxy is 2.8.9, and 3.0 is the oldest that haptic configures; run a newer HAProxy image in the pod"
    );
    let other = roster::Rejection::OtherApi(2).to_string();
    assert!(other.contains("run agent and controller of one release"), "{other}");
}

#[tokio::test(start_paused = true)]
async fn the_highest_epoch_is_read_again_on_demand_and_never_falls() {
    let mut world = World::start().await;
    world.agent(1).alter(|state| state.token.leader_epoch = 7);
    world.list(&[pod("a", 1), pod("b", 2)]).await;
    assert_eq!(world.discovered().await, [known("a"), known("b")]);
    assert_eq!(*world.fleet.seen_epoch().borrow(), 7);

    world.agent(2).alter(|state| state.token.leader_epoch = 9);
    world.agent(1).answer(Answering::Never);
    world.fleet.ask_again().answered().await;
    assert_eq!(*world.fleet.seen_epoch().borrow(), 9, "also when another pod hangs");
    world.agent(2).alter(|state| state.token.leader_epoch = 3);
    world.fleet.ask_again().answered().await;
    assert_eq!(*world.fleet.seen_epoch().borrow(), 9);
}

#[tokio::test(start_paused = true)]
async fn while_the_api_server_is_away_nothing_is_withdrawn() {
    let mut world = World::start().await;
    world.list(&[pod("a", 1)]).await;
    assert_eq!(world.discovered().await, [known("a")]);
    drop(std::mem::replace(&mut world.updates, mpsc::channel(1).0));
    world.nothing_new().await;
    assert_eq!(world.fleet.pods().borrow().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_token_or_with_the_bus() {
    let world = World::start().await;
    world.stop.cancel();
    world.task.await.unwrap().unwrap();
    // Nobody answers any more, and nobody waits for ever.
    world.fleet.ask_again().answered().await;

    let world = World::start().await;
    world.bus.close();
    world.task.await.unwrap().unwrap();
}
