//! The state that serves and the proposed one, rendered with the same eyes.

use std::{collections::BTreeSet, sync::Arc};

use haptic_model::{Finding, FindingCode, Rendered, Severity};
use haptic_render::{Inputs, RenderError};
use haptic_store::{RawChange, Read, Snapshot};

use crate::{
    admission::{Admission, Proposal},
    core::{Core, fingerprint},
};

/// Both states. What they have in common is no proposal's doing.
pub(super) struct States {
    pub(super) before: Result<Rendered, RenderError>,
    pub(super) after: Result<Rendered, RenderError>,
    /// Proposed objects that templates would not see, and why.
    left_out: Vec<Finding>,
    /// What units of objects that findings are about asked for and did not find.
    pub(super) missing: Vec<Read>,
}

/// What the states are made from.
pub(super) struct Question<'a> {
    pub(super) core: &'a Core,
    pub(super) proposals: &'a [&'a Proposal],
    /// Objects that are there already, though the store has not seen them.
    pub(super) known: Vec<(Arc<str>, RawChange)>,
    /// Units that HAProxy refuses in both states.
    pub(super) refused: BTreeSet<Arc<str>>,
    pub(super) haproxy: (u16, u16),
}

// === impl Admission ===

impl Admission {
    /// Nobody is told what comes of it: it makes the next render warm.
    pub(super) fn render_serving(&self) {
        let core = self.core.get();
        let snapshot = core.store.lock().snapshot();
        let quarantined = self.quarantine.units();
        let inputs = Inputs { snapshot, quarantined, haproxy: (self.haproxy)() };
        if let Err(error) = core.pipeline.renderer.render(&inputs, &mut self.memo.lock()) {
            tracing::debug!(%error, "what serves cannot be rendered now");
        }
    }

    /// `None` = the proposals change nothing that a template sees.
    pub(super) fn states(&self, question: &Question<'_>) -> Option<States> {
        let (before, after, left_out) = question.snapshots();
        if left_out.is_empty() && after.changes_since(&before).is_empty() {
            return None;
        }
        // What a proposal changes is tried anew, in both states.
        let mut quarantined = self.quarantine.standing(|object| fingerprint(&after, object));
        quarantined.extend(question.refused.iter().cloned());
        let renderer = &question.core.pipeline.renderer;
        let mut memo = self.memo.lock();
        let mut render = |snapshot: Arc<Snapshot>| {
            let inputs = Inputs { snapshot, quarantined: quarantined.clone(), haproxy: question.haproxy };
            renderer.render(&inputs, &mut memo)
        };
        let before = render(before);
        let after = render(after);
        let mut states = States { before, after, left_out, missing: Vec::new() };
        let suspicious = states.suspicious();
        let objects: BTreeSet<_> = suspicious.iter().filter_map(|finding| finding.object.as_ref()).collect();
        states.missing = objects.into_iter().flat_map(|object| memo.unanswered(object)).collect();
        Some(states)
    }
}

// === impl Question ===

impl Question<'_> {
    fn snapshots(&self) -> (Arc<Snapshot>, Arc<Snapshot>, Vec<Finding>) {
        let mut store = self.core.store.lock();
        let changes = self.proposals.iter().flat_map(|proposal| &proposal.changes);
        let all: Vec<_> = self.known.iter().chain(changes).cloned().collect();
        let mut overlay = |changes: &[_]| store.overlay(changes).expect("resources are those of this store");
        let before = overlay(&self.known).snapshot;
        let after = overlay(&all);
        (before, after.snapshot, after.findings)
    }
}

// === impl States ===

impl States {
    /// What is wrong with the proposed state only.
    pub(super) fn caused(&self) -> Vec<Finding> {
        self.only_after(|finding| finding.severity == Severity::Error)
    }

    /// What the proposals' owners should know: what is new, and all that is about their objects and denies nothing.
    pub(super) fn warnings(&self, proposals: &[&Proposal]) -> Vec<Finding> {
        let mut warnings = self.only_after(|finding| finding.severity == Severity::Warning);
        warnings.extend(self.left_out.iter().cloned());
        let own =
            |finding: &&Finding| proposals.iter().any(|proposal| finding.object.as_ref() == Some(&proposal.object));
        let known: BTreeSet<&Finding> = findings(&self.before).iter().collect();
        let settled = |finding: &&Finding| finding.severity == Severity::Warning || known.contains(*finding);
        warnings.extend(findings(&self.after).iter().filter(own).filter(settled).cloned());
        warnings.sort();
        warnings.dedup();
        warnings
    }

    /// Findings that a missing object may explain.
    fn suspicious(&self) -> Vec<Finding> {
        self.only_after(|finding| {
            finding.severity == Severity::Error || finding.code == FindingCode::UnresolvedReference
        })
    }

    fn only_after(&self, wanted: impl Fn(&Finding) -> bool) -> Vec<Finding> {
        let known: BTreeSet<&Finding> = findings(&self.before).iter().collect();
        let new = findings(&self.after).iter().filter(|finding| wanted(finding) && !known.contains(finding));
        new.cloned().collect()
    }
}

fn findings(rendered: &Result<Rendered, RenderError>) -> &[Finding] {
    match rendered {
        Ok(rendered) => &rendered.findings,
        Err(error) => &error.findings,
    }
}
