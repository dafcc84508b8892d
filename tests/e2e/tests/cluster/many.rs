//! Five thousand routes that are there before the controllers are.

use anyhow::{Context as _, Result};
use haptic_e2e::{
    cluster::{DEPLOYMENT, POD},
    exclusive, get, tls,
};
use serde_json::Value;

use haptic_e2e::cluster::served::{AGENT, HAPROXY, HAPTIC, HTTP, Served, route};

const ROUTES: usize = 5_000;

fn host(number: usize) -> String {
    format!("many-{number}.localhost")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_routes_at_the_start_are_one_deployment() -> Result<()> {
    let _turn = exclusive().await;
    let asleep = |object: &mut Value| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if object["kind"] == "Deployment" && (name == "haptic" || name == "haproxy") {
            object["spec"]["replicas"] = 0.into();
        }
    };
    let served = Served::apply("many", &asleep).await?;
    let room = &served.room;
    let address = |pods: &[&Value]| pods.first()?["status"]["podIP"].as_str().map(str::to_owned);
    let backend = room.objects.until_all((POD, room.shop(), "app=web"), "a pod of web", address).await?;
    let routes = (0..ROUTES).flat_map(|number| {
        route(&format!("many-{number}"), &host(number), room.shop(), room.ingress_class(), &backend)
    });
    room.objects.create_all(routes.collect()).await?;
    let steady = |deployment: &Value| (deployment["status"]["readyReplicas"] == 2).then_some(());
    for name in ["web", "api"] {
        // Changes of other endpoints would be deployments of their own.
        room.objects.until((DEPLOYMENT, room.shop(), name), "its pods to be ready", steady).await?;
    }

    room.scale("haproxy", 1).await?;
    room.scale("haptic", 2).await?;
    let pods = room.ready_pods(HAPROXY, 1).await?;
    let pod = pods.first().context("it was waited for")?;
    let door = room.passage(pod, HTTP).await?;
    for number in (0..ROUTES).step_by(250).chain([ROUTES - 1]) {
        let answer = get(door.address(), &host(number), "/").await?;
        assert!(answer.pod().is_some_and(|name| name.starts_with("web-")), "{}: {answer:?}", host(number));
    }
    let controllers = room.ready_pods(HAPTIC, 2).await?;
    let mut deployments = Vec::new();
    for controller in controllers {
        let log = room.log(&controller.name, "haptic");
        let lines = log.lines().filter(|line| line.contains("haptic::reconciliation"));
        deployments.extend(lines.filter(|line| !line.contains(r#""mode":"noop""#)).map(str::to_owned));
    }
    assert_eq!(deployments.len(), 1, "{deployments:#?}");
    let agent = room.passage(pod, AGENT).await?;
    let state = tls::get_as(agent.address(), &served.credentials.controller, "/v1/state?plan=0").await?;
    let state: Value = serde_json::from_str(&state.body).context("read the agent's state")?;
    assert_eq!(state["reloads"], 0, "HAProxy was started with all of it: {state}");
    served.room.close().await
}
