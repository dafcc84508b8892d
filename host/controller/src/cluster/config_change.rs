//! The ConfigChangeHandler: judges the newest candidate while the iteration serves, one at a time; a newer one ends the
//! judgement of an older. What passes goes to the ReloadAuthority as a snapshot, what does not leaves everything as it is
//! and is told.

use std::{sync::Arc, time::Duration};

use haptic_model::Finding;
use tokio::{sync::watch, task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    bus::EventBus,
    cluster::{
        accepted::{AcceptedSnapshot, Loader, NotAccepted},
        config_watch::{ConfigPicture, ConfigPictures},
        reload_authority::ReloadAuthority,
        standing::{ConfigStanding, Refused},
    },
    events::Event,
};

pub(crate) struct ConfigChangeHandler {
    pub bus: Arc<EventBus>,
    pub pictures: ConfigPictures,
    /// What the iteration is made of.
    pub active: Arc<ConfigPicture>,
    /// The iteration was made without modules that may still come.
    pub active_waits: bool,
    pub loader: Loader,
    pub authority: Arc<ReloadAuthority>,
    pub standing: Arc<watch::Sender<Arc<ConfigStanding>>>,
    pub stop: CancellationToken,
}

/// A candidate that is judged.
struct Trial {
    picture: Arc<ConfigPicture>,
    verdict: JoinHandle<Result<AcceptedSnapshot, NotAccepted>>,
}

/// What was judged last.
struct Judged {
    picture: Arc<ConfigPicture>,
    /// It was judged without modules that may still come.
    waits: bool,
    /// It did not pass because of something that nobody tells when it comes.
    ask_again: bool,
    /// It did not pass.
    refused: bool,
}

// === impl ConfigChangeHandler ===

impl ConfigChangeHandler {
    /// Ends when it is told to stop.
    pub(crate) async fn run(mut self) {
        let mut modules = self.loader.gate.loader.modules().changed();
        // One may have come since the iteration was made.
        modules.mark_changed();
        let mut judged =
            Judged { picture: self.active.clone(), waits: self.active_waits, ask_again: false, refused: false };
        let mut trial: Option<Trial> = None;
        // What changed while the iteration was made.
        self.pictures.mark_changed();
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                changed = self.pictures.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    let newest = self.pictures.borrow_and_update().clone();
                    let Some(picture) = newest else { continue };
                    if !picture.makes_the_same(&judged.picture) {
                        judged = Judged { picture: picture.clone(), waits: false, ask_again: false, refused: false };
                        self.try_out(picture, &mut trial);
                    } else if judged.refused && picture.has_other_credentials(&judged.picture) {
                        // What was missing may be there now.
                        judged.picture = picture.clone();
                        self.judge(picture, &mut trial);
                    }
                }
                verdict = verdict_of(&mut trial) => {
                    if let Some(trial) = trial.take() {
                        judged = self.conclude(trial.picture, verdict);
                        modules.mark_changed();
                    }
                }
                Ok(()) = modules.changed() => {
                    if self.loader.gate.look_again() && judged.waits && trial.is_none() {
                        self.judge(judged.picture.clone(), &mut trial);
                    }
                }
                () = sleep(LOOK_AGAIN), if judged.ask_again && trial.is_none() => {
                    self.judge(judged.picture.clone(), &mut trial);
                }
            }
        }
        end(trial.take()).await;
    }

    fn try_out(&self, picture: Arc<ConfigPicture>, trial: &mut Option<Trial>) {
        let name = picture.objects.name();
        self.bus.publish(Event::ConfigParsed { correlation: self.bus.correlate(), name: name.clone() });
        if self.authority.parsed() {
            tracing::info!(target: "haptic::config", "{name} is newer than the accepted candidate, which is given up");
        }
        if picture.credentials_key() == self.active.credentials_key() {
            self.authority.credentials_restored();
        }
        if picture.makes_the_same(&self.active) {
            // What serves is what is wanted again.
            cancel(trial.take());
            self.tell(None);
            return;
        }
        self.judge(picture, trial);
    }

    fn judge(&self, picture: Arc<ConfigPicture>, trial: &mut Option<Trial>) {
        cancel(trial.take());
        let (loader, candidate) = (self.loader.clone(), picture.clone());
        let verdict = tokio::spawn(async move { loader.load(candidate).await });
        *trial = Some(Trial { picture, verdict });
    }

    fn conclude(&self, picture: Arc<ConfigPicture>, verdict: Result<AcceptedSnapshot, NotAccepted>) -> Judged {
        let mut judged = Judged { picture, waits: false, ask_again: false, refused: true };
        match verdict {
            Ok(snapshot) => {
                judged = Judged { waits: snapshot.waits, refused: false, ..judged };
                tracing::info!(target: "haptic::config", "{} is accepted", snapshot.candidate.name);
                if judged.picture.credentials_key() != self.active.credentials_key() {
                    self.authority.credentials_changed();
                }
                self.tell(None);
                self.authority.accepted(snapshot);
            }
            Err(NotAccepted::Refused { findings, waits }) => {
                self.refuse(&judged.picture, findings.into());
                (judged.waits, judged.ask_again) = (waits, waits);
            }
            Err(error @ (NotAccepted::Unresolved(_) | NotAccepted::Stopped(_))) => {
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::warn!(target: "haptic::config", error, "the candidate cannot be judged now; trying again");
                judged.ask_again = true;
            }
        }
        judged
    }

    fn refuse(&self, picture: &ConfigPicture, findings: Arc<[Finding]>) {
        let refused = Refused { generation: picture.generation, findings: findings.clone() };
        if self.tell(Some(refused)) {
            let (correlation, name) = (self.bus.correlate(), picture.objects.name());
            self.bus.publish(Event::ConfigInvalid { correlation, name, findings });
        }
    }

    /// Says whether that is news.
    fn tell(&self, refused: Option<Refused>) -> bool {
        self.standing.send_if_modified(|standing| {
            if standing.refused == refused {
                return false;
            }
            Arc::make_mut(standing).refused = refused;
            true
        })
    }
}

async fn verdict_of(trial: &mut Option<Trial>) -> Result<AcceptedSnapshot, NotAccepted> {
    match trial {
        Some(trial) => (&mut trial.verdict).await.unwrap_or_else(|error| Err(error.into())),
        None => std::future::pending().await,
    }
}

/// Its verdict is of no use any more.
fn cancel(trial: Option<Trial>) {
    if let Some(trial) = trial {
        trial.verdict.abort();
    }
}

async fn end(trial: Option<Trial>) {
    if let Some(trial) = trial {
        trial.verdict.abort();
        // Joined, so that nothing of this iteration runs beside the next.
        let _ = trial.verdict.await;
    }
}

/// How soon a candidate is judged again that waits for something else.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
