//! The feed: one task that owns the source. Objects of watched resources go to the serving core's store and through the
//! ResourceWatcher; objects of haptic's own group make a configuration candidate, which goes through the load gate on
//! a blocking thread while everything else goes on, and takes over in place when it passes. A candidate that was judged
//! without a module that could not be fetched is judged again when the module comes.

mod trial;

use std::{sync::Arc, time::Duration};

use haptic_model::{Finding, ObjectRef};
use haptic_store::{Changed, RawChange};
use thiserror::Error;
use tokio::{sync::watch, task::JoinError};
use tokio_util::sync::CancellationToken;

use crate::{
    bus::EventBus,
    check::{Cancellation, ConfigCheck},
    clock::{WallClock, until},
    config::{self, Candidate, ConfigObjects},
    core::{ActiveCore, Core, fingerprint},
    events::{Change, ChangedObject, Event},
    feed::trial::{Judge, Trial, Verdict, ended},
    load_gate::{Accepted, ConfigValidationRequest, Serving},
    plugin_loader::{PluginLoader, PluginState, PluginStates},
    quarantine::Quarantine,
    source::{Picture, Source, SourceError, SourceUpdate},
    watcher::ResourceWatcher,
};

/// What is wrong with manifests, for the status.
pub type SourceFindings = watch::Sender<ManifestFindings>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestFindings {
    /// What the source could not read.
    manifests: Vec<Finding>,
    /// What does not decode of haptic's own kinds, referenced or not.
    own: Vec<Finding>,
}

/// What the load gate needs besides the candidate.
#[derive(Clone)]
pub struct GateParts {
    pub check: Arc<dyn ConfigCheck>,
    pub loader: PluginLoader,
    pub haproxy: (u16, u16),
    pub clock: WallClock,
    /// How long a candidate waits for the first attempt at its modules before it is judged without those that did not
    /// come. What comes later has it judged again.
    pub fetch_patience: Duration,
    /// What is known about each plugin of the newest configuration.
    pub plugins: Arc<PluginStates>,
}

pub struct Feed {
    bus: Arc<EventBus>,
    source: Box<dyn Source>,
    picture: Picture,
    watcher: ResourceWatcher,
    core: ActiveCore,
    quarantine: Arc<Quarantine>,
    gate: GateParts,
    findings: Arc<SourceFindings>,
    stop: CancellationToken,
    judged: ConfigObjects,
    /// The judged set was judged without modules that may still come.
    waits: bool,
    modules: watch::Receiver<u64>,
    trial: Option<Trial>,
}

#[derive(Debug, Error)]
pub enum FeedError {
    #[error("the source of objects failed")]
    Source(#[from] SourceError),
    #[error("the load gate stopped unexpectedly")]
    Gate(#[source] JoinError),
}

/// The first accepted configuration, before any stage runs.
pub struct FirstLoad {
    pub start: FeedStart,
    pub accepted: Accepted,
}

/// Where a feed goes on.
pub struct FeedStart {
    source: Box<dyn Source>,
    picture: Picture,
    judged: ConfigObjects,
    waits: bool,
}

// === impl ManifestFindings ===

impl ManifestFindings {
    #[cfg(test)]
    pub(crate) fn of(manifests: Vec<Finding>) -> Self {
        Self { manifests, own: Vec::new() }
    }

    /// Where there are no manifests: what does not decode of haptic's own kinds.
    pub(crate) fn of_own(own: Vec<Finding>) -> Self {
        Self { manifests: Vec::new(), own }
    }

    pub fn all(&self) -> impl Iterator<Item = &Finding> {
        self.manifests.iter().chain(&self.own)
    }
}

// === impl FirstLoad ===

impl FirstLoad {
    /// Reads the source and waits until it has a configuration that passes. `rejected` hears why one does not and says
    /// whether to wait for a better one.
    pub async fn wait(
        mut source: Box<dyn Source>,
        gate: &GateParts,
        findings: &SourceFindings,
        rejected: impl Fn(&[Finding]) -> Patience,
    ) -> Result<Result<Self, Vec<Finding>>, FeedError> {
        let mut picture = Picture::default();
        let mut modules = gate.loader.modules().changed();
        let update = source.first().await?;
        take(&mut picture, &update, findings);
        loop {
            let judged = ConfigObjects::pick(picture.objects().cloned());
            let trial = Judge { objects: judged.clone(), gate: gate.clone(), serving: None };
            // A change that comes meanwhile waits: nothing serves that it could make better.
            let (waiting, cancelled) = (CancellationToken::new(), Cancellation::new());
            let verdict = trial.run(picture.as_changes(), waiting, cancelled).await.map_err(FeedError::Gate)?;
            let mistakes = match verdict.outcome {
                Ok(accepted) => {
                    let start = FeedStart { source, picture, judged, waits: verdict.waits };
                    return Ok(Ok(Self { start, accepted }));
                }
                Err(mistakes) => mistakes,
            };
            if rejected(&mistakes) == Patience::GiveUp {
                return Ok(Err(mistakes));
            }
            loop {
                tokio::select! {
                    update = source.next() => {
                        take(&mut picture, &update?, findings);
                        break;
                    }
                    Ok(()) = modules.changed() => if gate.look_again() && verdict.waits {
                        break;
                    },
                }
            }
        }
    }
}

/// What to do when the first configuration does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    WaitForChange,
    GiveUp,
}

// === impl Feed ===

impl Feed {
    /// Goes on where the first load ended; its core already serves.
    pub fn new(
        bus: &Arc<EventBus>,
        start: FeedStart,
        core: ActiveCore,
        quarantine: Arc<Quarantine>,
        gate: GateParts,
        findings: Arc<SourceFindings>,
        stop: CancellationToken,
    ) -> Self {
        let mut modules = gate.loader.modules().changed();
        // One may have come since the first load.
        modules.mark_changed();
        let mut feed = Self {
            bus: bus.clone(),
            source: start.source,
            picture: start.picture,
            watcher: ResourceWatcher::default(),
            core,
            quarantine,
            gate,
            findings,
            stop,
            judged: start.judged,
            waits: start.waits,
            modules,
            trial: None,
        };
        feed.configure_windows();
        feed
    }

    /// Ends when it is told to stop, or when the source fails.
    pub async fn run(mut self) -> Result<(), FeedError> {
        loop {
            let due = self.watcher.due();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                update = self.source.next() => self.take(&update?),
                () = until(due) => self.watcher.publish_due(&self.bus),
                verdict = ended(&mut self.trial) => self.conclude(verdict.map_err(FeedError::Gate)?),
                Ok(()) = self.modules.changed() => self.look_at_modules(),
            }
        }
        if let Some(trial) = self.trial {
            trial.cancel();
            // Cancelled or not, its verdict is of no use any more.
            let _ = trial.verdict.await;
        }
        Ok(())
    }

    fn take(&mut self, update: &SourceUpdate) {
        take(&mut self.picture, update, &self.findings);
        let plain: Vec<RawChange> = update.changes.iter().map(|(change, _)| change.clone()).collect();
        if let Some(trial) = &mut self.trial {
            trial.since.extend(plain.iter().cloned());
        }
        // The index takes the change at once; only the event about it waits in a window.
        let core = self.core.get();
        let changed = core.store.lock().sync(&plain);
        if !changed.is_empty() {
            self.announce(&core, &changed, &update.changes);
        }
        // Looking through all objects is not for the path of an endpoint change.
        if plain.iter().any(|change| self.judged.concerned(change)) {
            let objects = ConfigObjects::pick(self.picture.objects().cloned());
            if !objects.same(&self.judged) {
                self.try_out(objects);
            }
        }
    }

    /// One event for each resource that a changed object belongs to.
    fn announce(&mut self, core: &Core, changed: &Changed, changes: &[(RawChange, Change)]) {
        let store = core.store.lock();
        for resource in store.resources().filter(|resource| changed.resources.contains(&resource.name)) {
            for (change, kind) in changes {
                let (group, object) = match change {
                    RawChange::Upsert(object) => (object.group(), object.reference()),
                    RawChange::Delete(key) => {
                        let (kind, namespace, name) = (key.kind.clone(), key.namespace.clone(), key.name.clone());
                        (&*key.group, ObjectRef { kind, namespace, name })
                    }
                };
                let serves = |version: &String| {
                    version.rsplit_once('/').map_or("", |(group, _)| group) == group
                        && resource.serves(version, &object.kind)
                };
                if changed.objects.contains(&object) && resource.versions.iter().any(serves) {
                    self.watcher.changed(&self.bus, &resource.name, ChangedObject { object, change: *kind });
                }
            }
        }
    }

    fn try_out(&mut self, objects: ConfigObjects) {
        if let Some(trial) = &mut self.trial {
            trial.outdated = true;
            trial.cancel();
            return;
        }
        self.judged = objects.clone();
        let cancellation = Cancellation::new();
        let serving =
            Some(Serving { quarantined: self.quarantine.units(), core: self.core.get(), haproxy: self.gate.haproxy });
        let changes = self.picture.as_changes();
        let waiting = CancellationToken::new();
        let judge = Judge { objects, gate: self.gate.clone(), serving };
        let verdict = tokio::spawn(judge.run(changes, waiting.clone(), cancellation.clone()));
        self.trial = Some(Trial { verdict, waiting, cancellation, since: Vec::new(), outdated: false });
        let name = self.core.get().name.clone();
        self.bus.publish(Event::ConfigParsed { correlation: self.bus.correlate(), name });
    }

    /// A module came, or failed for another reason.
    fn look_at_modules(&mut self) {
        let came = self.gate.look_again();
        // A trial that runs looks again at its end.
        if came && self.waits && self.trial.is_none() {
            self.try_out(self.judged.clone());
        }
    }

    fn conclude(&mut self, verdict: Verdict) {
        let Some(trial) = self.trial.take() else { return };
        self.waits = verdict.waits;
        if trial.outdated {
            let objects = ConfigObjects::pick(self.picture.objects().cloned());
            return self.try_out(objects);
        }
        let correlation = self.bus.correlate();
        let name = verdict.name;
        match verdict.outcome {
            Ok(accepted) => {
                accepted.core.store.lock().sync(&trial.since);
                let snapshot = accepted.core.store.lock().snapshot();
                self.quarantine.clear();
                self.quarantine.add(accepted.refused, |object| fingerprint(&snapshot, object));
                self.core.replace(Arc::new(accepted.core));
                self.configure_windows();
                let warnings = accepted.warnings.into();
                self.bus.publish(Event::ConfigValidated { correlation, name, warnings });
            }
            Err(findings) => {
                self.bus.publish(Event::ConfigInvalid { correlation, name, findings: findings.into() });
            }
        }
        // What came while the candidate was judged without it.
        self.look_at_modules();
    }

    fn configure_windows(&mut self) {
        let core = self.core.get();
        let store = core.store.lock();
        self.watcher.configure(store.resources().map(|resource| (resource.name.clone(), resource.debounce)));
    }
}

fn is_config(change: &RawChange) -> bool {
    match change {
        RawChange::Upsert(object) => object.group() == haptic_api::GROUP,
        RawChange::Delete(key) => *key.group == *haptic_api::GROUP,
    }
}

fn take(picture: &mut Picture, update: &SourceUpdate, findings: &SourceFindings) {
    picture.take(&update.changes);
    findings.send_if_modified(|known| {
        // Objects of our own group are few, but looking for them is not for the path of an endpoint change.
        let own = update.changes.iter().any(|(change, _)| is_config(change));
        if !own && known.own.is_empty() && known.manifests == update.findings {
            return false;
        }
        let own = if own { config::mistakes(picture.objects()) } else { known.own.clone() };
        let next = ManifestFindings { manifests: update.findings.clone(), own };
        let changed = *known != next;
        for finding in next.all().filter(|finding| !known.all().any(|known| known == *finding)) {
            tracing::warn!(target: "haptic::finding", code = %finding.code, "{finding}");
        }
        *known = next;
        changed
    });
}

// === impl GateParts ===

impl GateParts {
    /// What the validators are asked about a candidate, at this moment.
    pub(crate) fn request<'a>(
        &'a self,
        candidate: &'a Candidate,
        cancelled: &'a Cancellation,
    ) -> ConfigValidationRequest<'a> {
        let now = self.clock.now();
        ConfigValidationRequest { candidate, check: &*self.check, haproxy: self.haproxy, now, cancelled }
    }

    /// Brings up to date what is known about missing modules. Says whether one came.
    pub(crate) fn look_again(&self) -> bool {
        let mut came = false;
        // A trial may store newer states at any time: what is brought up to date must be what is there.
        self.plugins.send_if_modified(|known| {
            let mut states = (**known).clone();
            came = self.loader.look_again(&mut states);
            let told =
                |states: &[PluginState]| -> Vec<_> { states.iter().map(|state| state.progress.clone()).collect() };
            let changed = told(known) != told(&states);
            if changed {
                *known = Arc::new(states);
            }
            changed
        });
        came
    }
}

#[cfg(test)]
mod tests;
