//! One configuration candidate on its way through the load gate.

use std::sync::Arc;

use haptic_model::Finding;
use haptic_store::RawChange;
use tokio::{
    task::{JoinError, JoinHandle},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    check::Cancellation,
    config::ConfigObjects,
    feed::GateParts,
    load_gate::{Accepted, Serving, admit},
    plugin_loader::Loading,
};

/// A candidate in the load gate.
pub(super) struct Trial {
    pub(super) verdict: JoinHandle<Result<Verdict, JoinError>>,
    /// Ends the wait for modules.
    pub(super) waiting: CancellationToken,
    pub(super) cancellation: Cancellation,
    /// What changed since the candidate's store was filled.
    pub(super) since: Vec<RawChange>,
    /// Newer configuration objects came: the verdict is about an older set.
    pub(super) outdated: bool,
}

pub(super) struct Verdict {
    pub(super) name: Arc<str>,
    pub(super) outcome: Result<Accepted, Vec<Finding>>,
    /// Modules that may still come are missing.
    pub(super) waits: bool,
}

/// What one trial of a candidate needs.
pub(super) struct Judge {
    pub(super) objects: ConfigObjects,
    pub(super) gate: GateParts,
    pub(super) serving: Option<Serving>,
}

pub(super) async fn ended(trial: &mut Option<Trial>) -> Result<Verdict, JoinError> {
    match trial {
        Some(trial) => (&mut trial.verdict).await.flatten(),
        None => std::future::pending().await,
    }
}

// === impl Trial ===

impl Trial {
    pub(super) fn cancel(&self) {
        self.waiting.cancel();
        self.cancellation.cancel();
    }
}

// === impl Judge ===

impl Judge {
    /// Decodes and merges, waits a while for the modules of plugins, and judges; what blocks, on blocking threads.
    /// `changes` is everything the source has.
    pub(super) async fn run(
        self,
        changes: Vec<RawChange>,
        waiting: CancellationToken,
        cancelled: Cancellation,
    ) -> Result<Verdict, JoinError> {
        let name = self.objects.name();
        let objects = self.objects;
        let decoded = tokio::task::spawn_blocking(move || objects.candidate()).await?;
        let candidate = match decoded {
            Ok(candidate) => candidate,
            Err(findings) => return Ok(Verdict { name, outcome: Err(findings), waits: false }),
        };
        let (gate, serving) = (self.gate, self.serving);
        tokio::select! {
            () = gate.loader.want(&candidate, Instant::now() + gate.fetch_patience) => {}
            () = waiting.cancelled() => {}
        }
        tokio::task::spawn_blocking(move || {
            let Loading { set, warnings, states } = gate.loader.load(&candidate);
            let waits = states.iter().any(|state| state.missing.is_some());
            gate.plugins.send_replace(Arc::new(states));
            let request = gate.request(&candidate, &cancelled);
            let outcome = set.and_then(|plugins| admit(&request, plugins, &changes, serving.as_ref()));
            let outcome = match outcome {
                Ok(mut accepted) => {
                    accepted.warnings.splice(0..0, warnings);
                    Ok(accepted)
                }
                // A filter is unknown because its plugin is left out: both are told.
                Err(findings) => Err(findings.into_iter().chain(warnings).collect()),
            };
            Verdict { name: candidate.name.clone(), outcome, waits }
        })
        .await
    }
}
