//! A cluster's Secrets at one time, and replicas that look at them.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::cluster::certificates::{
    CertificateSettings, Kept, Keys,
    plan::{Configuration, Decision, Done, Observation, Policy, Seen, Step},
    secret::Secret,
};

pub(super) struct World {
    pub(super) settings: CertificateSettings,
    pub(super) now: u64,
    pub(super) secrets: BTreeMap<Kept, Value>,
    /// `None` = it is not there.
    pub(super) configuration: Option<Value>,
    /// What each Secret and the configuration (`None`) were, and from when on.
    pub(super) versions: BTreeMap<Option<Kept>, Vec<(u64, Value)>>,
    /// What was written, by when.
    pub(super) written: Vec<(u64, Option<Kept>, &'static str)>,
    version: u64,
    keys: Keys,
}

/// More steps than follow from anything by themselves.
const STEPS: usize = 20;

// === impl World ===

impl World {
    /// Secrets without contents, as a chart makes them.
    pub(super) fn new(settings: CertificateSettings, now: u64) -> Self {
        let empty = |kept: Kept| {
            let metadata = json!({ "namespace": "edge", "name": settings.names.secret(kept), "resourceVersion": "1" });
            (kept, json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque" }))
        };
        let secrets = settings.names.kept().map(empty).collect();
        let webhook = |name: &str| json!({ "name": name, "clientConfig": { "service": { "name": "haptic-webhook" } } });
        let configuration = json!({
            "metadata": { "name": "haptic", "resourceVersion": "1" },
            "webhooks": [webhook("configs.haptic.rs"), webhook("ingresses.haptic.rs")],
        });
        let (configuration, keys) = (Some(configuration), Keys::random());
        let (versions, written) = (BTreeMap::new(), Vec::new());
        Self { settings, now, secrets, configuration, versions, written, version: 1, keys }
    }

    pub(super) fn observe(&self) -> Observation {
        let seen = |kept: Kept| match self.secrets.get(&kept) {
            Some(object) => (kept, Seen::Found(Secret::new(object.clone()))),
            None => (kept, Seen::Missing),
        };
        let secrets = self.settings.names.kept().map(seen).collect();
        let configuration = self.configuration.clone().map_or(Configuration::Missing, Configuration::Found);
        Observation { secrets, configuration: Some(configuration) }
    }

    /// What a replica with this share of the spread would do.
    pub(super) fn decide(&self, seen: &Observation, share: f64) -> Decision {
        let policy = Policy { settings: &self.settings, keys: &self.keys, share };
        policy.decide(seen, self.now).unwrap()
    }

    /// As an API server takes it: only in the state that was read. Whether it was.
    pub(super) fn apply(&mut self, step: Step) -> bool {
        self.version += 1;
        match step {
            Step::Write { kept, mut object, done: Done { why, .. } } => {
                let known = self.secrets.get_mut(&kept).unwrap();
                if known["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
                    return false;
                }
                object["metadata"]["resourceVersion"] = self.version.to_string().into();
                *known = object;
                self.versions.entry(Some(kept)).or_default().push((self.now, known.clone()));
                self.written.push((self.now, Some(kept), why));
            }
            Step::Trust { patch } => {
                let known = self.configuration.as_mut().unwrap();
                if known["metadata"]["resourceVersion"] != patch["metadata"]["resourceVersion"] {
                    return false;
                }
                known["metadata"]["resourceVersion"] = self.version.to_string().into();
                for webhook in patch["webhooks"].as_array().unwrap() {
                    let all = known["webhooks"].as_array_mut().unwrap();
                    let one = all.iter_mut().find(|one| one["name"] == webhook["name"]).unwrap();
                    one["clientConfig"]["caBundle"] = webhook["clientConfig"]["caBundle"].clone();
                }
                self.versions.entry(None).or_default().push((self.now, known.clone()));
                self.written.push((self.now, None, "told whom to trust"));
            }
        }
        true
    }

    /// One replica does all that is to be done now; when it looks again, and what it complains about.
    pub(super) fn pass(&mut self, share: f64) -> Decision {
        for _ in 0..STEPS {
            let mut decision = self.decide(&self.observe(), share);
            let Some(step) = decision.step.take() else { return decision };
            assert!(self.apply(step), "nobody else writes");
        }
        panic!("it never comes to rest: {:?}", self.written);
    }

    pub(super) fn entry(&self, kept: Kept, name: &str) -> String {
        let encoded = self.secrets[&kept]["data"][name].as_str().unwrap_or_default();
        String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
    }

    pub(super) fn put(&mut self, kept: Kept, name: &str, content: &str) {
        let secret = self.secrets.get_mut(&kept).unwrap();
        if !secret["data"].is_object() {
            secret["data"] = json!({});
        }
        secret["data"][name] = STANDARD.encode(content).into();
    }

    /// How many authorities are trusted.
    pub(super) fn authorities(&self) -> usize {
        self.entry(Kept::Authority, "ca.crt").matches("BEGIN CERTIFICATE").count()
    }
}
