#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use haptic_model::{Finding, FindingCode, Mode, ObjectRef, Verdict};
use tokio::sync::watch;

use crate::{
    bus::EventBus,
    clock::WallClock,
    core::ActiveCore,
    events::{Correlation, Event, GateOutcome},
    feed::ManifestFindings,
    pod::{PodOutcome, PodReport},
    status::StatusApplier,
    testing::{core, refused, render},
};

#[tokio::test]
async fn writes_what_a_person_needs_and_keeps_the_first_time_of_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let bus = EventBus::new();
    let manifests = watch::Sender::<ManifestFindings>::default();
    let core = ActiveCore::new(Arc::new(core("global\n")));
    let applier = StatusApplier::new(
        &bus,
        core,
        manifests.subscribe(),
        watch::Sender::default().subscribe(),
        WallClock::fixed(0),
        folder.path().to_owned(),
    );
    let running = tokio::spawn(applier.run());
    bus.start();
    let render = render(1, "a");
    let correlation = Correlation(1);
    let mistake = Finding::error(FindingCode::InvalidManifest, "not valid YAML")
        .about(Some(ObjectRef::new("Ingress", "shop", "web")))
        .at("shop.yaml", 7, 0)
        .hint("close the bracket");
    manifests.send_replace(ManifestFindings::of(vec![mistake]));
    bus.publish(Event::TemplateRendered { correlation, render: render.clone() });
    let outcome = GateOutcome {
        seq: 1,
        plan: render.plan(),
        verdict: refused(),
        passed_by: BTreeSet::new(),
        checked_by: vec!["3.2.26".to_owned()],
        duration: Duration::ZERO,
        quarantined: 0,
    };
    bus.publish(Event::RenderGateCompleted { correlation, outcome: Arc::new(outcome) });
    let report = PodReport {
        pod: "local".into(),
        plan: render.plan(),
        outcome: PodOutcome::Failed,
        verdict: Some(Verdict::Reload),
        mode: Some(Mode::Reload),
        applied_plan: None,
        running_plan: None,
        haproxy: None,
        reasons: Vec::new(),
        ops_run: 0,
        error: Some("unknown keyword".to_owned()),
        diff: Duration::ZERO,
        apply: Duration::ZERO,
        course: None,
    };
    bus.publish(Event::DeploymentCompleted { correlation, render, reports: [report].into() });
    bus.close();
    running.await.unwrap();

    let config = read(folder.path(), "config.yaml").await;
    assert!(config.contains("reason: HAProxyValidationFailed"), "{config}");
    assert!(config.contains("observedPlan"), "{config}");
    let objects = read(folder.path(), "objects.yaml").await;
    for words in ["Ingress shop/web", "shop.yaml:7", "close the bracket"] {
        assert!(objects.contains(words), "{objects}");
    }
    let pods = read(folder.path(), "pods.yaml").await;
    for words in ["local:", "outcome: failed", "unknown keyword", "firstSeen: 1970-01-01T00:00:00Z"] {
        assert!(pods.contains(words), "{pods}");
    }
    assert_eq!(read(folder.path(), "plugins.yaml").await.trim(), "[]");
}

async fn read(folder: &Path, name: &str) -> String {
    tokio::fs::read_to_string(folder.join(name)).await.unwrap()
}
