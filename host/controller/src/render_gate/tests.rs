#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use haptic_model::{FilePath, ObjectRef, Origin, SourceMap, SourceSpan};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    bus::{EventBus, Subscription},
    check::Answer,
    core::ActiveCore,
    events::{Correlation, Event, EventKind, GateOutcome, GateVerdict},
    pipeline::Render,
    quarantine::Quarantine,
    render_gate::RenderGate,
    testing::{ScriptedCheck, core, next, passed, pod, refused_at, render, render_of, trigger},
};

struct Scene {
    bus: Arc<EventBus>,
    verdicts: Subscription,
    quarantine: Arc<Quarantine>,
}

#[tokio::test(start_paused = true)]
async fn checks_the_newest_render_at_once_and_paces_what_follows() {
    let mut scene = Scene::new([passed()]);
    let began = Instant::now();
    scene.render(&render(1, "a"));
    let first = scene.verdict().await;
    assert_eq!((first.seq, began.elapsed()), (1, Duration::ZERO));
    assert_eq!(first.passed_by.iter().copied().collect::<Vec<_>>(), [(3, 2)]);
    for seq in 2..6 {
        scene.render(&render(seq, &format!("text {seq}")));
    }
    let second = scene.verdict().await;
    assert_eq!(second.seq, 5, "only the newest");
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_a_refusal_the_next_render_is_checked_without_a_pause() {
    let mut scene = Scene::new([refused_at(3), passed()]);
    scene.render(&render(1, "bad"));
    let outcome = scene.verdict().await;
    assert!(matches!(outcome.verdict, GateVerdict::Refused { .. }));
    assert_eq!(outcome.quarantined, 0, "no unit wrote it");
    let began = Instant::now();
    scene.render(&render(2, "good"));
    assert_eq!(scene.verdict().await.verdict, GateVerdict::Passed);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_unit_that_wrote_a_refused_line_goes_into_quarantine_and_its_object_is_named() {
    let mut scene = Scene::new([refused_at(3)]);
    scene.render(&Arc::new(with_unit(1)));
    let outcome = scene.verdict().await;
    assert_eq!(outcome.quarantined, 1);
    let GateVerdict::Refused { findings } = &outcome.verdict else { panic!("{outcome:?}") };
    assert!(findings[0].to_string().contains("Ingress shop/web"), "{}", findings[0]);
    assert!(findings[0].to_string().contains("unknown keyword `bogus`"), "{}", findings[0]);
    assert!(scene.quarantine.units().contains("ingress/shop/web"));
}

#[tokio::test(start_paused = true)]
async fn without_a_checker_the_verdict_is_open() {
    let reason = haptic_model::Reason::new(haptic_model::ReasonCode::Note, "NoCheckerForVersion");
    let mut scene = Scene::new([Answer::Unavailable { reason }]);
    scene.render(&render(1, "a"));
    let outcome = scene.verdict().await;
    assert!(matches!(outcome.verdict, GateVerdict::Unknown { .. }));
    assert!(outcome.passed_by.is_empty(), "nothing is promoted");
}

impl Scene {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let bus = EventBus::new();
        let verdicts = bus.observe("test", &[EventKind::RenderGateCompleted]);
        let quarantine = Arc::new(Quarantine::default());
        let core = ActiveCore::new(Arc::new(core("global\n")));
        let (check, stop) = (ScriptedCheck::new(answers), CancellationToken::new());
        tokio::spawn(RenderGate::new(&bus, core, check, quarantine.clone(), (3, 2), stop).run());
        bus.start();
        bus.publish(Event::HAProxyPodsDiscovered { correlation: Correlation(0), pods: [pod("a")].into() });
        Self { bus, verdicts, quarantine }
    }

    fn render(&self, render: &Arc<Render>) {
        self.bus.publish(Event::TemplateRendered { correlation: render.correlation, render: render.clone() });
    }

    async fn verdict(&mut self) -> Arc<GateOutcome> {
        let Event::RenderGateCompleted { outcome, .. } = next(&mut self.verdicts).await else { panic!() };
        outcome
    }
}

/// Line 3 was written by the unit of an Ingress.
fn with_unit(seq: u64) -> Render {
    let mut render = render_of(seq, "global\nbackend web\n  bogus\n", trigger());
    let origin = Origin {
        template: "config".into(),
        unit: Some("ingress/shop/web".into()),
        object: Some(ObjectRef::new("Ingress", "shop", "web")),
    };
    let spans = vec![SourceSpan { first_line: 2, origin: Arc::new(origin) }];
    let files = BTreeMap::from([(FilePath::new("haproxy.cfg").unwrap(), Arc::new(spans))]);
    render.output.rendered.sources = Arc::new(SourceMap { files });
    render
}
