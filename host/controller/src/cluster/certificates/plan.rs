//! What is to be written next, told from what is there. No I/O; the clock, the keys and the replica's share of the spread
//! are arguments, so that years can be walked through.
//!
//! One write at a time: after it all is read again, because another replica may have written meanwhile.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haptic_model::{Finding, FindingCode, ObjectRef};
use serde_json::{Value, json};

use crate::cluster::certificates::{
    CertificateSettings, Kept,
    authority::{Authority, Broken, bundle},
    certificate::Certificate,
    issue::{IssueError, Keys},
    leaf::{Identity, Leaf},
    secret::{CA, CA_KEY, CERTIFICATE, Entries, KEY, Moments, PREVIOUS_KEY, PREVIOUS_UNTIL, SIGNS_FROM, Secret},
};

/// What reading an object came to.
pub(super) enum Seen {
    Missing,
    /// The server does not let it be read; the finding says what to do.
    Unreadable(Box<Finding>),
    Found(Secret),
}

/// Everything at one time.
pub(super) struct Observation {
    pub(super) secrets: BTreeMap<Kept, Seen>,
    /// The ValidatingWebhookConfiguration, if one is to be kept right.
    pub(super) configuration: Option<Configuration>,
}

pub(super) enum Configuration {
    Missing,
    Unreadable(Box<Finding>),
    Found(Value),
}

/// How this replica decides.
pub(super) struct Policy<'a> {
    pub(super) settings: &'a CertificateSettings,
    pub(super) keys: &'a Keys,
    /// From 0 to 1: replicas that are due at the same time do not write at the same time.
    pub(super) share: f64,
}

/// What follows from an observation.
#[derive(Default)]
pub(super) struct Decision {
    /// `None` = nothing before [`Self::until`].
    pub(super) step: Option<Step>,
    /// When the next step may be due, in seconds since 1970.
    pub(super) until: Option<u64>,
    pub(super) findings: Vec<Finding>,
    /// When what is there ends.
    pub(super) ends: BTreeMap<Kept, u64>,
    /// Something could not be looked at, so nobody knows whether all are told of a new authority.
    blind: bool,
}

pub(super) enum Step {
    /// Replaces the Secret in the state that was read.
    Write { kept: Kept, object: Value, done: Done },
    /// Patches elements of the webhook configuration in the state that was read.
    Trust { patch: Value },
}

/// What a write is, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) what: What,
    pub(super) why: &'static str,
    pub(super) not_after: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Issued,
    /// Who is trusted was written, or how far a change has come.
    Noted,
}

/// One that holds contents of ours that fit.
struct Held<'a> {
    identity: Identity,
    secret: &'a Secret,
    leaf: Leaf,
}

// === impl Decision ===

impl Decision {
    fn not_before(&mut self, at: u64) {
        self.until = Some(self.until.map_or(at, |until| until.min(at)));
    }
}

// === impl Policy ===

impl Policy<'_> {
    pub(super) fn decide(&self, seen: &Observation, now: u64) -> Result<Decision, IssueError> {
        let mut decision = Decision::default();
        let Some(authority) = self.authority(seen, now, &mut decision)? else { return Ok(decision) };
        let mut held = Vec::new();
        for identity in Identity::all(self.settings) {
            let Some(secret) = self.ours(seen, identity.kept, &mut decision) else { continue };
            match self.leaf(secret, &identity, &authority, now, &mut decision)? {
                Some(leaf) => held.push(Held { identity, secret, leaf }),
                None => return Ok(decision),
            }
        }
        // Before the configuration: what serves is trusted by those who were told of it earlier.
        let trusted = authority.trusted();
        if let Some(stale) = held.iter().find(|held| held.leaf.trusted != trusted.as_bytes()) {
            let done =
                Done { what: What::Noted, why: "the authorities changed", not_after: stale.leaf.certificate.not_after };
            return Ok(write(stale.identity.kept, stale.secret, &[(CA, Some(&trusted))], &[], done, decision));
        }
        let webhook = held.iter().any(|held| held.identity.kept == Kept::Webhook);
        self.configuration(seen, webhook, &trusted, &mut decision);
        if decision.step.is_some() {
            return Ok(decision);
        }
        if let Some(Seen::Found(secret)) = seen.secrets.get(&Kept::Authority) {
            return Ok(self.change(secret, &authority, &held, now, decision));
        }
        Ok(decision)
    }

    /// The authority, unless it cannot be used or is to be written first.
    fn authority(
        &self,
        seen: &Observation,
        now: u64,
        decision: &mut Decision,
    ) -> Result<Option<Authority>, IssueError> {
        let Some(secret) = self.ours(seen, Kept::Authority, decision) else { return Ok(None) };
        let read = if secret.is_blank() {
            Err(Broken { why: "it was empty", remains: Vec::new() })
        } else {
            Authority::read(secret)
        };
        let (why, before, previous_key) = match &read {
            Err(broken) => {
                // Contents that are lost are trusted as far as others still know them.
                let known = seen.secrets.iter().filter(|(kept, _)| **kept != Kept::Authority);
                let known = known.filter_map(|(kept, seen)| match seen {
                    Seen::Found(secret) if secret.is_kept_as(*kept) => Some(Leaf::authorities(secret)),
                    _ => None,
                });
                let mut before = broken.remains.clone();
                before.extend(known.flatten());
                (broken.why, before, None)
            }
            Ok(authority) => {
                decision.ends.insert(Kept::Authority, authority.newest().not_after);
                let due = authority.newest().due(self.share);
                if now < due || !authority.others().is_empty() && now < authority.newest().not_after {
                    decision.not_before(due.max(now + 1));
                    return Ok(read.ok());
                }
                ("two thirds of its time are over", vec![authority.newest().clone()], Some(authority.key()))
            }
        };
        let issued = self.keys.authority(now, self.settings.lifetimes.authority)?;
        let mut all = vec![issued.certificate.clone()];
        for certificate in before {
            if certificate.not_after > now && !all.contains(&certificate) && all.len() < MOST_AUTHORITIES {
                all.push(certificate);
            }
        }
        let previous_key = previous_key.filter(|_| all.len() > 1).map(rcgen::KeyPair::serialize_pem);
        let (trusted, key) = (bundle(&all), issued.key.serialize_pem());
        let entries = [(CA, Some(trusted.as_str())), (CA_KEY, Some(&key)), (PREVIOUS_KEY, previous_key.as_deref())];
        let done = Done { what: What::Issued, why, not_after: issued.certificate.not_after };
        let taken = std::mem::take(decision);
        let moments = [(SIGNS_FROM, None), (PREVIOUS_UNTIL, None)];
        *decision = write(Kept::Authority, secret, &entries, &moments, done, taken);
        Ok(None)
    }

    /// What a Secret holds, if that may stay as it is; else it is issued, or left for later.
    fn leaf(
        &self,
        secret: &Secret,
        identity: &Identity,
        authority: &Authority,
        now: u64,
        decision: &mut Decision,
    ) -> Result<Option<Leaf>, IssueError> {
        let read = if secret.is_blank() { Err("it was empty") } else { Leaf::read(secret, identity) };
        let why = match read {
            Err(why) => why,
            Ok(leaf) => {
                let (certificate, usage) = (&leaf.certificate, identity.usage);
                decision.ends.insert(identity.kept, certificate.not_after);
                let due = certificate.due(self.share);
                if !authority.vouches_for(certificate, usage) {
                    "none of the authorities has signed it"
                } else if self.is_settled(authority, now) && !certificate.is_signed_by(authority.newest(), usage) {
                    "a new authority signs"
                } else if now < due {
                    decision.not_before(due);
                    return Ok(Some(leaf));
                } else if !authority.can_sign_for_all(now) && certificate.not_after > now + 2 * self.distribution() {
                    // The one that they know is lost, and the new one signs in a moment.
                    return Ok(Some(leaf));
                } else {
                    "two thirds of its time are over"
                }
            }
        };
        let (signer, key) = authority.signer(now, self.distribution());
        let issued = self.keys.leaf(identity, (signer, key), now, self.settings.lifetimes.certificate)?;
        let (certificate, key) = (issued.certificate.pem(), issued.key.serialize_pem());
        let trusted = authority.trusted();
        let entries = [(CERTIFICATE, Some(certificate.as_str())), (KEY, Some(&key)), (CA, Some(&trusted))];
        let done = Done { what: What::Issued, why, not_after: issued.certificate.not_after };
        let taken = std::mem::take(decision);
        *decision = write(identity.kept, secret, &entries, &[], done, taken);
        Ok(None)
    }

    /// Who judges the webhook by its certificate.
    fn configuration(&self, seen: &Observation, webhook: bool, trusted: &str, decision: &mut Decision) {
        // Whose certificate it is decides whom to trust.
        let Some(configuration) = seen.configuration.as_ref().filter(|_| webhook) else { return };
        let object = match configuration {
            Configuration::Missing => {
                let name = self.settings.names.configuration().unwrap_or_default();
                let message =
                    format!("the ValidatingWebhookConfiguration `{name}` is not there to be told whom to trust");
                let hint = "create it, or correct --webhook-configuration; it is looked for again and again";
                decision.findings.push(self.finding(Kept::Webhook, message, hint));
                return;
            }
            Configuration::Unreadable(finding) => {
                decision.findings.push((**finding).clone());
                decision.blind = true;
                return;
            }
            Configuration::Found(object) => object,
        };
        let wanted = STANDARD.encode(trusted);
        let webhooks = object["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let stale = webhooks.iter().filter(|webhook| webhook["clientConfig"]["caBundle"] != *wanted);
        let told: Vec<_> =
            stale.map(|it| json!({ "name": it["name"], "clientConfig": { "caBundle": wanted } })).collect();
        if !told.is_empty() {
            let version = &object["metadata"]["resourceVersion"];
            let patch = json!({ "metadata": { "resourceVersion": version }, "webhooks": told });
            decision.step = Some(Step::Trust { patch });
        }
    }

    /// The next step from one authority to the next; all that is there is right as it stands.
    fn change(
        &self,
        secret: &Secret,
        authority: &Authority,
        held: &[Held<'_>],
        now: u64,
        mut decision: Decision,
    ) -> Decision {
        let Some(last) = authority.others().iter().map(|other| other.not_after).max() else { return decision };
        let (distribution, newest) = (self.distribution(), authority.newest());
        let note = |why| Done { what: What::Noted, why, not_after: newest.not_after };
        let kept = Kept::Authority;
        let Some(from) = authority.signs_from else {
            // Who could not be asked is not waited for longer than the one before can sign.
            let overdue = last <= now + 2 * distribution;
            if decision.blind && !overdue {
                decision.not_before(last - 2 * distribution);
                return decision;
            }
            let from = if overdue { now } else { now + distribution };
            let until = last.min(from + self.settings.lifetimes.certificate);
            let moments = [(SIGNS_FROM, Some(from)), (PREVIOUS_UNTIL, Some(until))];
            return write(kept, secret, &[], &moments, note("all are told of the new authority"), decision);
        };
        if !self.is_settled(authority, now) {
            decision.not_before(self.settled_from(from));
            return decision;
        }
        // Whatever is ours has been issued anew by the newest before this is reached.
        let all_new = held.iter().all(|held| held.leaf.certificate.is_signed_by(newest, held.identity.usage));
        if authority.has_previous_key() && all_new {
            let entries = [(PREVIOUS_KEY, None)];
            return write(kept, secret, &entries, &[], note("the new authority signs"), decision);
        }
        let until = authority.previous_until.unwrap_or(from + self.settings.lifetimes.certificate).min(last);
        if now < until || !all_new {
            decision.not_before(until.max(now + 1));
            return decision;
        }
        let alone = newest.pem();
        let entries = [(CA, Some(alone.as_str())), (PREVIOUS_KEY, None)];
        let moments = [(SIGNS_FROM, None), (PREVIOUS_UNTIL, None)];
        let why = "nothing is valid any more that the authority before it signed";
        write(kept, secret, &entries, &moments, note(why), decision)
    }

    /// A Secret that is there, and empty or the keeper's.
    fn ours<'a>(&self, seen: &'a Observation, kept: Kept, decision: &mut Decision) -> Option<&'a Secret> {
        match seen.secrets.get(&kept)? {
            Seen::Found(secret) if secret.is_blank() || secret.is_kept_as(kept) => Some(secret),
            Seen::Found(secret) => {
                let end = secret.entry(if kept == Kept::Authority { CA } else { CERTIFICATE });
                let end = end.and_then(|pem| Certificate::all_in(&pem).first().map(|first| first.not_after));
                decision.ends.extend(end.map(|end| (kept, end)));
                let message = "its contents are someone else's, so they are left alone and not renewed";
                let hint = match kept {
                    Kept::Authority => {
                        "name another Secret in --authority-secret, or empty this one; until then no certificate is issued"
                    }
                    _ => "empty the Secret to have them issued here, or go on to renew them where they come from",
                };
                let finding = self.finding(kept, message.to_owned(), hint);
                decision.findings.push(Finding { severity: haptic_model::Severity::Warning, ..finding });
                None
            }
            Seen::Missing => {
                let message = format!("it is not there, and the certificate of the {} is to be in it", kept.name());
                let hint = "create it without contents, as the chart does, or correct the option that names it";
                let finding = self.finding(kept, message, hint);
                decision.findings.push(Finding { code: FindingCode::UnresolvedReference, ..finding });
                None
            }
            Seen::Unreadable(finding) => {
                decision.findings.push((**finding).clone());
                decision.blind = true;
                None
            }
        }
    }

    /// Replicas do not take their turn in the same moment.
    fn settled_from(&self, from: u64) -> u64 {
        from + std::time::Duration::from_secs(self.distribution()).mul_f64(self.share / 2.0).as_secs()
    }

    fn is_settled(&self, authority: &Authority, now: u64) -> bool {
        authority.others().is_empty() || authority.signs_from.is_some_and(|from| self.settled_from(from) <= now)
    }

    fn distribution(&self) -> u64 {
        self.settings.lifetimes.distribution()
    }

    fn finding(&self, kept: Kept, message: String, hint: &str) -> Finding {
        let object = ObjectRef::new("Secret", &self.settings.namespace, self.settings.names.secret(kept));
        Finding::error(FindingCode::InvalidValue, message).about(Some(object)).hint(hint)
    }
}

fn write(
    kept: Kept,
    secret: &Secret,
    entries: Entries<'_>,
    moments: Moments<'_>,
    done: Done,
    mut decision: Decision,
) -> Decision {
    decision.step = Some(Step::Write { kept, object: secret.with(kept, entries, moments), done });
    decision
}

/// In a bundle: one that signs, one before it, and what two accidents left.
const MOST_AUTHORITIES: usize = 4;
