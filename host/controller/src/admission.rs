//! Admission: what would become of the configuration if a proposed object were stored, told before it is.
//!
//! Proposals are laid over the store, and the strict path is run on both states: render, auxiliary-file validators,
//! `haproxy -c`, rendered-output validators. What is wrong with the proposed state and was not wrong before denies.
//! What was wrong before, and is the same byte for byte, never does: one bad object must not lock the cluster.
//!
//! Proposals that wait together are judged together. If something is wrong, they are split until each has a verdict of
//! its own. Blocks: call it on a blocking thread.
//!
//! ```text
//! Store ──overlay──▶ before │ after ──render──▶ validators ─▶ haproxy -c ─▶ validators ──difference──▶ Opinion
//! ```

mod compare;
mod fresh;
mod state;
mod verdict;

use std::sync::Arc;

use haptic_model::{Finding, ObjectRef};
use haptic_render::Memo;
use haptic_store::RawChange;
use parking_lot::Mutex;

use crate::{
    check::{Cancellation, ConfigCheck},
    clock::WallClock,
    core::ActiveCore,
    quarantine::Quarantine,
};

use compare::Judging;
pub(crate) use fresh::{FreshObjects, Pinned, ReadFromApi};

/// A write that waits for its verdict.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    pub(crate) object: ObjectRef,
    /// Of each watched resource that the object may belong to.
    pub(crate) changes: Vec<(Arc<str>, RawChange)>,
}

/// What is said about one proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opinion {
    Allowed {
        warnings: Vec<Finding>,
    },
    /// It would break something that is not broken now.
    Denied {
        causes: Vec<Finding>,
    },
    /// Nobody knows; the finding says why.
    Unjudged(Finding),
}

/// Judges proposals with the configuration that serves. Its renders are its own: no reconciliation waits for them.
pub(crate) struct Admission {
    core: ActiveCore,
    quarantine: Arc<Quarantine>,
    check: Arc<dyn ConfigCheck>,
    clock: WallClock,
    /// The lowest HAProxy version among the pods.
    haproxy: Box<dyn Fn() -> (u16, u16) + Send + Sync>,
    fresh: Arc<dyn FreshObjects>,
    /// One render at a time.
    memo: Mutex<Memo>,
}

// === impl Admission ===

impl Admission {
    /// Renders once what serves, so that the first proposal finds it warm.
    pub(crate) fn warm(
        core: ActiveCore,
        quarantine: Arc<Quarantine>,
        check: Arc<dyn ConfigCheck>,
        clock: WallClock,
        haproxy: impl Fn() -> (u16, u16) + Send + Sync + 'static,
        fresh: Arc<dyn FreshObjects>,
    ) -> Self {
        // Outputs of units are shared with the renders that serve.
        let memo = Mutex::new(core.get().memo.lock().clone());
        let admission = Self { core, quarantine, check, clock, haproxy: Box::new(haproxy), fresh, memo };
        admission.render_serving();
        admission
    }

    /// One opinion for each proposal, in order. Each object is proposed at most once.
    pub(crate) fn judge(&self, proposals: &[Proposal], cancelled: &Cancellation) -> Vec<Opinion> {
        let judging = Judging::new(cancelled);
        verdict::decide(proposals, |chosen| {
            let chosen: Vec<&Proposal> = chosen.iter().map(|index| &proposals[*index]).collect();
            self.attempt(&chosen, &judging)
        })
    }
}

#[cfg(test)]
mod tests;
