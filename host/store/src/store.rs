//! The one writer of the store.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use haptic_api::StorePolicy;
use haptic_model::{Finding, FindingCode, ObjectRef, SourceLocation};
use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    BodyReader, Extent, Object, RawChange, RawKey, RawObject, Snapshot, WatchedResource,
    bodies::Bodies,
    shape::{Interner, Shaped},
    snapshot::{Key, ResourceState},
};

/// Objects of all watched resources, pruned, shaped and indexed.
///
/// An update of one object copies the few tree nodes on its way and shares all others with every snapshot taken
/// before. An object whose content did not change keeps its serial.
pub struct Store {
    resources: Vec<Resource>,
    interner: Interner,
    snapshot: Arc<Snapshot>,
}

/// What a write changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The resources with a new revision.
    pub resources: BTreeSet<Arc<str>>,
    /// The objects that came, changed or went.
    pub objects: BTreeSet<ObjectRef>,
}

/// A state that somebody proposes, beside the store's own.
#[derive(Clone, Debug)]
pub struct Overlay {
    pub snapshot: Arc<Snapshot>,
    /// Proposed objects that would be left out, and why.
    pub findings: Vec<Finding>,
}

#[derive(Debug, Error)]
#[error("no watched resource is named `{0}`")]
pub struct UnknownResource(String);

struct Resource {
    spec: WatchedResource,
    entries: HashMap<Identity, Entry>,
    /// Objects that were left out, and why.
    findings: BTreeMap<Identity, Finding>,
    state: ResourceState,
}

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Identity {
    namespace: Arc<str>,
    name: Arc<str>,
}

struct Entry {
    key: Key,
    object: Arc<Object>,
    raw: u64,
}

/// What a resource makes of an object.
enum Shaping {
    /// Its selectors do not take it.
    NotSelected,
    LeftOut(Finding),
    Object {
        key: Key,
        reference: ObjectRef,
        source: Option<SourceLocation>,
        fields: Shaped,
    },
}

// === impl Store ===

impl Store {
    /// An empty store. Names of resources must be unique.
    pub fn new(resources: Vec<WatchedResource>) -> Self {
        let mut resources: Vec<Resource> = resources.into_iter().map(Resource::new).collect();
        resources.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        let mut store = Self { resources, interner: Interner::default(), snapshot: Arc::default() };
        store.publish(&Changed::default());
        store
    }

    /// As [`Self::new`], for a source that brings mere metadata of resources with `store: on-demand`: the rest comes from
    /// `reader` when a template asks for it.
    pub fn on_demand(resources: Vec<WatchedResource>, reader: Arc<dyn BodyReader>) -> Self {
        let mut store = Self::new(resources);
        let bodies = Bodies::new(reader, store.resources().cloned());
        Arc::make_mut(&mut store.snapshot).bodies = Some(Arc::new(bodies));
        store
    }

    /// A snapshot of these objects by the name of their resource, for tests of templates. Missing `apiVersion`, `kind`
    /// and names are filled in; what cannot be stored is a finding, as is an object that the resource's selectors
    /// would not take.
    pub fn fixture(
        resources: Vec<WatchedResource>,
        objects: &BTreeMap<String, Vec<Value>>,
    ) -> (Arc<Snapshot>, Vec<Finding>) {
        let mut store = Self::new(resources);
        let mut findings = Vec::new();
        for (name, objects) in objects {
            let Some(index) = store.resources.iter().position(|resource| *resource.spec.name == **name) else {
                let message = format!("the fixtures name `{name}`, which is no watched resource");
                findings.push(Finding::error(FindingCode::ConfigInvalid, message));
                continue;
            };
            for (position, object) in objects.iter().enumerate() {
                let Some(raw) = store.resources[index].spec.complete(object, name, position) else {
                    let message = format!("fixture {position} of `{name}` has no metadata.name");
                    findings.push(Finding::error(FindingCode::ConfigInvalid, message));
                    continue;
                };
                let resource = &mut store.resources[index];
                if resource.spec.owns(&raw) {
                    resource.upsert(&raw, &mut store.interner, &mut Changed::default());
                } else {
                    let message = format!("`{name}` would not select this fixture, so it is left out");
                    let finding = Finding::warning(FindingCode::ConfigInvalid, message);
                    findings.push(finding.about(Some(raw.reference())));
                }
            }
        }
        findings.extend(store.findings());
        store.publish(&Changed { resources: store.names(), ..Changed::default() });
        (store.snapshot, findings)
    }

    /// The state after the last write.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot)
    }

    pub fn resources(&self) -> impl Iterator<Item = &WatchedResource> {
        self.resources.iter().map(|resource| &resource.spec)
    }

    /// Everything that is left out now, sorted.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<_> =
            self.resources.iter().flat_map(|resource| resource.findings.values().cloned()).collect();
        findings.sort();
        findings
    }

    /// Brings what a source reported to every resource that it belongs to.
    pub fn sync(&mut self, changes: &[RawChange]) -> Changed {
        let mut changed = Changed::default();
        for resource in &mut self.resources {
            for change in changes {
                resource.change(change, &mut self.interner, &mut changed);
            }
        }
        self.publish(&changed);
        changed
    }

    /// Brings changes to one resource only.
    pub fn apply(&mut self, resource: &str, changes: &[RawChange]) -> Result<Changed, UnknownResource> {
        let mut changed = Changed::default();
        let index = self.index(resource)?;
        for change in changes {
            self.resources[index].change(change, &mut self.interner, &mut changed);
        }
        self.publish(&changed);
        Ok(changed)
    }

    /// Makes these objects all that the resource has.
    pub fn replace_all(&mut self, resource: &str, objects: &[Arc<RawObject>]) -> Result<Changed, UnknownResource> {
        let mut changed = Changed::default();
        let index = self.index(resource)?;
        let resource = &mut self.resources[index];
        let kept: HashSet<Identity> = objects.iter().map(|object| Identity::of(object)).collect();
        let gone: Vec<Identity> = resource.known().filter(|identity| !kept.contains(identity)).collect();
        for identity in gone {
            resource.remove(&identity, &mut changed);
        }
        for object in objects {
            resource.change(&RawChange::Upsert(Arc::clone(object)), &mut self.interner, &mut changed);
        }
        self.publish(&changed);
        Ok(changed)
    }

    /// The state as it would be after these changes, each of one resource; the store itself stays as it is. A change
    /// can bring an object into the selection of a resource, or take it out. An object of a resource is named at most
    /// once.
    pub fn overlay(&mut self, changes: &[(Arc<str>, RawChange)]) -> Result<Overlay, UnknownResource> {
        let mut snapshot = Snapshot::clone(&self.snapshot);
        let mut findings = Vec::new();
        for (name, change) in changes {
            let index = self.index(name)?;
            let resource = &self.resources[index];
            let state = snapshot.resources.get(name).expect("every resource has a state");
            let proposed = resource.overlaid(state, change, &mut self.interner, &mut findings);
            if let Some(state) = proposed {
                snapshot.resources.insert(Arc::clone(name), Arc::new(state));
            }
        }
        self.interner.sweep();
        findings.sort();
        Ok(Overlay { snapshot: Arc::new(snapshot), findings })
    }

    fn index(&self, name: &str) -> Result<usize, UnknownResource> {
        let found = self.resources.iter().position(|resource| *resource.spec.name == *name);
        found.ok_or_else(|| UnknownResource(name.to_owned()))
    }

    fn names(&self) -> BTreeSet<Arc<str>> {
        self.resources.iter().map(|resource| Arc::clone(&resource.spec.name)).collect()
    }

    fn publish(&mut self, changed: &Changed) {
        let mut snapshot = Snapshot::clone(&self.snapshot);
        for resource in &mut self.resources {
            let name = &resource.spec.name;
            if changed.resources.contains(name) || !snapshot.resources.contains_key(name) {
                resource.state.revision = next();
                resource.state.list = OnceLock::new();
                snapshot.resources.insert(Arc::clone(name), Arc::new(resource.state.clone()));
            }
        }
        self.snapshot = Arc::new(snapshot);
        self.interner.sweep();
    }
}

// === impl Resource ===

impl Resource {
    fn new(spec: WatchedResource) -> Self {
        let state = ResourceState::new(spec.arity(), spec.store == StorePolicy::OnDemand, next());
        Self { spec, entries: HashMap::new(), findings: BTreeMap::new(), state }
    }

    fn known(&self) -> impl Iterator<Item = Identity> + '_ {
        self.entries.keys().chain(self.findings.keys()).cloned()
    }

    fn change(&mut self, change: &RawChange, interner: &mut Interner, changed: &mut Changed) {
        match change {
            RawChange::Upsert(object) if self.spec.serves(&object.api_version, &object.kind) => {
                self.upsert(object, interner, changed);
            }
            // Written in a version that is not read: for this resource it is gone.
            RawChange::Upsert(object) if self.spec.serves_key(&object.key()) => {
                self.remove(&Identity::of(object), changed);
            }
            RawChange::Delete(key) if self.spec.serves_key(key) => self.remove(&Identity::named(key), changed),
            RawChange::Upsert(_) | RawChange::Delete(_) => {}
        }
    }

    fn upsert(&mut self, raw: &RawObject, interner: &mut Interner, changed: &mut Changed) {
        let identity = Identity::of(raw);
        if self.entries.get(&identity).is_some_and(|entry| entry.raw == raw.serial()) {
            return;
        }
        let (key, reference, source, fields) = match self.shape(raw, interner) {
            Shaping::NotSelected => return self.remove(&identity, changed),
            Shaping::LeftOut(finding) => {
                self.remove(&identity, changed);
                self.findings.insert(identity, finding);
                return;
            }
            Shaping::Object { key, reference, source, fields } => (key, reference, source, fields),
        };
        self.findings.remove(&identity);
        let version = (raw.extent() == Extent::Metadata).then(|| raw.resource_version());
        if let Some(entry) = self.entries.get_mut(&identity)
            && entry.key == key
            && entry.object.wanted_version() == version
            && entry.object.same_content(&fields)
        {
            entry.object.moved_to(source);
            entry.raw = raw.serial();
            return;
        }
        changed.note(&self.spec.name, &reference);
        let object = Arc::new(match version {
            Some(version) => Object::partial(reference, next(), version, fields),
            None => Object::new(reference, next(), source, fields),
        });
        let entry = Entry { key: key.clone(), object: Arc::clone(&object), raw: raw.serial() };
        if let Some(previous) = self.entries.insert(identity, entry)
            && previous.key != key
        {
            self.state.objects.remove(&previous.key);
        }
        self.state.objects.insert(key, object);
    }

    /// Selected, keyed and pruned.
    fn shape(&self, raw: &RawObject, interner: &mut Interner) -> Shaping {
        let mut value = raw.value();
        if !self.spec.selects(&raw.namespace, &value) {
            return Shaping::NotSelected;
        }
        let reference = ObjectRef {
            kind: interner.name(&raw.kind),
            namespace: interner.name(&raw.namespace),
            name: Arc::clone(&raw.name),
        };
        // The index is read before pruning: a field may be ignored as content and still be the key.
        let key = match self.key(&reference, &value) {
            Ok(key) => key,
            Err(message) => {
                let finding = Finding::warning(FindingCode::InvalidValue, message).about(Some(reference)).at(
                    Arc::clone(&raw.source.file),
                    raw.source.line,
                    raw.source.column,
                );
                return Shaping::LeftOut(finding);
            }
        };
        self.spec.prune(&mut value);
        let Value::Object(fields) = value else { return Shaping::NotSelected };
        let fields = interner.shaped(fields);
        let source = Some(raw.source.clone()).filter(|source| !source.file.is_empty());
        Shaping::Object { key, reference, source, fields }
    }

    /// `state` after the change; `None` = as it was.
    fn overlaid(
        &self,
        state: &ResourceState,
        change: &RawChange,
        interner: &mut Interner,
        findings: &mut Vec<Finding>,
    ) -> Option<ResourceState> {
        let (identity, shaping) = match change {
            RawChange::Upsert(object) if self.spec.serves(&object.api_version, &object.kind) => {
                (Identity::of(object), self.shape(object, interner))
            }
            RawChange::Delete(key) if self.spec.serves_key(key) => (Identity::named(key), Shaping::NotSelected),
            RawChange::Upsert(_) | RawChange::Delete(_) => return None,
        };
        let known = self.entries.get(&identity);
        let object = match shaping {
            Shaping::NotSelected => None,
            Shaping::LeftOut(finding) => {
                findings.push(finding);
                None
            }
            Shaping::Object { key, reference, source, fields } => {
                // Mere metadata says nothing of the rest.
                let same =
                    |known: &Entry| known.object.wanted_version().is_none() && known.object.same_content(&fields);
                if known.is_some_and(|known| known.key == key && same(known)) {
                    return None;
                }
                Some((key, Arc::new(Object::new(reference, next(), source, fields))))
            }
        };
        if object.is_none() && known.is_none() {
            return None;
        }
        let mut proposed = ResourceState { revision: next(), list: OnceLock::new(), ..state.clone() };
        if let Some(known) = known {
            proposed.objects.remove(&known.key);
        }
        if let Some((key, object)) = object {
            proposed.objects.insert(key, object);
        }
        Some(proposed)
    }

    fn remove(&mut self, identity: &Identity, changed: &mut Changed) {
        self.findings.remove(identity);
        if let Some(entry) = self.entries.remove(identity) {
            self.state.objects.remove(&entry.key);
            changed.note(&self.spec.name, entry.object.reference());
        }
    }

    fn key(&self, reference: &ObjectRef, value: &Value) -> Result<Key, String> {
        let (namespace, name) = (Arc::clone(&reference.namespace), Arc::clone(&reference.name));
        if self.spec.index_by.is_empty() {
            let components = [Arc::clone(&namespace), Arc::clone(&name)].into();
            return Ok(Key { components, namespace, name });
        }
        let mut components = Vec::with_capacity(self.spec.index_by.len());
        for path in &self.spec.index_by {
            let component: Arc<str> = match path.find(value).first() {
                Some(Value::String(text)) if **text == *namespace => Arc::clone(&namespace),
                Some(Value::String(text)) if **text == *name => Arc::clone(&name),
                Some(Value::String(text)) => text.as_str().into(),
                Some(scalar @ (Value::Number(_) | Value::Bool(_))) => scalar.to_string().into(),
                Some(Value::Null) | None => {
                    return Err(format!(
                        "left out of `{}`: it has no `{path}`, by which objects of this resource are found",
                        self.spec.name
                    ));
                }
                Some(Value::Array(_) | Value::Object(_)) => {
                    return Err(format!("left out of `{}`: its `{path}` is no single value", self.spec.name));
                }
            };
            components.push(component);
        }
        Ok(Key { components: components.into(), namespace, name })
    }
}

// === impl WatchedResource ===

impl WatchedResource {
    /// A fixture as an object of this resource.
    fn complete(&self, object: &Value, fixtures: &str, position: usize) -> Option<RawObject> {
        let mut object = object.clone();
        let fields = object.as_object_mut()?;
        fields.entry("apiVersion").or_insert_with(|| json!(self.versions.first()));
        fields.entry("kind").or_insert_with(|| json!(self.assumed_kind()));
        let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default().to_owned();
        let file = format!("fixtures.{fixtures}[{position}]").into();
        RawObject::new(&object, &namespace, SourceLocation { file, line: 0, column: 0 })
    }
}

// === impl Changed ===

impl Changed {
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    fn note(&mut self, resource: &Arc<str>, object: &ObjectRef) {
        self.resources.insert(Arc::clone(resource));
        self.objects.insert(object.clone());
    }
}

// === impl Identity ===

impl Identity {
    fn of(object: &RawObject) -> Self {
        Self { namespace: Arc::clone(&object.namespace), name: Arc::clone(&object.name) }
    }

    fn named(key: &RawKey) -> Self {
        Self { namespace: Arc::clone(&key.namespace), name: Arc::clone(&key.name) }
    }
}

/// Serials and revisions are unique in the process and not only in one store: what a render remembers of one store
/// must never fit another.
fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests;
