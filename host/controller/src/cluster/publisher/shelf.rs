//! The published objects as they are known to be in the cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haptic_api::{PodDeploymentStatus, WithheldFile, WithheldReason};
use haptic_kubernetes::{Api, Deletion, Identity, Listing, Trouble};
use haptic_model::{CONFIG_PATH, File};
use serde_json::{Value, json};

use crate::{
    clock::Timestamp,
    cluster::{
        deployed::Deployed,
        objects::{CFG, CRT_LIST_FILE, GENERAL_FILE, Kind, MAP_FILE},
        publisher::{
            PublisherSettings,
            encode::{Encoded, encode},
            output::{Key, Kinds, OWNER_LABEL, Output, PARTS_ANNOTATION, Published, Whole, first_name, part_name},
            shown::{Place, Set, remembered},
        },
        revise::text,
        standing::ConfigOwner,
    },
    pipeline::Render,
};

const KINDS: [Kind; 4] = [CFG, MAP_FILE, GENERAL_FILE, CRT_LIST_FILE];

pub(super) struct Shelf {
    api: Api,
    owner: ConfigOwner,
    objects: BTreeMap<Key, Known>,
    /// By the name of the `HAProxyCfg`.
    sets: BTreeMap<Arc<str>, Set>,
    /// What an earlier leader knew of the pods.
    before: BTreeMap<String, PodDeploymentStatus>,
    /// The one that was put last, and is complete.
    newest: Option<Arc<str>>,
    kinds: Kinds,
    audit: u64,
}

/// One object, or one part of it.
#[derive(Debug)]
struct Known {
    uid: String,
    /// It grows when somebody changes the content.
    generation: i64,
    /// How many objects it takes, on the first one.
    parts: usize,
    /// Its content is not known to be ours.
    doubtful: bool,
}

// === impl Shelf ===

impl Shelf {
    /// What earlier leaders left.
    pub(super) async fn read(api: &Api, owner: &ConfigOwner, audit: u64) -> Result<Self, Trouble> {
        let mut shelf = Self {
            api: api.clone(),
            owner: owner.clone(),
            objects: BTreeMap::new(),
            sets: BTreeMap::new(),
            before: BTreeMap::new(),
            newest: None,
            kinds: Kinds::default(),
            audit,
        };
        for kind in KINDS {
            let listing = if kind == CFG { Listing::Whole } else { Listing::Metadata };
            for object in shelf.list(kind, listing).await? {
                let Some(key) = shelf.note(kind, &object) else { continue };
                if kind == CFG && first_name(&key.name) == &*key.name {
                    shelf.sets.insert(key.name, Set::of(&object));
                }
            }
        }
        shelf.before = remembered(shelf.sets.values());
        Ok(shelf)
    }

    pub(super) fn owner(&self) -> &ConfigOwner {
        &self.owner
    }

    /// Finds out what others did to the objects.
    pub(super) async fn audit(&mut self, audit: u64) -> Result<(), Trouble> {
        if self.audit == audit {
            return Ok(());
        }
        let mut seen = BTreeSet::new();
        for kind in KINDS {
            for object in self.list(kind, Listing::Metadata).await? {
                seen.extend(self.note(kind, &object));
            }
        }
        self.objects.retain(|key, _| seen.contains(key));
        self.sets.retain(|name, _| seen.contains(&Key { kind: CFG, name: name.clone() }));
        self.audit = audit;
        Ok(())
    }

    /// Makes sure that the render is published, the configuration last.
    pub(super) async fn put(&mut self, render: &Arc<Render>, settings: &PublisherSettings) -> Result<(), Trouble> {
        let mut output = Output::of(render, &self.owner, &mut self.kinds);
        let name = output.config.key.name.clone();
        if let Some(set) = self.sets.get(&name) {
            // What turned out to be too large is so again.
            for file in set.withheld.iter().filter(|file| file.reason == WithheldReason::TooLarge) {
                if output.files.iter().any(|known| *known.path == *file.path) {
                    output.withhold(&file.path, file.reason);
                }
            }
        }
        let files = &render.output.rendered.files;
        for file in output.files.clone() {
            if self.is_there(&file.key) {
                continue;
            }
            let content = files.get(&*file.path).expect("the output is made of these files").clone();
            let plan = &output.plan;
            if let Err(reason) = self.put_file(&file, plan, content, settings).await? {
                output.withhold(&file.path, reason);
            }
        }
        if !self.is_there(&output.config.key) {
            let config = files.get(CONFIG_PATH).expect("every render has a configuration").clone();
            let written = self.put_file(&output.config, &output.plan, config, settings).await?;
            if let Err(reason) = written {
                output.withheld.push(WithheldFile { path: CONFIG_PATH.to_owned(), reason });
                let whole = Whole::withheld(reason);
                let encoded = Encoded { compressed: false, parts: vec![whole.text.clone()] };
                self.apply(&output.config, &output.plan, &whole, &encoded).await?;
            }
        } else if let Some(set) = self.sets.get(&name) {
            output.withheld.extend(set.withheld.iter().filter(|file| file.path == CONFIG_PATH).cloned());
        }
        let generation = self.objects.get(&output.config.key).map(|known| known.generation);
        let set = Set::put(&output, &self.owner, generation, self.sets.remove(&name));
        self.sets.insert(name.clone(), set);
        self.newest = Some(name);
        Ok(())
    }

    /// Writes what pods say into the status of every configuration that one of them has.
    pub(super) async fn tell(&mut self, deployed: &Deployed, now: Timestamp) -> Result<(), Trouble> {
        if !deployed.is_known() {
            return Ok(());
        }
        let entries = deployed.entries(&self.before);
        let latest = self.latest();
        let objects = CFG.objects(&self.api, &self.owner.namespace);
        for (name, set) in &mut self.sets {
            let place = if Some(name) == latest.as_ref() { Place::Newest } else { Place::Older };
            let Some(status) = set.status(&entries, place, now) else { continue };
            let written = objects.merge_status(name, &json!({ "status": status })).await?;
            set.written(&written);
        }
        Ok(())
    }

    /// Deletes what no pod has any more. Nothing is deleted before the newest is complete.
    pub(super) async fn sweep(&mut self, deployed: &Deployed) -> Result<(), Trouble> {
        let Some(newest) = self.newest.clone().filter(|_| deployed.is_known()) else { return Ok(()) };
        let entries = deployed.entries(&self.before);
        self.sets.retain(|name, set| *name == newest || set.is_reported(&entries));
        let mut keep = BTreeSet::new();
        for (name, set) in &self.sets {
            keep.insert(Key { kind: CFG, name: name.clone() });
            keep.extend(set.files.iter().cloned());
        }
        let kept = |key: &Key| keep.contains(&Key { kind: key.kind, name: first_name(&key.name).into() });
        let gone: Vec<Key> = self.objects.keys().filter(|key| !kept(key)).cloned().collect();
        for key in gone {
            let identity = Identity { uid: self.objects[&key].uid.clone(), resource_version: None };
            let objects = key.kind.objects(&self.api, &self.owner.namespace);
            let (Deletion::Done | Deletion::NotThere) = objects.delete(&key.name, &identity).await?;
            self.objects.remove(&key);
        }
        Ok(())
    }

    /// The one that stands for what serves: until something is put, what was made last before.
    fn latest(&self) -> Option<Arc<str>> {
        let last = || self.sets.iter().max_by_key(|(_, set)| set.created.clone()).map(|(name, _)| name.clone());
        self.newest.clone().or_else(last)
    }

    async fn list(&self, kind: Kind, listing: Listing) -> Result<Vec<Value>, Trouble> {
        let objects = kind.objects(&self.api, &self.owner.namespace);
        let mut list = objects.list(&format!("{OWNER_LABEL}={}", self.owner.uid), listing).await?;
        // A label is easily copied, the reference to the owner is not.
        list.retain(|object| {
            let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            owners.into_iter().flatten().any(|owner| owner["uid"] == *self.owner.uid)
        });
        Ok(list)
    }

    /// Remembers an object as a list or an answer has it.
    fn note(&mut self, kind: Kind, object: &Value) -> Option<Key> {
        let key = Key { kind, name: text(object, "/metadata/name")?.into() };
        let uid = text(object, "/metadata/uid")?.to_owned();
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(1);
        let annotations = object.pointer("/metadata/annotations");
        let parts = annotations.and_then(|all| all[PARTS_ANNOTATION].as_str()?.parse().ok()).unwrap_or(1);
        // What we make has the first generation as long as nobody changes it.
        let expected = self.objects.get(&key).filter(|known| known.uid == uid).map_or(1, |known| known.generation);
        let doubtful = generation != expected;
        self.objects.insert(key.clone(), Known { uid, generation, parts, doubtful });
        Some(key)
    }

    /// Whether all parts are.
    fn is_there(&self, key: &Key) -> bool {
        let Some(first) = self.objects.get(key) else { return false };
        (0..first.parts).all(|part| {
            let key = Key { kind: key.kind, name: part_name(&key.name, part).into() };
            self.objects.get(&key).is_some_and(|known| !known.doubtful)
        })
    }

    async fn put_file(
        &mut self,
        published: &Published,
        plan: &str,
        file: File,
        settings: &PublisherSettings,
    ) -> Result<Result<(), WithheldReason>, Trouble> {
        let settings = settings.clone();
        let encoded = blocking(move || {
            let whole = Whole::of(&file)?;
            let encoded = encode(whole.text.clone(), &settings).ok_or(WithheldReason::TooLarge)?;
            Ok((whole, encoded))
        });
        match encoded.await {
            Err(reason) => Ok(Err(reason)),
            Ok((whole, encoded)) => match self.apply(published, plan, &whole, &encoded).await {
                Ok(()) => Ok(Ok(())),
                // This server takes less than others.
                Err(trouble) if trouble.is_too_large() => Ok(Err(WithheldReason::TooLarge)),
                Err(trouble) => Err(trouble),
            },
        }
    }

    /// All parts, the first one last: it says how many there are.
    async fn apply(
        &mut self,
        published: &Published,
        plan: &str,
        whole: &Whole,
        encoded: &Encoded,
    ) -> Result<(), Trouble> {
        let kind = published.key.kind;
        let objects = kind.objects(&self.api, &self.owner.namespace);
        for part in (0..encoded.parts.len()).rev() {
            let name = part_name(&published.key.name, part);
            let object = published.object(&self.owner, plan, whole, encoded, part);
            let answer = objects.apply(&name, &object).await?;
            self.note(kind, &answer);
            if let Some(known) = self.objects.get_mut(&Key { kind, name: name.as_str().into() }) {
                // Whatever its generation is, this is what we wrote.
                known.doubtful = false;
            }
        }
        Ok(())
    }
}

/// On a thread where waiting is allowed.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends.
            Err(_) => std::future::pending().await,
        },
    }
}
