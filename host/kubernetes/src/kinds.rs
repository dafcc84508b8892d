//! Hears of custom resource definitions that come, change and go, so that nobody has to ask again and again.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    Api, Content, Trouble, Wanted,
    backoff::Failures,
    decode::{Event, read_event, read_page},
    discovery::Served,
    request::Scope,
};

/// Counts up whenever the server may serve other resources than before.
pub(crate) type Revision = watch::Sender<u64>;

/// Never ends. Who may not watch definitions is left to asking from time to time.
pub(crate) async fn watch_definitions(api: Api, mut failures: Failures, revision: Arc<Revision>) {
    let scope = scope();
    loop {
        let Err(trouble) = watch(&api, &scope, &mut failures, &revision).await else {
            sleep(failures.pause(None)).await;
            continue;
        };
        let pause = if trouble.is_forbidden() {
            tracing::info!(%trouble, "may not watch custom resource definitions; their changes are found more slowly");
            FORBIDDEN
        } else {
            tracing::debug!(%trouble, "watching custom resource definitions failed");
            failures.pause(Some(&trouble))
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

const FORBIDDEN: Duration = Duration::from_mins(5);
