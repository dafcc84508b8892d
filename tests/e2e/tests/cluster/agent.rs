//! An HAProxy pod with its agent, without a controller.

use anyhow::{Context as _, Result};
use haptic_e2e::{
    cluster::{Credentials, DEPLOYMENT, POD, Room},
    eventually, exclusive, get, tls,
};
use serde_json::Value;

const HAPROXY: &str = "app.kubernetes.io/name=haproxy";
const VERSIONS: [&str; 3] = ["3.0", "3.2", "3.4"];

/// The example's HAProxy pods, with the image of this version.
async fn run_haproxy(room: &Room, version: &str, replicas: u32) -> Result<()> {
    let mut objects = room.example("cluster/haproxy.yaml")?;
    for object in &mut objects {
        if object["kind"] == "Deployment" {
            object["spec"]["replicas"] = replicas.into();
            object["spec"]["template"]["spec"]["containers"][0]["image"] = format!("haptic-haproxy:{version}").into();
        }
    }
    room.apply(&objects).await
}

fn running(pod: &Value) -> Option<()> {
    let container = &pod["status"]["containerStatuses"][0];
    (container["started"] == true && !container["state"]["running"].is_null()).then_some(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_not_ready_before_an_apply_and_know_the_controller_from_others() -> Result<()> {
    let _turn = exclusive().await;
    let room = Room::open("agent").await?;
    room.apply(&room.example("cluster/namespaces.yaml")?).await?;
    let credentials = room.issue_credentials().await?;
    for version in VERSIONS {
        run_haproxy(&room, version, 1).await?;
        let one_runs = |pods: &[&Value]| match pods {
            [pod] if pod["spec"]["containers"][0]["image"].as_str()?.ends_with(version) => running(pod),
            _ => None,
        };
        room.objects.until_all((POD, room.system(), HAPROXY), "one HAProxy pod that runs", one_runs).await?;
        let pods = room.pods(HAPROXY).await?;
        let pod = pods.first().context("it was waited for")?;

        let probes = room.passage(pod, 5557).await?;
        let ask = |path: &'static str| {
            let address = probes.address();
            async move { get(address, "probes", path).await }
        };
        let alive = eventually("an answer of /healthz", async || ask("/healthz").await.ok()).await;
        assert_eq!(alive.status, 200, "{alive:?}");
        assert_eq!(ask("/readyz").await?.status, 503, "nothing was applied");

        let agent = room.passage(pod, 5555).await?;
        let state = tls::get_as(agent.address(), &credentials.controller, "/v1/state").await?;
        let said: Value = serde_json::from_str(&state.body).with_context(|| format!("{state:?}"))?;
        assert_eq!((state.status, said["reloads"].as_u64()), (200, Some(0)), "{said}");
        assert!(said["applied_plan"].is_null() && said["haproxy"].is_null(), "{said}");
        let refused = tls::get_as(agent.address(), &credentials.agent, "/v1/state").await;
        assert!(refused.is_err(), "an agent's certificate is no controller's: {refused:?}");
        let stranger = Credentials::issue()?;
        let refused = tls::get_as(agent.address(), &stranger.controller, "/v1/state").await;
        assert!(refused.is_err(), "another CA's controller is none: {refused:?}");

        // A second look, so that a pod which gets ready late is seen as well.
        let now = room.pods(HAPROXY).await?;
        assert!(now.iter().all(|pod| !pod.ready), "{now:?}");
        let deployment = room.objects.get(DEPLOYMENT, room.system(), "haproxy").await?;
        assert!(deployment["status"]["readyReplicas"].is_null(), "{}", deployment["status"]);
        let log = room.log(&pod.name, "haproxy");
        assert!(!log.contains("PRIVATE KEY") && log.contains(r#""level""#), "{log}");
        room.scale("haproxy", 0).await?;
        room.objects
            .until_all((POD, room.system(), HAPROXY), "no HAProxy pod", |pods| pods.is_empty().then_some(()))
            .await?;
    }
    room.close().await
}
