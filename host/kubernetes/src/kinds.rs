//! Hears of custom resource definitions that come, change and go, so that nobody has to ask again and again.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    Api, Content, Trouble, Wanted,
    backoff::{Backoff, Failures},
    decode::{Event, read_event, read_page},
    discovery::Served,
    request::Scope,
};

/// Counts up whenever the server may serve other resources than before.
pub(crate) type Revision = watch::Sender<u64>;

/// Never ends. Who may not watch definitions is left to asking from time to time, and looks again whether he may: soon
/// at first, as a server that starts does not know its roles yet.
pub(crate) async fn watch_definitions(api: Api, mut failures: Failures, revision: Arc<Revision>) {
    let scope = scope();
    let mut refusals = Failures::new(REFUSED, failures.jitter().clone());
    let mut told = false;
    loop {
        let pause = match watch(&api, &scope, &mut failures, &revision).await {
            Err(trouble) if trouble.is_forbidden() => {
                if !told {
                    told = true;
                    tracing::info!(
                        %trouble, "may not watch custom resource definitions; their changes are found more slowly"
                    );
                }
                refusals.pause(Some(&trouble))
            }
            other => {
                told = false;
                refusals.reset();
                let trouble = other.err();
                if let Some(trouble) = &trouble {
                    tracing::debug!(%trouble, "watching custom resource definitions failed");
                }
                failures.pause(trouble.as_ref())
            }
        };
        sleep(pause).await;
    }
}

/// Until the watch ends.
async fn watch(api: &Api, scope: &Scope, failures: &mut Failures, revision: &Revision) -> Result<(), Trouble> {
    let limits = api.limits();
    let unknown = crate::ResourceVersion::unknown();
    // Only for its version: what is served is asked of discovery.
    let page = api.get(&scope.page(&unknown, Some(1), None), scope.accept_page()).await?;
    let version = read_page(&page, &scope.served)?.version;
    let mut lines = api.lines(&scope.watch(&version, limits.watch), scope.accept_watch()).await?;
    // Something may have changed since the last watch.
    revision.send_modify(|revision| *revision += 1);
    loop {
        let line = timeout(limits.idle, lines.next()).await.map_err(|_| Trouble::TimedOut(limits.idle))??;
        let Some(line) = line else { return Ok(()) };
        failures.reset();
        match read_event(&line, &scope.served)? {
            Event::Upsert(_) | Event::Delete(_) => revision.send_modify(|revision| *revision += 1),
            Event::Bookmark { .. } => {}
            Event::Error(status) => return Err(Trouble::Refused(status.into())),
        }
    }
}

fn scope() -> Scope {
    let spec = haptic_api::WatchedResource {
        api_version: Some("apiextensions.k8s.io/v1".to_owned()),
        resources: "customresourcedefinitions".to_owned(),
        ..haptic_api::WatchedResource::default()
    };
    let spec = haptic_store::WatchedResource::new("definitions", &spec, &[]).expect("it has no selectors and no paths");
    let served = Arc::new(Served {
        api_version: "apiextensions.k8s.io/v1".into(),
        resources: "customresourcedefinitions".into(),
        kind: "CustomResourceDefinition".into(),
        namespaced: false,
    });
    let wanted = Wanted { spec, content: Content::Metadata };
    wanted.scopes(&served).remove(0)
}

/// Between two looks of who may not.
const REFUSED: Backoff = Backoff {
    first: Duration::from_secs(2),
    longest: Duration::from_mins(5),
    longest_unreachable: Duration::from_secs(4),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Jitter, Refusal};

    #[test]
    fn who_may_not_looks_again_after_seconds_at_first_and_after_minutes_in_the_end() {
        let trouble = Trouble::Refused(Refusal { code: 403, ..Refusal::default() });
        assert!(trouble.is_forbidden());
        for (random, first, last) in [(1.0, 2, 300), (0.0, 1, 150)] {
            let mut refusals = Failures::new(REFUSED, Jitter::new(move || random));
            let pauses: Vec<_> = (0..12).map(|_| refusals.pause(Some(&trouble)).as_secs()).collect();
            assert_eq!((pauses[0], pauses[11]), (first, last), "{pauses:?}");
            assert!(pauses.windows(2).all(|pair| pair[1] >= pair[0]), "{pauses:?}");
        }
    }
}
