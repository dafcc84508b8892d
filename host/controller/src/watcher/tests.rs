#![allow(clippy::unwrap_used, reason = "tests")]

use std::{sync::Arc, time::Duration};

use haptic_model::ObjectRef;
use tokio::time::{Instant, advance};

use crate::{
    bus::{EventBus, Subscription},
    events::{Change, ChangedObject, Event, EventKind},
    watcher::ResourceWatcher,
};

const WINDOW: Duration = Duration::from_millis(100);

struct Scene {
    bus: Arc<EventBus>,
    events: Subscription,
    watcher: ResourceWatcher,
}

#[tokio::test(start_paused = true)]
async fn an_event_after_a_quiet_window_passes_at_once_and_what_follows_coalesces() {
    let mut scene = Scene::with_window(WINDOW);
    scene.change("a");
    assert_eq!(scene.published(), Some(1));
    scene.wait(10).await;
    scene.change("b");
    scene.wait(50).await;
    scene.change("c");
    assert_eq!(scene.published(), None);
    // 100 ms of quiet after the last change.
    scene.wait(99).await;
    assert_eq!(scene.published(), None);
    scene.wait(1).await;
    assert_eq!(scene.published(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_burst_waits_five_windows_at_most() {
    let mut scene = Scene::with_window(WINDOW);
    scene.change("a");
    assert_eq!(scene.published(), Some(1));
    let began = Instant::now();
    let mut published = None;
    while published.is_none() {
        scene.wait(20).await;
        published = scene.published();
        scene.change("b");
    }
    // The first change that waits comes 20 ms after the one that passed.
    assert_eq!(began.elapsed(), Duration::from_millis(20) + 5 * WINDOW);
}

#[tokio::test(start_paused = true)]
async fn an_interval_of_zero_passes_everything_at_once() {
    let mut scene = Scene::with_window(Duration::ZERO);
    for name in ["a", "b", "c"] {
        scene.change(name);
        assert_eq!(scene.published(), Some(1));
    }
    assert_eq!(scene.watcher.due(), None);
}

#[tokio::test(start_paused = true)]
async fn resources_have_windows_of_their_own() {
    let mut scene = Scene::with_window(WINDOW);
    scene.change("a");
    assert_eq!(scene.published(), Some(1));
    scene.change_of("ingresses", "b");
    assert_eq!(scene.published(), Some(1), "another resource is quiet");
}

impl Scene {
    fn with_window(window: Duration) -> Self {
        let bus = EventBus::new();
        let events = bus.subscribe("test", &[EventKind::ResourceIndexUpdated]);
        bus.start();
        let mut watcher = ResourceWatcher::default();
        watcher.configure([("services".into(), window), ("ingresses".into(), window)]);
        Self { bus, events, watcher }
    }

    fn change(&mut self, name: &str) {
        self.change_of("services", name);
    }

    fn change_of(&mut self, resource: &str, name: &str) {
        let object = ChangedObject { object: ObjectRef::new("Service", "shop", name), change: Change::Changed };
        self.watcher.changed(&self.bus, &resource.into(), object);
    }

    async fn wait(&mut self, millis: u64) {
        advance(Duration::from_millis(millis)).await;
        self.watcher.publish_due(&self.bus);
    }

    /// How many changes the next published event has.
    fn published(&mut self) -> Option<usize> {
        (self.events.depth() > 0).then(|| {
            let Some(Event::ResourceIndexUpdated { change, .. }) = self.events.try_next() else { unreachable!() };
            change.total
        })
    }
}
