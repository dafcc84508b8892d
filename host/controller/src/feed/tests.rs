#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use haptic_modules::{Backoff, Fetcher, Limits, Modules, Source, Transport, Wanted};
use haptic_plugins::PluginHost;

use super::*;
use crate::{
    plugin_loader::{PluginFault, Proof},
    testing::{ScriptedCheck, passed},
};

/// A plugin of the `round`th configuration, the module of which is not there.
fn missing(round: i64, wanted: &Wanted) -> PluginState {
    PluginState {
        namespace: "default".into(),
        name: "guard".into(),
        generation: Some(round),
        proof: Proof::Pin,
        progress: Err(PluginFault::fetching(wanted)),
        missing: Some(wanted.clone()),
    }
}

#[tokio::test]
async fn what_a_trial_stores_is_not_lost_to_a_look_at_modules() {
    let fetcher = Fetcher::new(Transport::new(Limits::default()).unwrap(), None);
    let modules = Modules::new(fetcher, Backoff::default());
    let source = Source::File { path: "/nonexistent/m.wasm".into() };
    let wanted = Wanted { name: "guard".to_owned(), source, pin: None, cosign_key: None };
    modules.attempt(vec![wanted.clone()]).await;
    let gate = GateParts {
        check: ScriptedCheck::new([passed()]),
        loader: PluginLoader::new(Arc::new(PluginHost::new(None).unwrap()), BTreeMap::new(), modules),
        haproxy: (3, 2),
        clock: WallClock::system(),
        fetch_patience: Duration::ZERO,
        plugins: Arc::default(),
    };
    let rounds = 2_000;
    let looking = gate.clone();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let stop = stop.drop_guard();
    let looks = tokio::task::spawn_blocking(move || {
        while !stopped.is_cancelled() {
            looking.look_again();
        }
    });
    let stores = gate.clone();
    let lost = tokio::task::spawn_blocking(move || {
        let known = || stores.plugins.borrow()[0].generation;
        let stored = |round| {
            stores.plugins.send_replace(Arc::new(vec![missing(round, &wanted)]));
            // Longer than a look takes.
            (0..200).all(|_| known() == Some(round))
        };
        (0..rounds).find(|round| !stored(*round))
    });
    let lost = lost.await.unwrap();
    drop(stop);
    looks.await.unwrap();
    assert_eq!(lost, None, "older states took the place of newer ones");
}
