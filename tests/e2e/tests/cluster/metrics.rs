//! What a running installation tells: every metric that the page explains is there and was seen to count, and every query of
//! dashboards and alerts finds what it asks for.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use haptic_e2e::{
    Scrape,
    artifacts::{Documented, documented, queries},
    cluster::{
        INGRESS, TEMPLATE_CONFIG,
        served::{HAPROXY, HAPTIC, LEASE_NAME, Served},
        webhook::{Webhook, switch_on},
    },
    eventually, exclusive, ingress,
};
use rustix::process::Signal;
use serde_json::{Value, json};

const CONTROLLER: u16 = 9090;
const AGENT: u16 = 5557;
const EXPORTER: u16 = 8404;
/// What Prometheus adds to every series of a pod.
const TARGET: [&str; 4] = ["job", "instance", "namespace", "pod"];

/// Fails the whole render, not one unit of it, as soon as there is an Ingress of this name.
const POISON: &str = "{% for ingress in resources.ingresses.list() if ingress.metadata.name == 'poison' %}
http-request set-header X-Poison {{ ingress.metadata.nothing.at.all }}
{% endfor %}
";
/// What must not happen, did not in this history, or cannot with what is installed.
const NOT_SEEN: [&str; 18] = [
    "haptic_events_dropped_critical_total",
    "haptic_events_observer_dropped_total",
    "haptic_renders_in_flight",
    "haptic_component_mailbox_depth",
    "haptic_plugin_failures_total",
    "haptic_plugin_load_failures_total",
    "haptic_plugin_notes_dropped_total",
    "haptic_haproxy_pods_rejected_total",
    "haptic_admission_queue_depth",
    // The controllers of this installation issue none: `certificates` looks at those that do.
    "haptic_certificate_expiry_timestamp_seconds",
    "haptic_agent_rollbacks_total",
    "haptic_agent_invariant_violations_total",
    "haptic_agent_op_errors_total",
    "haptic_agent_pending_deletes",
    "haptic_agent_reload_pending",
    "haptic_agent_queue_depth",
    "haptic_agent_deferred_deletes_total",
    "haptic_deployment_consecutive_failures",
];

/// The example with the library `metrics`, and with doors for a Prometheus.
pub(crate) fn observed(object: &mut Value) {
    if object["kind"] == "HAProxyTemplateConfig"
        && let Some(libraries) = object["spec"]["libraryRefs"].as_array_mut()
    {
        libraries.push(json!({ "name": "metrics", "revision": "1" }));
        object["spec"]["templateSnippets"]["frontend/91-poison"]["template"] = POISON.into();
    }
    if object["kind"] == "Deployment" && object["metadata"]["name"] == "haptic" {
        let container = &mut object["spec"]["template"]["spec"]["containers"][0];
        if let Some(words) = container["args"].as_array_mut() {
            words.push("--metrics-listen=0.0.0.0:9090".into());
            // Nobody listens there: that costs traces and nothing else.
            words.push("--otlp-endpoint=http://127.0.0.1:9".into());
        }
    }
}

/// Everything that pods with these labels tell at a port.
pub(crate) async fn scraped(served: &Served, labels: &str, port: u16) -> Result<Scrape> {
    let mut all = Scrape::default();
    for pod in served.room.pods(labels).await?.into_iter().filter(|pod| pod.ready && !pod.ending) {
        let door = served.room.passage(&pod, port).await?;
        all.add(Scrape::of(door.address()).await.with_context(|| format!("scrape {}", pod.name))?);
    }
    Ok(all)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_documented_is_there_and_counts() -> Result<()> {
    let _turn = exclusive().await;
    let served = Served::prepare("metrics").await?;
    let webhook = Webhook::prepare(&served).await?;
    webhook.renew().await?;
    let asked = |object: &mut Value| {
        observed(object);
        switch_on(object);
    };
    served.finish(&asked).await?;
    served.ready().await?;
    admissions(&served, &webhook).await?;
    let before = history(&served).await?;

    let mut controllers = scraped(&served, HAPTIC, CONTROLLER).await?;
    controllers.add(before);
    let agents = scraped(&served, HAPROXY, AGENT).await?;
    let exporters = scraped(&served, HAPROXY, EXPORTER).await?;
    check_page(&documented("Metrics of the controller")?, &controllers);
    let mut of_agents = documented("Metrics of the agent")?;
    let page = documented("Metrics of the controller")?;
    let shared = page.into_iter().filter(|(name, _)| name.starts_with("process_") || name == "haptic_build_info");
    of_agents.extend(shared);
    check_page(&of_agents, &agents);

    let mut all = controllers;
    all.add(agents);
    all.add(exporters);
    for query in queries()? {
        for selector in query.selectors {
            let samples: Vec<_> = all.samples(&selector.metric).collect();
            let never = NOT_SEEN.contains(&selector.metric.as_str());
            assert!(never || !samples.is_empty(), "{}: there is no {}", query.place, selector.metric);
            let labels = samples.iter().flat_map(|sample| sample.labels.keys().cloned());
            let known: BTreeSet<_> = labels.chain(TARGET.map(str::to_owned)).collect();
            let unknown: Vec<_> = selector.labels.difference(&known).collect();
            let absent = samples.is_empty() || unknown.is_empty();
            assert!(absent, "{}: {} has no label {unknown:?}", query.place, selector.metric);
        }
    }
    served.room.close().await
}

/// Writes that are judged. What follows brings objects that nobody would let in.
async fn admissions(served: &Served, webhook: &Webhook<'_>) -> Result<()> {
    let room = &served.room;
    let config = room.objects.get(TEMPLATE_CONFIG, room.system(), "shop").await?;
    webhook.register(&config, "Fail").await?;
    let bad = [("haptic.rs/load-balance", "heavy")];
    webhook.until_asked(&room.manifest(&ingress("bad", "bad.localhost", "/", &bad, "web"))?.remove(0)).await?;
    room.objects.try_out(&room.manifest(&ingress("good", "good.localhost", "/", &[], "web"))?.remove(0)).await?;
    counted(served, "haptic_webhook_requests_total", &[("result", "denied")], 1.0).await;
    counted(served, "haptic_webhook_validation_total", &[("result", "allowed")], 1.0).await;
    webhook.unregister().await
}

/// A change at run time, a reload, an object and a configuration that are refused, a pod that cannot take its
/// configuration, and another leader. Answers with what was told before the leader went.
async fn history(served: &Served) -> Result<Scrape> {
    let room = &served.room;
    let lease = room.watch_lease(LEASE_NAME);
    served.add_route("counted", "counted.localhost").await?;
    let hostile = [("haptic.rs/timeout-server", "evil\n  http-request deny")];
    room.apply_text(&ingress("hostile", "hostile.localhost", "/", &hostile, "web")).await?;
    counted(served, "haptic_rejected_watched_inputs", &[], 1.0).await;

    room.apply_text(&ingress("poison", "poison.localhost", "/", &[], "web")).await?;
    counted(served, "haptic_reconciliation_errors_total", &[("phase", "render")], 1.0).await;
    room.objects.delete(INGRESS, room.shop(), "poison").await?;

    let header = "http-response set-header X-Reloaded yes\n";
    let reloaded = json!({ "spec": { "templateSnippets": { "frontend/92-header": { "template": header } } } });
    served.configure(&reloaded).await?;
    served.answers_with("x-reloaded", "yes").await?;

    let refused = served.configure(&json!({ "spec": { "haproxyConfig": { "template": "{{ broken" } } })).await?;
    assert!(served.judged(refused).await?.starts_with("False "));
    counted(served, "haptic_config_rejected_total", &[("reason", "TemplateInvalid")], 1.0).await;
    counted(served, "haptic_config_validated", &[("status", "False")], 1.0).await;
    // HAProxy accepts it, and the agent's own door has the port in every pod.
    let taken = "frontend taken from haptic\n  {{ bind('taken', 5557) }}\n";
    let with = |template: Value| json!({ "spec": { "haproxyConfig": null, "templateSnippets": { "frontends/95-taken": template } } });
    served.configure(&with(json!({ "template": taken }))).await?;
    counted(served, "haptic_deployment_errors_total", &[], 1.0).await;
    served.configure(&with(Value::Null)).await?;
    served.add_route("freed", "freed.localhost").await?;
    counted(served, "haptic_trace_spans_total", &[("result", "failed")], 1.0).await;
    let before = scraped(served, HAPTIC, CONTROLLER).await?;

    let term = lease.until("a leader", |state| state.holder.is_some().then(|| state.clone())).await?;
    let leader = term.holder.context("it was waited for")?;
    room.signal(&leader, "haptic", Signal::KILL).await?;
    lease.until("another term", |state| (state.epoch > term.epoch).then_some(())).await?;
    room.ready_pods(HAPTIC, 2).await?;
    served.add_route("after", "after.localhost").await?;
    counted(served, "haptic_haproxy_fleet_converged", &[], 2.0).await;
    Ok(before)
}

/// Waits until the controllers together have counted this far.
async fn counted(served: &Served, name: &str, labels: &[(&str, &str)], least: f64) {
    eventually(&format!("{name} {labels:?} to reach {least}"), async || {
        let scrape = scraped(served, HAPTIC, CONTROLLER).await.ok()?;
        (scrape.sum(name, labels) >= least).then_some(())
    })
    .await;
}

/// The page and what is told are the same, and whatever could happen in this history was counted.
fn check_page(page: &BTreeMap<String, Documented>, told: &Scrape) {
    let explained: BTreeSet<_> = page.keys().collect();
    let there: BTreeSet<_> = told.families.keys().collect();
    assert_eq!(explained, there, "the page explains exactly what is told");
    for (name, metric) in &told.families {
        let row = &page[name];
        assert_eq!(row.kind, metric.kind, "{name}");
        let labels: BTreeSet<_> = metric
            .samples
            .iter()
            .flat_map(|sample| sample.labels.keys())
            .filter(|label| *label != "le")
            .cloned()
            .collect();
        assert!(metric.samples.is_empty() || row.labels == labels, "{name}: {labels:?}");
        let counted = metric.samples.iter().any(|sample| sample.value > 0.0);
        assert!(counted || NOT_SEEN.contains(&name.as_str()), "{name} was never counted: {:?}", metric.samples);
    }
}
