//! How the iterations stand, and what follows for each probe.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use crate::cluster::probes::Stage;

/// How long a start or a reload may take before `/healthz` says no, however often it is tried anew. Longer than the
/// load gate may take for a large suite of validation tests.
pub const START_GRACE: Duration = Duration::from_mins(5);

/// How all iterations of this process stand. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Health(Arc<Shared>);

/// What one iteration tells of itself. Cheap to clone. What is told after [`Self::failed`] or [`Self::retired`] is not
/// heard.
#[derive(Clone, Debug)]
pub struct IterationHealth {
    health: Health,
    number: u64,
}

/// The answer to one probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    #[serde(skip)]
    pub ok: bool,
    /// `ok` or `unavailable`.
    pub status: &'static str,
    pub reason: String,
    /// Of the iteration that was judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// What each component of it waits for; those that wait for nothing are not named.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<&'static str, String>,
    /// All iterations, by their numbers.
    pub iterations: BTreeMap<u64, String>,
}

#[derive(Debug)]
struct Shared {
    grace: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    iterations: BTreeMap<u64, Iteration>,
    /// Since when no iteration serves; `None` = one does. A process begins with it, and retries do not renew it.
    silent_since: Option<Instant>,
    /// Since when a reload is under way beside an iteration that serves; reloads that displace it do not renew it.
    reload_since: Option<Instant>,
    /// An iteration served once.
    served: bool,
    stopping: bool,
    /// What the process needs besides an iteration that serves and does not have, by who needs it.
    unmet: BTreeMap<&'static str, String>,
}

#[derive(Debug)]
struct Iteration {
    stage: Option<Stage>,
    phase: Phase,
    components: BTreeMap<&'static str, String>,
}

#[derive(Debug)]
enum Phase {
    Starting,
    Serving,
    Failed(String),
}

// === impl Health ===

impl Health {
    /// Starts the first episode of grace; default [`START_GRACE`].
    pub fn new(grace: Duration) -> Self {
        let state = State {
            iterations: BTreeMap::new(),
            silent_since: Some(Instant::now()),
            reload_since: None,
            served: false,
            stopping: false,
            unmet: BTreeMap::new(),
        };
        Self(Arc::new(Shared { grace, state: Mutex::new(state) }))
    }

    /// An iteration begins. Numbers grow.
    pub fn iteration(&self, number: u64) -> IterationHealth {
        let mut state = self.0.state.lock();
        state.iterations.retain(|_, known| !matches!(known.phase, Phase::Failed(_)));
        state.iterations.insert(number, Iteration { stage: None, phase: Phase::Starting, components: BTreeMap::new() });
        if state.silent_since.is_none() {
            state.reload_since.get_or_insert_with(Instant::now);
        }
        IterationHealth { health: self.clone(), number }
    }

    /// The process was told to end: it is not ready any more, whatever serves.
    pub fn stop(&self) {
        self.0.state.lock().stopping = true;
    }

    /// The process was told to end.
    pub fn is_stopping(&self) -> bool {
        self.0.state.lock().stopping
    }

    /// What the process needs besides an iteration and does not have: it is not ready meanwhile. `None` = it has it.
    pub fn require(&self, who: &'static str, unmet: Option<String>) {
        let mut state = self.0.state.lock();
        match unmet {
            Some(reason) => drop(state.unmet.insert(who, reason)),
            None => drop(state.unmet.remove(who)),
        }
    }

    /// Judges the newest iteration.
    pub fn healthz(&self) -> Report {
        let state = self.0.state.lock();
        let newest = state.iterations.last_key_value();
        if let Some(since) = state.silent_since {
            return state.report(
                since.elapsed() <= self.0.grace,
                newest,
                &match newest {
                    None => "no iteration has begun".to_owned(),
                    Some(_) => format!("nothing serves for {} s", since.elapsed().as_secs()),
                },
            );
        }
        let hangs = matches!(newest, Some((_, Iteration { phase: Phase::Starting, .. })));
        match state.reload_since.filter(|since| hangs && since.elapsed() > self.0.grace) {
            Some(since) => {
                let reason =
                    format!("a reload is under way for {} s; the one before serves", since.elapsed().as_secs());
                state.report(false, newest, &reason)
            }
            None => state.report(true, newest, "an iteration serves"),
        }
    }

    /// Whether an iteration serves, everything that is required is there, and the process goes on.
    pub fn readyz(&self) -> Report {
        let state = self.0.state.lock();
        let serving = state.serving();
        if state.stopping {
            return state.report(false, serving, "the process was told to end");
        }
        if let (Some(_), Some((who, reason))) = (serving, state.unmet.first_key_value()) {
            return state.report(false, serving, &format!("{who}: {reason}"));
        }
        match serving {
            Some(_) => state.report(true, serving, "an iteration serves"),
            None => state.report(false, state.iterations.last_key_value(), "no iteration serves"),
        }
    }

    /// Whether a restart would help: an iteration served once, and none has for longer than the grace.
    pub fn livez(&self) -> Report {
        let state = self.0.state.lock();
        let dead = state.silent_since.filter(|since| state.served && since.elapsed() > self.0.grace);
        match dead {
            Some(since) if !state.stopping => {
                let reason = format!("nothing serves for {} s", since.elapsed().as_secs());
                state.report(false, state.iterations.last_key_value(), &reason)
            }
            _ => state.report(true, state.serving(), "the process runs"),
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::new(START_GRACE)
    }
}

// === impl IterationHealth ===

impl IterationHealth {
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Enters a stage, and logs it.
    pub fn stage(&self, stage: Stage) {
        stage.log(self.number);
        self.change(|iteration| iteration.stage = Some(stage));
    }

    /// What a component waits for or complains of, for a person; `None` = nothing. It decides nothing.
    pub fn component(&self, component: &'static str, reason: Option<String>) {
        self.change(|iteration| match reason {
            Some(reason) => drop(iteration.components.insert(component, reason)),
            None => drop(iteration.components.remove(component)),
        });
    }

    /// It has passed its start.
    pub fn serving(&self) {
        if self.change(|iteration| iteration.phase = Phase::Serving) {
            let mut state = self.health.0.state.lock();
            state.served = true;
            state.silent_since = None;
            state.reload_since = None;
        }
    }

    /// It ended by itself, before or after it served. `reason` is shown to anybody who asks: it names no secret.
    pub fn failed(&self, reason: impl Into<String>) {
        self.change(|iteration| iteration.phase = Phase::Failed(reason.into()));
        self.health.0.state.lock().one_less();
    }

    /// It was ended, because another one serves or the process ends.
    pub fn retired(&self) {
        let mut state = self.health.0.state.lock();
        // A failure stays to be read until the next iteration begins.
        if !matches!(state.iterations.get(&self.number), Some(Iteration { phase: Phase::Failed(_), .. })) {
            state.iterations.remove(&self.number);
        }
        state.one_less();
    }

    /// Whether there was something to change.
    fn change(&self, change: impl FnOnce(&mut Iteration)) -> bool {
        let mut state = self.health.0.state.lock();
        let under_way = |iteration: &&mut Iteration| !matches!(iteration.phase, Phase::Failed(_));
        state.iterations.get_mut(&self.number).filter(under_way).map(change).is_some()
    }
}

// === impl State ===

impl State {
    fn serving(&self) -> Option<(&u64, &Iteration)> {
        self.iterations.iter().rev().find(|(_, iteration)| matches!(iteration.phase, Phase::Serving))
    }

    /// An iteration is not under way any more.
    fn one_less(&mut self) {
        if self.serving().is_none() {
            self.silent_since.get_or_insert_with(Instant::now);
            self.reload_since = None;
        } else if !self.iterations.values().any(|iteration| matches!(iteration.phase, Phase::Starting)) {
            self.reload_since = None;
        }
    }

    fn report(&self, ok: bool, judged: Option<(&u64, &Iteration)>, reason: &str) -> Report {
        let mut reason = reason.to_owned();
        if let Some((_, Iteration { phase: Phase::Failed(why), .. })) = judged {
            reason = format!("{reason}; the newest iteration failed: {why}");
        }
        Report {
            ok,
            status: if ok { "ok" } else { "unavailable" },
            reason,
            iteration: judged.map(|(number, _)| *number),
            stage: judged.and_then(|(_, iteration)| iteration.stage),
            components: judged.map(|(_, iteration)| iteration.components.clone()).unwrap_or_default(),
            iterations: self.iterations.iter().map(|(number, iteration)| (*number, iteration.to_string())).collect(),
        }
    }
}

// === impl Iteration ===

impl std::fmt::Display for Iteration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.phase, self.stage) {
            (Phase::Starting, Some(stage)) => write!(f, "starting, {stage}"),
            (Phase::Starting, None) => f.write_str("starting"),
            (Phase::Serving, _) => f.write_str("serving"),
            (Phase::Failed(reason), Some(stage)) => write!(f, "failed in {stage}: {reason}"),
            (Phase::Failed(reason), None) => write!(f, "failed: {reason}"),
        }
    }
}
