//! The authority: who signs now, who is trusted, and how far a change of the two has come.

use rcgen::KeyPair;

use crate::cluster::certificates::{
    certificate::{Certificate, Usage},
    secret::{CA, CA_KEY, PREVIOUS_KEY, PREVIOUS_UNTIL, SIGNS_FROM, Secret},
};

/// An authority that is complete.
pub(super) struct Authority {
    /// Newest first; never empty. More than one only while a change is under way.
    bundle: Vec<Certificate>,
    key: KeyPair,
    /// Of the second in the bundle, as long as it may have to sign.
    previous_key: Option<KeyPair>,
    /// From when on the newest signs; `None` = not all are told of it yet.
    pub(super) signs_from: Option<u64>,
    /// Until when the others are trusted.
    pub(super) previous_until: Option<u64>,
}

/// One that cannot sign.
pub(super) struct Broken {
    pub(super) why: &'static str,
    /// What can still be trusted of it.
    pub(super) remains: Vec<Certificate>,
}

// === impl Authority ===

impl Authority {
    pub(super) fn read(secret: &Secret) -> Result<Self, Broken> {
        let bundle = secret.entry(CA).map(|pem| Certificate::all_in(&pem)).unwrap_or_default();
        let key = |name| {
            let pem = String::from_utf8(secret.entry(name)?).ok()?;
            KeyPair::from_pem(&pem).ok()
        };
        let Some(newest) = bundle.first() else {
            return Err(Broken { why: "its ca.crt is not complete", remains: bundle });
        };
        let Some(own) = key(CA_KEY) else {
            return Err(Broken { why: "its ca.key is not complete", remains: bundle });
        };
        if !newest.belongs_to(&own) {
            return Err(Broken { why: "its ca.key does not fit its ca.crt", remains: bundle });
        }
        let previous = key(PREVIOUS_KEY).filter(|key| bundle.get(1).is_some_and(|second| second.belongs_to(key)));
        Ok(Self {
            bundle,
            key: own,
            previous_key: previous,
            signs_from: secret.moment(SIGNS_FROM),
            previous_until: secret.moment(PREVIOUS_UNTIL),
        })
    }

    pub(super) fn newest(&self) -> &Certificate {
        &self.bundle[0]
    }

    /// Those before the newest.
    pub(super) fn others(&self) -> &[Certificate] {
        &self.bundle[1..]
    }

    pub(super) fn key(&self) -> &KeyPair {
        &self.key
    }

    pub(super) fn has_previous_key(&self) -> bool {
        self.previous_key.is_some()
    }

    /// Whom to trust.
    pub(super) fn trusted(&self) -> String {
        bundle(&self.bundle)
    }

    /// Whether the newest alone signs.
    pub(super) fn is_settled(&self, now: u64) -> bool {
        self.others().is_empty() || self.signs_from.is_some_and(|from| from <= now)
    }

    /// Who signs at this time what is to be valid for a while.
    pub(super) fn signer(&self, now: u64, a_while: u64) -> (&Certificate, &KeyPair) {
        match (&self.previous_key, self.bundle.get(1)) {
            (Some(key), Some(previous)) if !self.is_settled(now) && previous.not_after > now + a_while => {
                (previous, key)
            }
            _ => (self.newest(), &self.key),
        }
    }

    /// Whether what everybody trusts by now can sign at this time.
    pub(super) fn can_sign_for_all(&self, now: u64) -> bool {
        self.is_settled(now) || self.previous_key.is_some()
    }

    pub(super) fn vouches_for(&self, certificate: &Certificate, usage: Usage) -> bool {
        self.bundle.iter().any(|authority| certificate.is_signed_by(authority, usage))
    }
}

/// As `ca.crt` has it.
pub(super) fn bundle(certificates: &[Certificate]) -> String {
    certificates.iter().map(Certificate::pem).collect()
}
