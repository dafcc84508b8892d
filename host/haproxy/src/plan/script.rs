//! Collects operations by phase, and gives the decision in the end.

use std::sync::Arc;

use haptic_model::{FilePath, Op, Reason, ReasonCode, Verdict};

use crate::plan::{Diff, MAX_OPERATIONS, MAX_PENDING_BACKENDS, MAX_PENDING_SERVERS, MAX_REASONS, Sides};

/// The phases stand in the order in which they run: create what is new, switch to it, remove what is old.
#[derive(Default)]
pub(super) struct Script {
    /// New content of what is loaded, and new certificates: before anything that refers to them.
    pub(super) credentials: Vec<Op>,
    /// New backends with their servers, not yet published.
    pub(super) backend_adds: Vec<Op>,
    /// Changes of, and additions to, the servers of backends that the worker has.
    pub(super) server_updates: Vec<Op>,
    pub(super) publishes: Vec<Op>,
    pub(super) map_upserts: Vec<Op>,
    pub(super) crt_lists: Vec<Op>,
    pub(super) map_deletes: Vec<Op>,
    pub(super) unpublishes: Vec<Op>,
    pub(super) server_deletes: Vec<Op>,
    pub(super) backend_deletes: Vec<Op>,
    pub(super) credential_deletes: Vec<Op>,

    /// Servers that are gone for good, so that they may stop taking traffic before the reload that removes them.
    pub(super) retirable: Vec<(Arc<str>, Arc<str>)>,
    /// A section that is no backend changed: what the maps mean may change with the reload.
    pub(super) core_changed: bool,

    pub(super) changed_files: Vec<FilePath>,
    pub(super) removed_files: Vec<FilePath>,
    pub(super) reasons: Vec<Reason>,
    pub(super) notes: Vec<Reason>,
}

// === impl Script ===

impl Script {
    pub(super) fn reload(&mut self, code: ReasonCode, message: impl Into<String>) {
        self.reasons.push(Reason::new(code, message));
    }

    pub(super) fn note(&mut self, code: ReasonCode, message: impl Into<String>) {
        self.notes.push(Reason::new(code, message));
    }

    pub(super) fn finish(mut self, sides: Sides<'_>) -> Diff {
        self.bound(sides);
        let in_place_ops = self.in_place(sides);
        let ops = if self.reasons.is_empty() { self.ops() } else { Vec::new() };
        let verdict = if !self.reasons.is_empty() {
            Verdict::Reload
        } else if !ops.is_empty() {
            Verdict::Runtime
        } else if !self.changed_files.is_empty() || !self.removed_files.is_empty() {
            Verdict::FileOnly
        } else {
            Verdict::Noop
        };
        Diff {
            verdict,
            ops,
            in_place_ops,
            changed_files: self.changed_files,
            removed_files: self.removed_files,
            reasons: capped(self.reasons),
            notes: capped(self.notes),
        }
    }

    /// Many operations, or many removals that wait, are worse than one reload.
    fn bound(&mut self, sides: Sides<'_>) {
        let count = self.phases().iter().map(|phase| phase.len()).sum::<usize>();
        if count > MAX_OPERATIONS {
            let message = format!(
                "the change needs {count} runtime commands, and more than {MAX_OPERATIONS} are slower than a reload"
            );
            self.reload(ReasonCode::TooManyOperations, message);
        }
        let waiting =
            |server: bool| sides.baseline.pending_deletes.iter().filter(|name| name.contains('/') == server).count();
        let (servers, backends) = (self.server_deletes.len(), self.backend_deletes.len());
        if servers > 0 && waiting(true) + servers > MAX_PENDING_SERVERS {
            let message = format!("more than {MAX_PENDING_SERVERS} servers would wait for their removal at one time");
            self.reload(ReasonCode::TooManyOperations, message);
        }
        if backends > 0 && waiting(false) + backends > MAX_PENDING_BACKENDS {
            let message = format!("more than {MAX_PENDING_BACKENDS} backends would wait for their removal at one time");
            self.reload(ReasonCode::TooManyOperations, message);
        }
    }

    fn phases(&self) -> [&Vec<Op>; 11] {
        [
            &self.credentials,
            &self.backend_adds,
            &self.server_updates,
            &self.publishes,
            &self.map_upserts,
            &self.crt_lists,
            &self.map_deletes,
            &self.unpublishes,
            &self.server_deletes,
            &self.backend_deletes,
            &self.credential_deletes,
        ]
    }

    fn ops(&self) -> Vec<Op> {
        self.phases().into_iter().flatten().cloned().collect()
    }

    /// What the worker can take at once while it waits for a reload: nothing here needs what only the reload brings,
    /// and nothing takes away what only the reload replaces.
    fn in_place(&self, sides: Sides<'_>) -> Vec<Op> {
        let mut ops: Vec<Op> = self
            .credentials
            .iter()
            .filter(|op| matches!(op, Op::CertSet { .. } | Op::CaSet { .. } | Op::CrlSet { .. }))
            .cloned()
            .collect();
        // A server that is to use a certificate of this diff waits: certificates are only created with the whole.
        let creates = self.credentials.iter().any(|op| matches!(op, Op::CertNew { .. }));
        let waiting: Vec<_> = self.server_updates.iter().filter_map(needs_certificate).filter(|_| creates).collect();
        let waits = |op: &&Op| server_of(op).is_some_and(|server| waiting.contains(&server));
        ops.extend(self.server_updates.iter().filter(|op| !waits(op)).cloned());
        ops.extend(self.retirable.iter().map(|(backend, server)| Op::ServerSetState {
            backend: backend.clone(),
            server: server.clone(),
            state: haptic_model::ServerState::Maint,
        }));
        if !self.maps_wait(sides) {
            ops.extend(self.map_upserts.iter().chain(&self.map_deletes).cloned());
        }
        ops
    }

    /// Map operations go together: one that must wait for the reload holds all of them.
    fn maps_wait(&self, sides: Sides<'_>) -> bool {
        let only_after_reload =
            |value: &str| sides.next.backends.contains_key(value) && !sides.old.backends.contains_key(value);
        let upsert_waits = |op: &Op| match op {
            Op::MapAdd { value, .. } | Op::MapSet { value, .. } => only_after_reload(value),
            Op::MapReplace { map } => {
                // A replacement also removes, see below.
                self.core_changed
                    || crate::plan::maps::entries(sides.next, map).iter().any(|entry| only_after_reload(&entry.value))
            }
            _ => false,
        };
        // An entry that denies something must stay until the text that takes its place is loaded.
        (self.core_changed && !self.map_deletes.is_empty()) || self.map_upserts.iter().any(upsert_waits)
    }
}

/// The server that this operation adds with a certificate.
fn needs_certificate(op: &Op) -> Option<(&str, &str)> {
    let Op::ServerAdd { keywords, .. } = op else { return None };
    server_of(op).filter(|_| crate::plan::keywords::has(keywords, "crt"))
}

fn server_of(op: &Op) -> Option<(&str, &str)> {
    match op {
        Op::ServerAdd { backend, server, .. } | Op::ServerEnable { backend, server, .. } => Some((backend, server)),
        _ => None,
    }
}

fn capped(mut reasons: Vec<Reason>) -> Vec<Reason> {
    if reasons.len() > MAX_REASONS {
        let more = reasons.len() - MAX_REASONS;
        let code = reasons[MAX_REASONS].code;
        reasons.truncate(MAX_REASONS);
        reasons.push(Reason::new(code, format!("and {more} more")));
    }
    reasons
}
