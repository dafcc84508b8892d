//! One term: renewed until it is lost.

use std::sync::Arc;

use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    Trouble,
    election::{
        Election, Leadership,
        lease::{Claim, Claims as _},
        observe::Observer,
    },
};

/// A term that was begun.
pub(super) struct Term {
    /// As the server has it.
    pub(super) lease: Lease,
    pub(super) epoch: u64,
    /// When the last write that succeeded was sent.
    pub(super) renewed: Instant,
}

/// How a term was lost.
pub(super) enum Lost {
    /// A successor of the same identity has a term of its own.
    Superseded,
    /// Somebody else has the Lease, or nobody.
    Taken(Option<Arc<str>>),
    /// It could not be renewed in time.
    Expired(Arc<str>),
}

// === impl Lost ===

impl Lost {
    pub(super) fn holder(&self) -> Option<Arc<str>> {
        match self {
            Self::Superseded => None,
            Self::Taken(holder) => holder.clone(),
            Self::Expired(holder) => Some(Arc::clone(holder)),
        }
    }
}

// === impl Term ===

impl Term {
    fn is_of(&self, lease: &Lease) -> bool {
        lease.holder() == self.lease.holder() && lease.acquired() == self.lease.acquired()
    }

    /// Why this Lease is not of this term.
    fn lost_to(&self, lease: &Lease) -> Lost {
        if lease.holder().is_some() && lease.holder() == self.lease.holder() {
            return Lost::Superseded;
        }
        Lost::Taken(lease.holder().map(Arc::from))
    }
}

// === impl Election ===

impl Election {
    /// Leads until the term is lost. The term is always what the server has, as far as that is known.
    pub(super) async fn lead(&mut self, term: &mut Term) -> Lost {
        self.leadership.send_replace(Leadership::Leader { epoch: term.epoch });
        let mut observer = Observer::new(&self.api, &self.settings);
        let mut next = term.renewed + self.settings.retry_period;
        loop {
            let deadline = term.renewed + self.settings.renew_deadline;
            let epoch = term.epoch;
            tokio::select! {
                // Whatever hangs, the end is told in time.
                biased;
                () = sleep_until(deadline) => return self.expired(),
                () = refused(&mut self.seen, epoch) => {}
                () = sleep_until(next) => {}
                observed = observer.next() => match observed {
                    Ok(Some(lease)) if term.is_of(&lease) => {
                        term.lease = lease;
                        continue;
                    }
                    Ok(Some(lease)) => return term.lost_to(&lease),
                    // Somebody deleted it.
                    Ok(None) => {}
                    Err(trouble) => {
                        tracing::debug!(%trouble, "the lease cannot be watched");
                        // The next renewal says more.
                        sleep_until(next.min(deadline)).await;
                    }
                }
            }
            let renewed = timeout_at(deadline, self.renew(term)).await;
            match renewed {
                Err(_) => return self.expired(),
                Ok(Ok(None)) => {
                    self.note(None);
                    next = Instant::now() + self.settings.retry_period;
                }
                Ok(Ok(Some(lost))) => return lost,
                Ok(Err(trouble)) => {
                    self.note(Some(trouble));
                    next = Instant::now() + self.jitter.at_least(0.5, self.settings.retry_period / 2);
                    // Whatever asks for a renewal meanwhile would fail as well.
                    sleep_until(next.min(deadline)).await;
                }
            }
            self.heard = self.heard.max(term.epoch);
            if term.epoch != epoch {
                tracing::info!(from = epoch, to = term.epoch, "agents have seen a higher epoch");
                self.leadership.send_replace(Leadership::Leader { epoch: term.epoch });
            }
        }
    }

    /// Gives the Lease up. One try: who cannot is replaced when the Lease expires.
    pub(super) async fn release(&self, mut term: Term) {
        for _ in 0..2 {
            let released = Claim::released(&term.lease, self.clock.now(), term.epoch);
            match self.write(Method::PUT, &released).await {
                Ok(_) => return,
                Err(trouble) if trouble.is_conflict() => match self.read().await {
                    Ok(Some(lease)) if term.is_of(&lease) => term.lease = lease,
                    _ => return,
                },
                Err(trouble) => return self.note(Some(trouble)),
            }
        }
    }

    /// Renews the term, in a higher epoch if agents have seen one that is not lower.
    async fn renew(&self, term: &mut Term) -> Result<Option<Lost>, Trouble> {
        // A Lease that was deleted is made again, in the same term.
        let mut gone = false;
        loop {
            let sent = Instant::now();
            let seen = *self.seen.borrow();
            let epoch = if seen >= term.epoch { seen.saturating_add(1) } else { term.epoch };
            let claim = Claim::renewed(&term.lease, &self.settings, self.clock.now(), epoch);
            let written = if gone {
                self.write(Method::POST, &claim.anew().lease).await
            } else {
                self.write(Method::PUT, &claim.lease).await
            };
            match written {
                Ok(lease) => {
                    *term = Term { lease, epoch, renewed: sent };
                    return Ok(None);
                }
                Err(trouble) if trouble.is_conflict() => match self.read().await? {
                    // An earlier try of our own had an effect, or somebody wrote an annotation.
                    Some(lease) if term.is_of(&lease) => (term.lease, gone) = (lease, false),
                    Some(lease) => return Ok(Some(term.lost_to(&lease))),
                    // Deleted, which a write of its old version is told as a conflict.
                    None => gone = true,
                },
                Err(trouble) if trouble.is_not_found() && !gone => gone = true,
                Err(trouble) => return Err(trouble),
            }
        }
    }

    fn expired(&self) -> Lost {
        let deadline = self.settings.renew_deadline;
        tracing::warn!(?deadline, "the lease could not be renewed in time: leading no more");
        Lost::Expired(Arc::clone(&self.settings.identity))
    }
}

/// When an agent has seen an epoch that is not lower than ours.
async fn refused(seen: &mut tokio::sync::watch::Receiver<u64>, epoch: u64) {
    if seen.wait_for(|seen| *seen >= epoch && epoch < u64::MAX).await.is_err() {
        std::future::pending::<()>().await;
    }
}
