use super::*;
use crate::testing::core;

/// How many full passes there are in ten minutes.
async fn passes(interval: Duration) -> usize {
    let bus = EventBus::new();
    let mut seen = bus.observe("test", &[EventKind::DriftPreventionTriggered]);
    bus.start();
    let mut core = core("global");
    core.settings.drift_prevention_interval = interval;
    let monitor = DriftPreventionMonitor::new(&bus, ActiveCore::new(Arc::new(core)));
    let ended = tokio::time::timeout(Duration::from_mins(10), monitor.run()).await;
    assert!(ended.is_err(), "it ends with the bus only");
    std::iter::from_fn(|| seen.try_next()).count()
}

#[tokio::test(start_paused = true)]
async fn a_full_pass_comes_with_every_interval() {
    let count = passes(Duration::from_mins(1)).await;
    assert!((9..=10).contains(&count), "{count}");
}

#[tokio::test(start_paused = true)]
async fn an_interval_of_zero_is_never() {
    assert_eq!(passes(Duration::ZERO).await, 0);
}
