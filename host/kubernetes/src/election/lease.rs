//! What stands in a Lease.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};

use crate::election::ElectionSettings;

/// The annotation with the highest epoch that was taken.
pub const FENCING_EPOCH: &str = "haptic.rs/fencing-epoch";

/// A Lease as one that takes it would write it.
pub(super) struct Claim {
    pub(super) lease: Lease,
    pub(super) epoch: u64,
}

/// What a Lease says.
pub(super) trait Claims {
    fn holder(&self) -> Option<&str>;

    /// What tells terms of one holder apart.
    fn acquired(&self) -> Option<&MicroTime>;

    /// For how long its holder may be silent.
    fn duration(&self) -> Option<Duration>;

    /// The highest epoch that may have been taken.
    fn epoch(&self) -> u64;

    fn set_epoch(&mut self, epoch: u64);
}

// === impl Claim ===

impl Claim {
    /// The first write of a term. It is optimistic: it succeeds only if the Lease is still what it was.
    pub(super) fn new(lease: Option<&Lease>, settings: &ElectionSettings, now: MicroTime, seen: u64) -> Self {
        let epoch = lease.map_or(0, Claims::epoch).max(seen).saturating_add(1);
        let mut lease = lease.cloned().unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                namespace: Some(settings.namespace.clone()),
                name: Some(settings.name.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        let transitions = lease.spec.as_ref().map(|spec| spec.lease_transitions.unwrap_or(0));
        let same_holder = lease.holder() == Some(&*settings.identity);
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(settings.identity.to_string());
        // Two terms never begin at the same time, even if the clock stands still or goes back.
        let began = spec.acquire_time.as_ref().map_or(now.clone(), |before| now.clone().max(after(before)));
        spec.acquire_time = Some(began);
        spec.renew_time = Some(now);
        spec.lease_duration_seconds = Some(seconds(settings.lease_duration));
        spec.lease_transitions = Some(transitions.map_or(0, |count| if same_holder { count } else { count + 1 }));
        lease.set_epoch(epoch);
        Self { lease, epoch }
    }

    /// The next write of a term.
    pub(super) fn renewed(lease: &Lease, settings: &ElectionSettings, now: MicroTime, epoch: u64) -> Self {
        let mut lease = lease.clone();
        let spec = lease.spec.get_or_insert_default();
        spec.renew_time = Some(now);
        spec.lease_duration_seconds = Some(seconds(settings.lease_duration));
        // Somebody may have taken the annotation away.
        lease.set_epoch(epoch);
        Self { lease, epoch }
    }

    /// The last write of a term. The epoch stays, so that the next term takes a higher one.
    pub(super) fn released(lease: &Lease, now: MicroTime, epoch: u64) -> Lease {
        let mut lease = lease.clone();
        lease.set_epoch(epoch);
        let spec = lease.spec.get_or_insert_default();
        let LeaseSpec { holder_identity, lease_duration_seconds, renew_time, .. } = spec;
        *holder_identity = None;
        *lease_duration_seconds = Some(1);
        *renew_time = Some(now);
        lease
    }

    /// The same term in a Lease that has to be made anew.
    pub(super) fn anew(mut self) -> Self {
        let ObjectMeta { namespace, name, annotations, labels, .. } = std::mem::take(&mut self.lease.metadata);
        self.lease.metadata = ObjectMeta { namespace, name, annotations, labels, ..ObjectMeta::default() };
        self
    }
}

// === impl Lease ===

impl Claims for Lease {
    fn holder(&self) -> Option<&str> {
        self.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    fn acquired(&self) -> Option<&MicroTime> {
        self.spec.as_ref()?.acquire_time.as_ref()
    }

    fn duration(&self) -> Option<Duration> {
        let seconds = self.spec.as_ref()?.lease_duration_seconds?;
        Some(Duration::from_secs(seconds.max(1).unsigned_abs().into()))
    }

    fn epoch(&self) -> u64 {
        let annotation = self.metadata.annotations.as_ref().and_then(|annotations| annotations.get(FENCING_EPOCH));
        let stored = annotation.and_then(|text| text.parse().ok()).unwrap_or(0);
        let transitions = self.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or(0);
        u64::from(transitions.max(0).unsigned_abs()).max(stored)
    }

    fn set_epoch(&mut self, epoch: u64) {
        self.metadata.annotations.get_or_insert_default().insert(FENCING_EPOCH.to_owned(), epoch.to_string());
    }
}

/// The next moment that the API can tell from this one.
fn after(time: &MicroTime) -> MicroTime {
    let next = time.0.checked_add(Duration::from_micros(1));
    MicroTime(next.unwrap_or(time.0))
}

/// Whole seconds, as the API counts; rounded up.
fn seconds(duration: Duration) -> i32 {
    let whole = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(whole.max(1)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
