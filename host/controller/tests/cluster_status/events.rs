//! Events about rejected objects.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use haptic_controller::{clock::WallClock, pipeline::Render};
use haptic_model::{Finding, FindingCode, ObjectRef};
use serde_json::{Value, json};

use crate::scene::{Scene, eventually};

const GROUP: &str = "apis/events.k8s.io/v1";

async fn events(scene: &Scene, count: usize) -> Result<Vec<Value>> {
    eventually(&format!("there are {count} events"), || async {
        let events = scene.list(GROUP, "events").await?;
        Ok((events.len() == count).then_some(events))
    })
    .await
}

/// The same render with this wrong.
fn with(render: &Arc<Render>, findings: Vec<Finding>) -> Arc<Render> {
    let mut render = (**render).clone();
    render.output.findings = findings;
    Arc::new(render)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_object_gets_one_event_that_says_what_is_wrong_where_and_what_to_do() -> Result<()> {
    let scene = Scene::new(json!({})).await?;
    let mut broken = scene.ingress("broken", "broken.example").await?;
    let uid = broken["metadata"]["uid"].clone();
    broken["spec"]["rules"] = json!([]);
    let good = scene.ingress("good", "good.example").await?;
    let render = scene.render(1, &[broken.clone(), good.clone()]);
    let finding = render.output.findings.first().context("the template finds it")?.clone();
    let term = scene.lead(&["a"]);
    term.serves(&render, &["a"]);
    let event = events(&scene, 1).await?.remove(0);
    let expected = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "broken",
        "namespace": scene.room.namespace, "uid": uid,
    });
    assert_eq!(event["regarding"], expected);
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!(finding.code)));
    assert_eq!(event["reportingController"], "haptic.rs/controller");
    assert_eq!(event["reportingInstance"], "haptic-0");
    let note = event["note"].as_str().context("it has a note")?;
    let location = finding.location.context("it has a line")?.to_string();
    assert!(note.contains(&location) && note.contains(&finding.message), "{note}");

    // The same again and another one: only the other one is news.
    let again = scene.render(2, &[broken.clone(), good.clone()]);
    let conflict = Finding::warning(FindingCode::RouteConflict, "`good.example` is taken").about(Some(ObjectRef::new(
        "Ingress",
        &scene.room.namespace,
        "good",
    )));
    let mut findings = again.output.findings.clone();
    findings.push(conflict);
    let second = with(&again, findings);
    term.serves(&second, &["a"]);
    let both = events(&scene, 2).await?;
    assert!(both.iter().any(|known| known["metadata"]["resourceVersion"] == event["metadata"]["resourceVersion"]));
    term.end().await?;

    // The next leader finds the same and says nothing; its own finding proves that it looked.
    let term = scene.lead(&["a"]);
    let mut findings = second.output.findings.clone();
    findings.push(Finding::error(FindingCode::InvalidValue, "x".repeat(5_000)).about(Some(ObjectRef::new(
        "Service",
        &scene.room.namespace,
        "web",
    ))));
    term.serves(&with(&again, findings), &["a"]);
    let all = events(&scene, 3).await?;
    let longest = all.iter().filter_map(|event| event["note"].as_str()).map(str::len).max();
    assert_eq!(longest, Some(1024));
    let first = all.iter().find(|known| known["metadata"]["uid"] == event["metadata"]["uid"]);
    assert_eq!(first.map(|known| &known["metadata"]["resourceVersion"]), Some(&event["metadata"]["resourceVersion"]));
    term.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finding_that_comes_back_counts_up() -> Result<()> {
    let seconds = Arc::new(AtomicU64::new(1_800_000_000));
    let read = seconds.clone();
    let mut scene = Scene::new(json!({})).await?;
    scene.clock = WallClock::new(move || UNIX_EPOCH + Duration::from_secs(read.load(Ordering::Relaxed)));
    let about = |name: &str| {
        Finding::error(FindingCode::InvalidValue, "no such port").about(Some(ObjectRef::new(
            "Ingress",
            &scene.room.namespace,
            name,
        )))
    };
    let term = scene.lead(&["a"]);
    let render = scene.render(1, &[]);
    term.serves(&with(&render, vec![about("one")]), &["a"]);
    let first = events(&scene, 1).await?.remove(0);
    assert_eq!(first["eventTime"], "2027-01-15T08:00:00.000000Z");
    // That the other one is told of proves that the first one was seen to be gone.
    term.serves(&with(&render, vec![about("two")]), &["a"]);
    events(&scene, 2).await?;
    seconds.fetch_add(120, Ordering::Relaxed);
    term.serves(&with(&render, vec![about("one"), about("two")]), &["a"]);
    let series = eventually("it counts up", || async {
        let event = scene.object(GROUP, "events", first["metadata"]["name"].as_str().unwrap_or_default()).await?;
        Ok(event.get("series").cloned())
    })
    .await?;
    assert_eq!(series, json!({ "count": 2, "lastObservedTime": "2027-01-15T08:02:00.000000Z" }));
    assert_eq!(events(&scene, 2).await?.len(), 2);
    term.end().await
}
