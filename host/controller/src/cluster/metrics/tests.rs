#![allow(clippy::unwrap_used, reason = "tests")]

use std::{sync::Arc, time::Duration};

use haptic_model::{Finding, FindingCode};
use prometheus_client::{encoding::text, registry::Registry};
use tokio::{sync::watch, time::advance};

use crate::{
    bus::EventBus,
    cluster::{
        metrics::{ClusterMetrics, Reinitialized},
        standing::{ConfigStanding, Refused, Served},
    },
    core::ActiveCore,
    events::{Event, EventKind},
    metrics::Metrics,
    testing::core,
};

struct Scene {
    registry: Registry,
    metrics: ClusterMetrics,
    standing: watch::Sender<Arc<ConfigStanding>>,
}

impl Scene {
    fn new() -> Self {
        let mut registry = Registry::default();
        let standing: watch::Sender<Arc<ConfigStanding>> = watch::Sender::default();
        let stages = Metrics::register(&mut registry);
        let metrics = ClusterMetrics::register(&mut registry, stages, standing.subscribe());
        Self { registry, metrics, standing }
    }

    fn has(&self, line: &str) {
        let mut encoded = String::new();
        text::encode(&mut encoded, &self.registry).unwrap();
        assert!(encoded.lines().any(|found| found == line), "no line `{line}` in:\n{encoded}");
    }
}

#[tokio::test(start_paused = true)]
async fn terms_are_counted_and_their_time_goes_on_over_them() {
    let scene = Scene::new();
    scene.has("haptic_leader_election_is_leader 0");
    scene.has("haptic_leader_election_time_as_leader_seconds_total 0.0");
    scene.metrics.leads(7);
    advance(Duration::from_secs(3)).await;
    // A higher epoch within a term is no other term.
    scene.metrics.leads(8);
    scene.has("haptic_leader_election_is_leader 1");
    scene.has("haptic_leader_election_time_as_leader_seconds_total 3.0");
    scene.metrics.leads_no_more();
    advance(Duration::from_secs(100)).await;
    scene.metrics.leads(9);
    advance(Duration::from_secs(1)).await;
    scene.metrics.leads_no_more();
    scene.metrics.leads_no_more();
    scene.has("haptic_leader_election_is_leader 0");
    scene.has("haptic_leader_election_transitions_total 2");
    scene.has("haptic_leader_election_time_as_leader_seconds_total 4.0");
    scene.has("haptic_leader_election_epoch 9");
}

#[test]
fn the_configuration_stands_as_its_condition_says() {
    let scene = Scene::new();
    scene.has("haptic_config_validated{status=\"Unknown\",reason=\"Pending\"} 1");
    let serving = Some(Served { generation: 1, warnings: [].into() });
    scene.standing.send_replace(Arc::new(ConfigStanding { serving, ..ConfigStanding::default() }));
    scene.has("haptic_config_validated{status=\"True\",reason=\"Accepted\"} 1");
    let findings = [Finding::error(FindingCode::RefusedByHAProxy, "unknown keyword")].into();
    let refused = Some(Refused { generation: 2, findings });
    scene.standing.send_modify(|standing| Arc::make_mut(standing).refused = refused);
    scene.has("haptic_config_validated{status=\"False\",reason=\"HAProxyValidationFailed\"} 1");
}

#[test]
fn objects_are_those_of_the_iteration_that_serves() {
    let scene = Scene::new();
    scene.metrics.serves(2, ActiveCore::new(Arc::new(core("global\n"))));
    scene.has("haptic_resource_count{type=\"services\"} 0");
    scene.has("haptic_resource_bytes{type=\"services\"} 0");
    // An iteration that ends late takes nothing from the one after it.
    scene.metrics.withdraw(1);
    scene.has("haptic_resource_count{type=\"services\"} 0");
    scene.metrics.withdraw(2);
    scene.has("# TYPE haptic_resource_count gauge");
    scene.has("# TYPE haptic_resource_bytes gauge");
    scene.metrics.reinitialized(Reinitialized::GivenUp);
    scene.has("haptic_controller_reinitializations_total{result=\"given_up\"} 1");
}

#[tokio::test]
async fn queues_of_all_iterations_are_told_together_and_counts_outlive_them() {
    let scene = Scene::new();
    let [first, second] = [(); 2].map(|()| EventBus::counted(&scene.metrics.buses));
    let kinds = [EventKind::IndexSynchronized];
    let waiting = [&first, &second].map(|bus| {
        bus.start();
        let subscription = bus.subscribe("Reconciler", &kinds);
        bus.publish(Event::IndexSynchronized { correlation: bus.correlate() });
        subscription
    });
    scene.has("haptic_component_mailbox_depth{component=\"Reconciler\"} 2");
    scene.has("haptic_event_subscribers 2");
    drop(waiting);
    second.close();
    drop(second);
    scene.has("haptic_event_subscribers 1");
    scene.has("haptic_events_published_total{event=\"IndexSynchronizedEvent\"} 2");
}
