//! Events about objects that something is wrong with: one for a finding as long as it lasts, however long that is, and
//! however many renders and leaders repeat it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use haptic_kubernetes::{Api, Trouble};
use haptic_model::{Digest, Finding, Framer, ObjectRef};
use serde_json::{Value, json};

use crate::{
    clock::{Timestamp, WallClock},
    cluster::{
        condition::shortened,
        objects::{EVENT, EVENTS_ABOUT_CLUSTER},
        status_applier::{Reporter, pass::Pass, picture::Picture},
    },
};

/// Events in one round; the rest is in the next ones.
const A_ROUND: usize = 32;
/// Bytes of a note, as the API has it.
const LONGEST_NOTE: usize = 1024;
/// How long a finding must have been away, or there, until its coming back is worth a word.
const FLAPPING: u64 = 60;
/// Findings that ended and are remembered, so that what comes back counts up.
const REMEMBERED: usize = 4096;
/// Refusals in a row after which an Event is given up.
const ATTEMPTS: u32 = 3;

pub(super) struct EventPass {
    api: Api,
    clock: WallClock,
    reporter: Reporter,
    told: BTreeMap<Digest, Told>,
}

/// An Event that was sent.
struct Told {
    /// The finding is there.
    lasts: bool,
    /// How often it came.
    count: u32,
    at: Timestamp,
    /// Refusals in a row; it is not sent yet if there is one.
    refused: u32,
}

/// An object as an Event names it.
struct Regarding {
    api_version: Option<String>,
    uid: Option<String>,
}

// === impl EventPass ===

impl EventPass {
    pub(super) fn new(api: Api, clock: WallClock, reporter: Reporter) -> Self {
        Self { api, clock, reporter, told: BTreeMap::new() }
    }

    /// Sends it, or counts one up that is there.
    async fn send(
        &mut self,
        key: Digest,
        finding: &Finding,
        object: &ObjectRef,
        picture: &Picture,
    ) -> Result<(), Trouble> {
        let now = self.clock.timestamp();
        let count = match self.told.get_mut(&key) {
            Some(told) if now.0.saturating_sub(told.at.0) < FLAPPING && told.refused == 0 => {
                told.lasts = true;
                return Ok(());
            }
            Some(told) if told.refused == 0 => told.count + 1,
            Some(_) | None => 1,
        };
        let namespace = if object.namespace.is_empty() { EVENTS_ABOUT_CLUSTER } else { &object.namespace };
        let events = EVENT.objects(&self.api, namespace);
        let name = name(object, key);
        if count > 1 {
            let series = json!({ "series": { "count": count, "lastObservedTime": micro(now) } });
            match events.merge(&name, &series).await {
                Ok(_) => return self.sent(key, count, now),
                // It is older than Events live.
                Err(trouble) if trouble.is_not_found() => {}
                Err(trouble) => return Err(trouble),
            }
        }
        let regarding = Regarding::of(object, picture);
        let event = self.event(&name, namespace, finding, object, &regarding, now);
        match events.create(&event).await {
            Ok(_) => self.sent(key, count, now),
            // The leader before sent it.
            Err(trouble) if trouble.is_conflict() => self.sent(key, count, now),
            Err(trouble) => Err(trouble),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "the end of a chain that can fail")]
    fn sent(&mut self, key: Digest, count: u32, at: Timestamp) -> Result<(), Trouble> {
        self.told.insert(key, Told { lasts: true, count, at, refused: 0 });
        Ok(())
    }

    fn refused(&mut self, key: Digest) {
        let at = self.clock.timestamp();
        self.told.entry(key).or_insert(Told { lasts: true, count: 0, at, refused: 0 }).refused += 1;
    }

    fn event(
        &self,
        name: &str,
        namespace: &str,
        finding: &Finding,
        object: &ObjectRef,
        regarding: &Regarding,
        now: Timestamp,
    ) -> Value {
        let mut about = json!({ "kind": object.kind, "name": object.name });
        if !object.namespace.is_empty() {
            about["namespace"] = json!(object.namespace);
        }
        if let Some(api_version) = &regarding.api_version {
            about["apiVersion"] = json!(api_version);
        }
        if let Some(uid) = &regarding.uid {
            about["uid"] = json!(uid);
        }
        json!({
            "apiVersion": EVENT.api_version, "kind": EVENT.name,
            "metadata": { "name": name, "namespace": namespace },
            "eventTime": micro(now),
            "reportingController": self.reporter.controller,
            "reportingInstance": shortened(&self.reporter.instance, 128),
            "action": "Reconcile", "reason": finding.code, "type": "Warning",
            "regarding": about, "note": note(finding),
        })
    }
}

impl Pass for EventPass {
    const WRITES: &'static str = "Event";

    async fn write(&mut self, picture: &Picture) -> Result<Option<Duration>, Trouble> {
        let mut current = BTreeMap::new();
        for finding in picture.findings() {
            if let Some(object) = &finding.object {
                current.entry(key(finding, object)).or_insert((finding, object));
            }
        }
        for (key, told) in &mut self.told {
            told.lasts &= current.contains_key(key);
        }
        let ended = self.told.iter().filter(|(_, told)| !told.lasts).map(|(key, _)| *key);
        let forgotten: BTreeSet<_> = ended.skip(REMEMBERED).collect();
        self.told.retain(|key, _| !forgotten.contains(key));

        let news = |told: Option<&Told>| told.is_none_or(|told| !told.lasts || (1..ATTEMPTS).contains(&told.refused));
        let mut news: Vec<_> =
            current.iter().filter(|(key, _)| news(self.told.get(key))).map(|(key, about)| (*key, *about)).collect();
        // What was refused before waits behind the others.
        news.sort_by_key(|(key, _)| self.told.get(key).map_or(0, |told| told.refused));
        let more = news.len() > A_ROUND;
        let mut failed = None;
        for (key, (finding, object)) in news.into_iter().take(A_ROUND) {
            let Err(trouble) = self.send(key, finding, object, picture).await else { continue };
            tracing::debug!(%object, %trouble, "an Event could not be sent");
            // Its namespace may be about to go, and the next one's is not.
            if trouble.is_refused_for_good() {
                self.refused(key);
                failed = Some(trouble);
                continue;
            }
            return Err(trouble);
        }
        match failed {
            Some(trouble) => Err(trouble),
            None => Ok(more.then_some(Duration::ZERO)),
        }
    }
}

// === impl Regarding ===

impl Regarding {
    fn of(object: &ObjectRef, picture: &Picture) -> Self {
        if object.kind.starts_with("HAProxy") {
            let api_version = Some(format!("{}/{}", haptic_api::GROUP, haptic_api::VERSION));
            let owner = picture.standing.owner.as_ref().filter(|owner| {
                &*object.kind == "HAProxyTemplateConfig"
                    && owner.name == object.name
                    && owner.namespace == object.namespace
            });
            return Self { api_version, uid: owner.map(|owner| owner.uid.to_string()) };
        }
        let found = picture.newest.as_ref().and_then(|newest| {
            let snapshot = &newest.render.snapshot;
            let lists = snapshot.resources().filter_map(|resource| snapshot.list(resource).ok());
            // All objects of a resource have one kind.
            let mut lists =
                lists.filter(|list| list.first().is_some_and(|first| first.reference().kind == object.kind));
            lists.find_map(|list| list.iter().find(|candidate| candidate.reference() == object).cloned())
        });
        let value = found.map(|found| found.as_value());
        let api_version = value.as_ref().and_then(|value| value.get_attr("apiVersion").ok());
        let uid = value.as_ref().and_then(|value| value.get_attr("metadata").and_then(|of| of.get_attr("uid")).ok());
        Self {
            api_version: api_version.and_then(|version| version.as_str().map(str::to_owned)),
            uid: uid.and_then(|uid| uid.as_str().map(str::to_owned)),
        }
    }
}

/// The same finding in another line is the same finding.
fn key(finding: &Finding, object: &ObjectRef) -> Digest {
    let mut framer = Framer::default();
    for field in [&*object.kind, &*object.namespace, &*object.name, &finding.code.to_string(), &finding.message] {
        framer.field(field.as_bytes());
    }
    framer.finish()
}

/// The same for every leader. Names of objects are at most 253 bytes long, and so are those of Events.
fn name(object: &ObjectRef, key: Digest) -> String {
    let start = &object.name[..object.name.floor_char_boundary(200)];
    format!("{}.haptic-{}", start.trim_end_matches(['.', '-']), key.short())
}

fn note(finding: &Finding) -> String {
    let finding = Finding { object: None, ..finding.clone() };
    shortened(&finding.to_string(), LONGEST_NOTE)
}

/// As `MicroTime` is written.
fn micro(at: Timestamp) -> String {
    at.to_string().replace('Z', ".000000Z")
}

#[cfg(test)]
mod tests;
