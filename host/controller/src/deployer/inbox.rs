//! What waits for one pod: at most one assignment (latest wins) and the newest verdicts of the render gate.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use haptic_model::PlanId;
use haptic_wire::Token;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    deployer::turns::{Turn, Turns},
    pipeline::Render,
};

/// Refusals that wait; an older one is about a plan that the pod has left long since.
const REFUSALS: usize = 16;

#[derive(Debug)]
pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Clone, Debug)]
pub(super) struct Assignment {
    pub(super) deployment: u64,
    pub(super) render: Arc<Render>,
    pub(super) token: Token,
    pub(super) turns: Turns,
}

/// What an actor takes out at once.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) assignment: Option<Assignment>,
    /// Another assignment waits for its turn.
    pub(super) more: bool,
    pub(super) refused: VecDeque<PlanId>,
    pub(super) validated: Option<Validated>,
    pub(super) closed: bool,
}

/// A plan that the gate passed, and for which HAProxy versions.
#[derive(Clone, Debug)]
pub(super) struct Validated {
    pub(super) plan: PlanId,
    pub(super) versions: BTreeSet<(u16, u16)>,
}

// === impl Inbox ===

impl Inbox {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { waiting: Mutex::new(Waiting::default()), arrived: Notify::new() })
    }

    /// Returns the assignment that this one replaces.
    pub(super) fn assign(&self, assignment: Assignment) -> Option<Assignment> {
        let replaced = self.waiting.lock().assignment.replace(assignment);
        self.arrived.notify_one();
        replaced
    }

    pub(super) fn validated(&self, validated: Validated) {
        let mut waiting = self.waiting.lock();
        waiting.refused.retain(|refused| *refused != validated.plan);
        waiting.validated = Some(validated);
        drop(waiting);
        self.arrived.notify_one();
    }

    pub(super) fn refused(&self, plan: PlanId) {
        let mut waiting = self.waiting.lock();
        if waiting.refused.len() == REFUSALS {
            waiting.refused.pop_front();
        }
        waiting.refused.push_back(plan);
        drop(waiting);
        self.arrived.notify_one();
    }

    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.arrived.notify_one();
    }

    /// Waits until there is something to do. Safe to cancel.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// The turn of the assignment that waits; for ever if there is none. Safe to cancel.
    pub(super) async fn turn(&self) -> Turn {
        let turns = self.waiting.lock().assignment.as_ref().map(|assignment| assignment.turns.clone());
        match turns {
            Some(turns) => turns.next().await,
            None => std::future::pending().await,
        }
    }

    /// The same, if it has come.
    pub(super) fn turn_now(&self) -> Option<Turn> {
        self.waiting.lock().assignment.as_ref()?.turns.now()
    }

    /// Without a turn the assignment stays, so that a newer one may still replace it.
    pub(super) fn take(&self, turn: Option<&Turn>) -> Waiting {
        let mut waiting = self.waiting.lock();
        let mut kept = Waiting { closed: waiting.closed, ..Waiting::default() };
        if turn.is_none()
            && let Some(assignment) = waiting.assignment.take()
        {
            // What was said about it counts when it has its turn.
            let plan = assignment.render.plan();
            kept.refused.extend(waiting.refused.iter().filter(|refused| **refused == plan));
            kept.assignment = Some(assignment);
        }
        let more = kept.assignment.is_some();
        Waiting { more, ..std::mem::replace(&mut *waiting, kept) }
    }
}
