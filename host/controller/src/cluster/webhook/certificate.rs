//! The webhook's certificate: read from a mounted Secret, read again as it changes, waited for while it is not there.

use std::{io, path::PathBuf, time::Duration};

use haptic_model::{Digest, Framer};
use haptic_wire::tls::{CredentialsError, NotAfter, ServerPair};
use parking_lot::RwLock;
use thiserror::Error;
use tokio::time::{MissedTickBehavior, interval};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{clock::WallClock, cluster::probes::Health};

/// How often the files are looked at. A renewed Secret is in its pods after a minute or so anyway.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// From when on an end that comes nearer is a warning.
const SOON: Duration = Duration::from_hours(24);
/// How the readiness names it.
const COMPONENT: &str = "webhook certificate";

/// What the next handshake uses. Files that do not fit together keep the present certificate.
pub(super) struct WebhookCertificate {
    folder: PathBuf,
    health: Health,
    clock: WallClock,
    acceptor: RwLock<Option<TlsAcceptor>>,
}

/// What was read last, and what was said of it.
#[derive(Default)]
struct Seen {
    digest: Option<Digest>,
    complaint: Option<String>,
    not_after: Option<NotAfter>,
    warned: bool,
}

#[derive(Debug, Error)]
enum Unusable {
    #[error("{path} cannot be read; put `tls.crt` and `tls.key` into the Secret that is mounted there")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the files in {folder} are not usable")]
    Content {
        folder: PathBuf,
        #[source]
        source: CredentialsError,
    },
}

// === impl WebhookCertificate ===

impl WebhookCertificate {
    /// The process is not ready until there is a certificate.
    pub(super) fn new(folder: PathBuf, health: Health, clock: WallClock) -> Self {
        health.require(COMPONENT, Some(format!("{} was not read yet", folder.display())));
        Self { folder, health, clock, acceptor: RwLock::new(None) }
    }

    /// `None` = there is no certificate yet.
    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.acceptor.read().clone()
    }

    /// Reads the files again whenever they change, until `end`.
    pub(super) async fn follow(&self, end: &CancellationToken) {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = Seen::default();
        loop {
            tokio::select! {
                () = end.cancelled() => return,
                _ = looks.tick() => self.look(&mut seen).await,
            }
        }
    }

    async fn look(&self, seen: &mut Seen) {
        match self.read().await {
            Ok((certificate, key)) => {
                let mut framer = Framer::default();
                framer.field(&certificate).field(&key);
                let digest = framer.finish();
                if seen.digest.replace(digest) != Some(digest) {
                    self.take(&certificate, &key, seen);
                }
            }
            Err(error) => self.complain(&error, seen),
        }
        self.watch_the_end(seen);
    }

    fn take(&self, certificate: &[u8], key: &[u8], seen: &mut Seen) {
        let pair = ServerPair::from_pem(certificate, key);
        let parsed = pair.and_then(|pair| Ok((pair.server_config()?, pair.not_after())));
        match parsed {
            Ok((config, not_after)) => {
                *self.acceptor.write() = Some(TlsAcceptor::from(config));
                self.health.require(COMPONENT, None);
                tracing::info!(folder = %self.folder.display(), %not_after, "the webhook serves with this certificate");
                *seen = Seen { digest: seen.digest, not_after: Some(not_after), ..Seen::default() };
            }
            Err(source) => self.complain(&Unusable::Content { folder: self.folder.clone(), source }, seen),
        }
    }

    /// Once for each reason.
    fn complain(&self, error: &Unusable, seen: &mut Seen) {
        let mut complaint = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            complaint = format!("{complaint}: {cause}");
            source = cause.source();
        }
        if self.acceptor.read().is_none() {
            self.health.require(COMPONENT, Some(complaint.clone()));
        }
        if seen.complaint.as_ref() != Some(&complaint) {
            tracing::warn!("the webhook's certificate: {complaint}");
            seen.complaint = Some(complaint);
        }
    }

    fn watch_the_end(&self, seen: &mut Seen) {
        let Some(not_after) = seen.not_after else { return };
        let left = not_after.as_secs().saturating_sub(self.clock.now().0);
        if left < SOON.as_secs() && !seen.warned {
            seen.warned = true;
            tracing::error!(%not_after, "the webhook's certificate ends soon, and API servers refuse it then; renew it");
        }
    }

    async fn read(&self) -> Result<(Vec<u8>, Vec<u8>), Unusable> {
        let read = async |name: &str| {
            let path = self.folder.join(name);
            tokio::fs::read(&path).await.map_err(|source| Unusable::Read { path, source })
        };
        Ok((read("tls.crt").await?, read("tls.key").await?))
    }
}

#[cfg(test)]
mod tests;
