//! What is observed without a cluster: queries, traces and HAProxy's own metrics.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use haptic_e2e::{
    CONFIG, HaproxyBuild, Haptic, OtlpSink, ReceivedSpan, Run, SLICES, Scrape, Shop,
    artifacts::{alerts, documented, page, queries},
    eventually, exclusive, get, on_haproxy,
};

/// What Prometheus adds to every series of a pod.
const TARGET: [&str; 4] = ["job", "instance", "namespace", "pod"];

const PASSWORD: &str = "planted-password-7Qz";
const PLANTED: &str = "apiVersion: v1
kind: Secret
metadata: {name: planted, namespace: shop}
data: {password: cGxhbnRlZC1wYXNzd29yZC03UXo=}
";
const USERS: &str = r#"    sections/60-staff:
      template: |
        userlist staff
          user admin insecure-password {{ resources.secrets.get_single("shop", "planted") | dig("data", "password") | default("bm9uZQ==", true) | b64decode }}
"#;

#[test]
fn queries_name_what_the_page_explains() -> Result<()> {
    let mut explained = documented("Metrics of the controller")?;
    explained.extend(documented("Metrics of the agent")?);
    explained.extend(documented("Metrics of certificates")?);
    assert!(explained.len() > 70, "the tables are read: {}", explained.len());
    let mut seen = 0;
    for query in queries()? {
        for selector in query.selectors {
            seen += 1;
            if selector.metric.starts_with("haproxy_") {
                continue;
            }
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .filter_map(|part| selector.metric.strip_suffix(part))
                .find(|base| explained.get(*base).is_some_and(|metric| metric.kind == "histogram"));
            let (name, part) = base.map_or((selector.metric.as_str(), None), |base| (base, Some("le".to_owned())));
            let metric = explained.get(name).with_context(|| format!("{}: `{name}` is not explained", query.place))?;
            assert!(metric.kind != "histogram" || part.is_some(), "{}: `{name}` is a histogram", query.place);
            let known: BTreeSet<_> =
                metric.labels.iter().cloned().chain(part).chain(TARGET.map(str::to_owned)).collect();
            let unknown: Vec<_> = selector.labels.difference(&known).collect();
            assert!(unknown.is_empty(), "{}: `{name}` has no label {unknown:?}", query.place);
        }
    }
    assert!(seen > 80, "the queries are read: {seen}");
    Ok(())
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() -> Result<()> {
    let page = page()?;
    let runbooks: BTreeSet<_> = page.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_owned).collect();
    assert_eq!(alerts()?, runbooks);
    Ok(())
}

async fn a_change_is_a_trace(haproxy: HaproxyBuild) -> Result<()> {
    let _turn = exclusive().await;
    let sink = OtlpSink::start().await?;
    let shop = Shop::open().await?;
    shop.write("common/planted.yaml", PLANTED)?;
    shop.edit(CONFIG, "  templateSnippets:\n", &format!("  templateSnippets:\n{USERS}"))?;
    let run = Run { arguments: vec!["--otlp-endpoint".to_owned(), sink.endpoint()], ..Run::default() };
    let mut haptic = Haptic::start(&shop, &haproxy, run)?;
    haptic.wait_until_served(&shop).await;
    let served = shop.backend("api-3").served();
    let lines = haptic.lines().len();
    shop.edit(SLICES, &shop.address(22), &shop.address(23))?;
    eventually("traffic on api-3", async || {
        get(shop.http(), "api.shop.localhost", "/").await.ok()?;
        (shop.backend("api-3").served() > served).then_some(())
    })
    .await;
    let line = haptic.said(lines, &["reconciled: EndpointSlice", "api"]).await;
    let line: serde_json::Value = serde_json::from_str(&line)?;
    let correlation = line["correlation"].as_str().context("the line has a correlation")?.to_owned();

    let trace = eventually("the trace of the change", async || {
        let spans = sink.received().spans;
        let is_it = |span: &&ReceivedSpan| span.attribute("haptic.correlation") == Some(&correlation);
        let root = spans.iter().find(is_it)?.clone();
        let all: Vec<_> = spans.into_iter().filter(|span| span.trace == root.trace).collect();
        all.iter().any(|span| span.name == "check").then_some((root, all))
    });
    let (root, all) = trace.await;
    assert_eq!((root.name.as_str(), &root.parent), ("change", &None));
    assert_eq!(root.attribute("haptic.outcome"), Some("acknowledged"));
    assert!(root.attribute("haptic.cause").is_some_and(|cause| cause.contains("EndpointSlice")), "{root:?}");
    let named = |name: &str| all.iter().find(|span| span.name == name).with_context(|| format!("{name} in {all:#?}"));
    for (name, parent) in [
        ("watch", "change"),
        ("render", "change"),
        ("validate rendered output", "change"),
        ("check", "change"),
        ("deploy", "change"),
        ("diff", "deploy"),
        ("apply", "deploy"),
    ] {
        let span = named(name)?;
        assert_eq!(span.parent.as_ref(), Some(&named(parent)?.id), "{name}");
        assert!(span.start <= span.end && span.start >= root.start, "{span:?}");
        assert!(!span.failed, "{span:?}");
    }
    // One after the other, whatever they took.
    let ends =
        ["watch", "render", "validate rendered output", "deploy", "change"].map(|name| named(name).map(|it| it.end));
    let ends = ends.into_iter().collect::<Result<Vec<_>>>()?;
    assert!(ends.is_sorted(), "{all:#?}");
    let apply = named("apply")?;
    assert_eq!(apply.attribute("haptic.mode"), Some("runtime"));
    assert!(apply.attribute("haptic.agent.ops_us").is_some_and(|micros| micros != "0"), "{apply:?}");
    // The agent's log has the same word.
    haptic.said(lines, &["\"message\":\"applied\"", &format!("\"correlation\":\"{correlation}\"")]).await;
    assert_eq!(haptic.stop().await.code(), Some(0));
    let received = sink.received();
    assert!(received.broken.is_empty(), "{:?}", received.broken);
    assert!(haptic.config()?.contains(PASSWORD), "it is planted");
    for text in received.raw.iter().chain(&haptic.lines()) {
        assert!(!text.contains(PASSWORD) && !text.contains("PRIVATE KEY"), "{text}");
    }
    Ok(())
}

on_haproxy!(a_change_is_a_trace: a_change_is_one_trace_from_the_watch_to_the_acknowledgement = "3.4");

async fn haproxy_tells(haproxy: HaproxyBuild) -> Result<()> {
    let shop = Shop::open().await?;
    let ingress = "    - name: ingress\n      revision: \"1\"\n";
    shop.edit(CONFIG, ingress, &format!("{ingress}    - name: metrics\n      revision: \"1\"\n"))?;
    let _haptic = Haptic::serve(&shop, &haproxy).await?;
    let mut address = shop.http();
    address.set_port(8404);
    assert_eq!(get(address, "anything", "/").await?.status, 404, "it serves metrics and nothing else");
    let scrape = Scrape::of(address).await?;
    assert!(scrape.sum("haproxy_frontend_http_requests_total", &[("proxy", "http")]) > 0.0);
    for query in queries()? {
        for selector in query.selectors.iter().filter(|selector| selector.metric.starts_with("haproxy_")) {
            let known: BTreeSet<_> = scrape
                .samples(&selector.metric)
                .filter(|sample| {
                    selector
                        .values
                        .iter()
                        .all(|(label, value)| sample.labels.get(label) == Some(value) || label == "job")
                })
                .flat_map(|sample| sample.labels.keys().cloned())
                .chain(TARGET.map(str::to_owned))
                .collect();
            assert!(scrape.samples(&selector.metric).next().is_some(), "{}: no {}", query.place, selector.metric);
            let unknown: Vec<_> = selector.labels.difference(&known).collect();
            assert!(unknown.is_empty(), "{}: `{}` has no label {unknown:?}", query.place, selector.metric);
        }
    }
    Ok(())
}

on_haproxy!(haproxy_tells:
    haproxy_3_0_tells_what_the_traffic_dashboard_shows = "3.0",
    haproxy_3_2_tells_what_the_traffic_dashboard_shows = "3.2",
    haproxy_3_4_tells_what_the_traffic_dashboard_shows = "3.4",
);
