//! Controllers that issue the certificates themselves: from empty Secrets to traffic, and through changes of the authority.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use haptic_e2e::{
    Issued, Load,
    cluster::{
        ENDPOINT_SLICE, SECRET, TEMPLATE_CONFIG, reason_of,
        served::{AGENT, HAPROXY, HAPTIC, HTTP, Served, route},
    },
    eventually, exclusive, get, tls,
};
use serde_json::{Value, json};

const AUTHORITY: &str = "issued-authority";
const AGENTS: &str = "issued-agent";
const CONTROLLERS: &str = "issued-controller";
const SECRETS: [&str; 3] = [AUTHORITY, AGENTS, CONTROLLERS];
const METRICS: u16 = 9090;

/// What names are given to `run` and to `rbac`.
fn names() -> Vec<String> {
    let mut options = vec!["--issue-certificates".to_owned()];
    for (option, secret) in
        [("authority-secret", AUTHORITY), ("agent-secret", AGENTS), ("controller-secret", CONTROLLERS)]
    {
        options.push(format!("--{option}={secret}"));
    }
    options
}

/// The example with two controllers that issue certificates, into Secrets that are there without contents only once
/// everything else is.
async fn start(name: &str, more: &[String]) -> Result<Served> {
    let options: Vec<String> = names().into_iter().chain(more.iter().cloned()).collect();
    let issuing = |object: &mut Value| {
        if object["kind"] == "HAProxyTemplateConfig" {
            object["spec"]["credentialsSecretRef"]["name"] = CONTROLLERS.into();
        }
        if object["kind"] != "Deployment" {
            return;
        }
        let controllers = object["metadata"]["name"] == "haptic";
        let pod = &mut object["spec"]["template"]["spec"];
        for volume in pod["volumes"].as_array_mut().into_iter().flatten() {
            if volume["name"] == "tls" {
                volume["secret"]["secretName"] = AGENTS.into();
            }
        }
        if controllers && let Some(args) = pod["containers"][0]["args"].as_array_mut() {
            args.extend(options.iter().map(|option| json!(option)));
            args.push(format!("--metrics-listen=0.0.0.0:{METRICS}").into());
            object["spec"]["replicas"] = 0.into();
        }
    };
    let served = Served::apply(name, &issuing).await?;
    served.permit_for(&names()).await?;
    served.room.scale("haptic", 2).await?;
    eventually("an Event to say what is missing", async || {
        let events = served.room.events("Secret", AUTHORITY).await.ok()?;
        events.iter().any(|event| event.contains("it is not there")).then_some(())
    })
    .await;
    for name in SECRETS {
        let metadata = json!({ "name": name, "namespace": served.room.system() });
        served.room.objects.apply(&json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata })).await?;
    }
    served.room.ready_pods(HAPTIC, 2).await?;
    served.room.ready_pods(HAPROXY, 2).await?;
    served.check_routes().await?;
    Ok(served)
}

async fn entry(served: &Served, secret: &str, name: &str) -> Result<String> {
    let object = served.room.objects.get(SECRET, served.room.system(), secret).await?;
    let encoded = object["data"][name].as_str().with_context(|| format!("{secret} has `{name}`"))?;
    String::from_utf8(BASE64_STANDARD.decode(encoded)?).context("it is PEM")
}

async fn identity(served: &Served) -> Result<Issued> {
    let certificate = entry(served, CONTROLLERS, "tls.crt").await?;
    Ok(Issued { certificate, key: entry(served, CONTROLLERS, "tls.key").await? })
}

/// Each agent shows the certificate that stands in the Secret.
async fn agents_show_the_newest(served: &Served) -> Result<String> {
    let newest = async || -> Result<Option<String>> {
        let pem = entry(served, AGENTS, "tls.crt").await?;
        let expected: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let identity = identity(served).await?;
        for (_, door) in served.doors(AGENT).await? {
            let leaf = tls::leaf_for(door.address(), &identity).await?;
            if BASE64_STANDARD.encode(&leaf) != expected {
                return Ok(None);
            }
        }
        Ok(Some(expected))
    };
    Ok(eventually("every agent to show the newest certificate", async || newest().await.ok().flatten()).await)
}

/// Applies that failed, by every controller together.
async fn failed_applies(served: &Served) -> Result<f64> {
    let mut failed = 0.0;
    for pod in served.room.pods(HAPTIC).await? {
        let door = served.room.passage(&pod, METRICS).await?;
        let answer = get(door.address(), "metrics", "/metrics").await?;
        ensure!(
            answer.status == 200 && answer.body.contains("haptic_certificate_expiry_timestamp_seconds"),
            "{answer:?}"
        );
        let of = |line: &&str| line.starts_with("haptic_certificate_expiry_timestamp_seconds{");
        ensure!(answer.body.lines().filter(of).count() == SECRETS.len(), "{answer:?}");
        ensure!(answer.body.contains("haptic_certificate_renewals_total{"), "{answer:?}");
        let errors = answer.body.lines().filter(|line| line.starts_with("haptic_deployment_errors_total"));
        failed += errors.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>();
    }
    Ok(failed)
}

fn no_key_is_logged(served: &Served, pods: &[String]) {
    for pod in pods {
        let log = served.room.log(pod, "haptic");
        assert!(!log.contains("PRIVATE KEY") && !log.contains("BEGIN CERT"), "{pod}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_secrets_are_filled_and_everything_gets_ready() -> Result<()> {
    let _turn = exclusive().await;
    let served = start("issuing", &[]).await?;
    agents_show_the_newest(&served).await?;
    let pods: Vec<_> = served.room.pods(HAPTIC).await?.into_iter().map(|pod| pod.name).collect();
    no_key_is_logged(&served, &pods);
    let logs: String = pods.iter().map(|pod| served.room.log(pod, "haptic")).collect();
    assert_eq!(logs.matches("certificate issued").count(), SECRETS.len(), "each is issued once by one of them: {logs}");

    // A first attempt may have come before the Secrets had anything in them; that is over.
    let accepted = |config: &Value| reason_of(config, "Accepted").starts_with("True ").then_some(());
    let config = (TEMPLATE_CONFIG, served.room.system(), "shop");
    served.room.objects.until(config, "the configuration to be accepted", accepted).await?;

    // What is lost is issued anew, and the pods go on.
    let emptied = json!({ "data": null });
    served.room.objects.merge(SECRET, served.room.system(), AGENTS, &emptied).await?;
    agents_show_the_newest(&served).await?;
    served.add_route("after", "after.localhost").await?;
    served.room.close().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_and_certificates_change_and_no_apply_and_no_request_fails() -> Result<()> {
    let _turn = exclusive().await;
    let lifetimes = ["--certificate-lifetime=48s", "--authority-lifetime=144s"].map(str::to_owned);
    let served = start("rotation", &lifetimes).await?;
    let room = &served.room;
    let before = failed_applies(&served).await?;
    let objects = route("moving", "moving.localhost", room.shop(), room.ingress_class(), "10.99.0.1");
    room.apply(&objects).await?;
    let service = room.service("haproxy", 80).await?;
    let load = Load::start(service.address(), &Served::targets());
    load.flow(100).await;

    let (mut authorities, mut agents, mut changes) = (BTreeSet::new(), BTreeSet::new(), 0_u32);
    let pods: Vec<_> = room.pods(HAPTIC).await?.into_iter().map(|pod| pod.name).collect();
    let said = |words: &str| pods.iter().map(|pod| room.log(pod, "haptic").matches(words).count()).sum::<usize>();
    while said("the new authority signs") < 2 || agents.len() < 5 {
        let bundle = entry(&served, AGENTS, "ca.crt").await?;
        authorities.extend(bundle.split_inclusive("-----END CERTIFICATE-----\n").map(str::to_owned));
        agents.insert(agents_show_the_newest(&served).await?);
        changes += 1;
        let address = format!("10.99.{}.{}", changes / 250 % 250, changes % 250 + 1);
        let endpoints = json!({ "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }] });
        room.objects.merge(ENDPOINT_SLICE, room.shop(), "moving", &endpoints).await?;
        load.flow(200).await;
    }
    // The last change has arrived, whoever signs now.
    served.add_route("last", "last.localhost").await?;
    load.finish().await.assert_clean();
    let failed = failed_applies(&served).await?;
    assert_eq!((before, failed), (0.0, 0.0), "applies failed");
    let applied: BTreeMap<_, _> = served.doors(HTTP).await?.into_iter().map(|(pod, _)| (pod.name, pod.ready)).collect();
    assert!(applied.len() == 2 && applied.values().all(|ready| *ready), "{applied:?}");
    no_key_is_logged(&served, &pods);
    assert!(said("all are told of the new authority") >= 2 && authorities.len() >= 3, "{}", authorities.len());
    served.room.close().await
}
