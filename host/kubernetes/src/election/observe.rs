//! The Lease as it is now, and then as it changes.

use k8s_openapi::api::coordination::v1::Lease;
use serde::Deserialize;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::{
    Api, Malformed, Trouble,
    election::ElectionSettings,
    request::escaped,
    transport::{JSON, Lines},
};

/// Tells each state of the Lease. A watch that cannot be had or went silent is made up for by asking.
pub(super) struct Observer {
    api: Api,
    settings: ElectionSettings,
    lines: Option<Lines>,
    /// A version to watch from.
    from: Option<String>,
    /// When a watch was opened last: one that ends at once is not opened again at once.
    opened: Option<Instant>,
}

#[derive(Deserialize)]
struct Line {
    r#type: String,
    object: serde_json::Value,
}

// === impl Observer ===

impl Observer {
    pub(super) fn new(api: &Api, settings: &ElectionSettings) -> Self {
        Self { api: api.clone(), settings: settings.clone(), lines: None, from: None, opened: None }
    }

    /// The next call asks anew.
    pub(super) fn forget(&mut self) {
        self.lines = None;
        self.from = None;
    }

    /// The Lease now, with the first call and after trouble; then the next change of it. `None` = there is none.
    /// Safe to cancel: then the next call asks anew or goes on.
    pub(super) async fn next(&mut self) -> Result<Option<Lease>, Trouble> {
        let told = self.told().await;
        match told {
            Some(lease) => Ok(lease),
            None => {
                self.forget();
                let lease = read(&self.api, &self.settings).await?;
                self.from = lease.as_ref().and_then(|lease| lease.metadata.resource_version.clone());
                Ok(lease)
            }
        }
    }

    /// What a watch tells; `None` if it ended or was silent for longer than a live holder would be.
    async fn told(&mut self) -> Option<Option<Lease>> {
        if self.lines.is_none() {
            let uri = self.watch_uri(self.from.as_deref()?);
            if let Some(opened) = self.opened {
                sleep_until(opened + self.settings.retry_period).await;
            }
            match self.api.lines(&uri, JSON).await {
                Ok(lines) => {
                    self.lines = Some(lines);
                    self.opened = Some(Instant::now());
                }
                Err(trouble) => {
                    tracing::debug!(%trouble, "the lease cannot be watched");
                    // Then it is asked for as often as its holder renews it.
                    sleep(self.settings.retry_period).await;
                    return None;
                }
            }
        }
        let lines = self.lines.as_mut()?;
        let silence = self.settings.retry_period * 2;
        let line = timeout(silence, lines.next()).await.ok()?.ok()??;
        let line: Line = serde_json::from_slice(&line).ok()?;
        match line.r#type.as_str() {
            "ADDED" | "MODIFIED" => serde_json::from_value(line.object).ok().map(Some),
            "DELETED" => {
                self.forget();
                Some(None)
            }
            _ => None,
        }
    }

    fn watch_uri(&self, from: &str) -> String {
        let leases = leases(&self.settings);
        let (name, open_for) = (escaped(&self.settings.name), 300);
        format!(
            "{leases}?watch=true&fieldSelector=metadata.name%3D{name}&resourceVersion={from}&timeoutSeconds={open_for}"
        )
    }
}

/// The Lease now.
pub(super) async fn read(api: &Api, settings: &ElectionSettings) -> Result<Option<Lease>, Trouble> {
    let attempt = settings.attempt();
    let answer = timeout(attempt, api.get(&path(settings), JSON)).await;
    match answer.unwrap_or(Err(Trouble::TimedOut(attempt))) {
        Ok(body) => Ok(Some(serde_json::from_slice(&body).map_err(Malformed::Json)?)),
        Err(trouble) if trouble.is_not_found() => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

pub(super) fn path(settings: &ElectionSettings) -> String {
    format!("{}/{}", leases(settings), escaped(&settings.name))
}

pub(super) fn leases(settings: &ElectionSettings) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", escaped(&settings.namespace))
}
