//! One immutable state of the store, and the reads that templates make of it.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use imbl::{OrdMap, ordmap::DiffItem};
use thiserror::Error;

use crate::{Object, bodies::Bodies};

/// One immutable state of all watched resources. A clone shares everything.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(crate) resources: BTreeMap<Arc<str>, Arc<ResourceState>>,
    /// Where the rest of objects comes from of which only metadata is kept.
    pub(crate) bodies: Option<Arc<Bodies>>,
}

/// A read, as a dependency of what was rendered with its answer. `get_single` depends on the same as `fetch`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Read {
    List { resource: Arc<str> },
    Fetch { resource: Arc<str>, keys: Box<[Arc<str>]> },
}

/// The identity of a read's answer: two stamps of one read are equal exactly if it found the same objects with the
/// same contents. An answer with nothing in it has a stamp too.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Stamp(Answer);

/// What differs between two states.
#[derive(Clone, Debug)]
pub struct Changes {
    /// Only resources that differ; `None` = too many keys to tell them apart.
    resources: BTreeMap<Arc<str>, Option<Vec<Key>>>,
}

/// More changed keys than this are not compared one by one.
const MOST_KEYS: usize = 64;

/// Why a read has no answer. Never the same as "nothing found".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    #[error("no watched resource is named `{resource}`; there are: {known}")]
    UnknownResource { resource: String, known: String },
    #[error("reading `{resource}` needs at least one key; use list() for all objects")]
    NoKeys { resource: String },
    #[error("reading `{resource}` with {given} keys, but its index has {arity}")]
    TooManyKeys { resource: String, given: usize, arity: usize },
    #[error(
        "{count} objects of `{resource}` match {keys}, such as {first} and {second}; get_single() needs at most one"
    )]
    SeveralMatches { resource: String, keys: String, count: usize, first: String, second: String },
    #[error("{object} of `{resource}` (store: on-demand) cannot be read: {reason}")]
    Unreadable { resource: String, object: String, reason: String },
}

/// The key of one object: the values of its index, then namespace and name. Components are compared one by one, so
/// that no value can be taken for two.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) components: Box<[Arc<str>]>,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// One immutable state of one resource.
#[derive(Clone, Debug)]
pub(crate) struct ResourceState {
    pub(crate) arity: usize,
    /// Objects may be mere metadata.
    pub(crate) on_demand: bool,
    /// New whenever an object came, changed or went; unique in this process.
    pub(crate) revision: u64,
    pub(crate) objects: OrdMap<Key, Arc<Object>>,
    /// All objects in order, made by the first `list` of this revision.
    pub(crate) list: OnceLock<Arc<[Arc<Object>]>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Answer {
    Unknown,
    Revision(u64),
    Serials(Box<[u64]>),
}

// === impl Stamp ===

impl Stamp {
    /// The read found nothing.
    pub fn is_of_nothing(&self) -> bool {
        matches!(&self.0, Answer::Serials(serials) if serials.is_empty())
    }
}

// === impl Changes ===

impl Changes {
    /// Whether the answer of `read` may differ; never false when it does.
    pub fn may_affect(&self, read: &Read) -> bool {
        match (self.resources.get(read.resource()), read) {
            (None, _) => false,
            (Some(None), _) | (Some(Some(_)), Read::List { .. }) => true,
            (Some(Some(changed)), Read::Fetch { keys, .. }) => changed.iter().any(|key| key.starts_with(keys)),
        }
    }

    /// Nothing differs.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// Every resource that differs, with the keys of its changed objects; `None` = too many to tell them apart.
    pub fn by_resource(&self) -> impl Iterator<Item = (&Arc<str>, Option<impl Iterator<Item = &[Arc<str>]>>)> {
        self.resources.iter().map(|(resource, keys)| {
            let components = keys.as_ref().map(|keys| keys.iter().map(|key| &*key.components));
            (resource, components)
        })
    }
}

// === impl Read ===

impl Read {
    /// The watched resource that is read.
    pub fn resource(&self) -> &Arc<str> {
        match self {
            Self::List { resource } | Self::Fetch { resource, .. } => resource,
        }
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// The names of all watched resources, sorted.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.resources.keys()
    }

    /// What differs from an earlier state; costs what changed, because unchanged parts are shared.
    pub fn changes_since(&self, earlier: &Self) -> Changes {
        let mut resources = BTreeMap::new();
        for (name, state) in &self.resources {
            let keys = match earlier.resources.get(name) {
                Some(before) if before.revision == state.revision => continue,
                Some(before) => state.keys_changed_since(before),
                None => None,
            };
            resources.insert(Arc::clone(name), keys);
        }
        Changes { resources }
    }

    /// How many components a key of this resource has; `None` if no resource has this name.
    pub fn arity(&self, resource: &str) -> Option<usize> {
        self.resources.get(resource).map(|state| state.arity)
    }

    /// How many objects there are of this resource.
    pub fn count(&self, resource: &str) -> usize {
        self.resources.get(resource).map_or(0, |state| state.objects.len())
    }

    /// What the objects of this resource take in memory as they are kept; see [`Object::bytes`].
    pub fn bytes(&self, resource: &str) -> usize {
        self.resources.get(resource).map_or(0, |state| state.objects.values().map(|object| object.bytes()).sum())
    }

    /// How many objects there are of all resources.
    pub fn len(&self) -> usize {
        self.resources.values().map(|state| state.objects.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects by key, then namespace and name.
    pub fn list(&self, resource: &str) -> Result<Arc<[Arc<Object>]>, ReadError> {
        let state = self.state(resource)?;
        let list = state.list.get_or_init(|| state.objects.values().cloned().collect());
        if !state.on_demand {
            return Ok(Arc::clone(list));
        }
        list.iter().filter_map(|object| self.whole(resource, object).transpose()).collect()
    }

    /// The objects whose key starts with `keys`, by key, then namespace and name.
    pub fn fetch<K: AsRef<str>>(&self, resource: &str, keys: &[K]) -> Result<Vec<Arc<Object>>, ReadError> {
        let state = self.state(resource)?;
        if keys.is_empty() {
            return Err(ReadError::NoKeys { resource: resource.to_owned() });
        }
        if keys.len() > state.arity {
            let (given, arity) = (keys.len(), state.arity);
            return Err(ReadError::TooManyKeys { resource: resource.to_owned(), given, arity });
        }
        state.find(keys).filter_map(|object| self.whole(resource, object).transpose()).collect()
    }

    /// The only object whose key starts with `keys`, if there is one.
    pub fn get_single<K: AsRef<str>>(&self, resource: &str, keys: &[K]) -> Result<Option<Arc<Object>>, ReadError> {
        let mut found = self.fetch(resource, keys)?;
        if let [first, second, ..] = found.as_slice() {
            return Err(ReadError::SeveralMatches {
                resource: resource.to_owned(),
                keys: keys.iter().map(|key| format!("`{}`", key.as_ref())).collect::<Vec<_>>().join(", "),
                count: found.len(),
                first: first.reference().to_string(),
                second: second.reference().to_string(),
            });
        }
        Ok(found.pop())
    }

    /// The identity of what this read finds, at the cost of finding it; for `List` at no cost.
    pub fn stamp(&self, read: &Read) -> Stamp {
        let (Read::List { resource } | Read::Fetch { resource, .. }) = read;
        let Some(state) = self.resources.get(resource) else { return Stamp(Answer::Unknown) };
        Stamp(match read {
            Read::List { .. } => Answer::Revision(state.revision),
            Read::Fetch { keys, .. } => Answer::Serials(state.find(keys).map(|object| object.serial()).collect()),
        })
    }

    /// `None` = it is gone; that it is, the next snapshot knows.
    fn whole(&self, resource: &str, object: &Arc<Object>) -> Result<Option<Arc<Object>>, ReadError> {
        if object.wanted_version().is_none() {
            return Ok(Some(Arc::clone(object)));
        }
        let unreadable = |reason: String| ReadError::Unreadable {
            resource: resource.to_owned(),
            object: object.reference().to_string(),
            reason,
        };
        let bodies = self.bodies.as_ref().ok_or_else(|| unreadable("nothing reads objects here".to_owned()))?;
        bodies.whole(resource, object).map_err(|error| unreadable(error.to_string()))
    }

    fn state(&self, resource: &str) -> Result<&ResourceState, ReadError> {
        self.resources.get(resource).map(Arc::as_ref).ok_or_else(|| {
            let known: Vec<&str> = self.resources.keys().map(AsRef::as_ref).collect();
            ReadError::UnknownResource { resource: resource.to_owned(), known: known.join(", ") }
        })
    }
}

// === impl ResourceState ===

impl ResourceState {
    pub(crate) fn new(arity: usize, on_demand: bool, revision: u64) -> Self {
        Self { arity, on_demand, revision, objects: OrdMap::new(), list: OnceLock::new() }
    }

    fn keys_changed_since(&self, before: &Self) -> Option<Vec<Key>> {
        let mut keys = Vec::new();
        for difference in before.objects.diff(&self.objects) {
            let (DiffItem::Add(key, _) | DiffItem::Remove(key, _) | DiffItem::Update { new: (key, _), .. }) =
                difference;
            if keys.len() == MOST_KEYS {
                return None;
            }
            keys.push(key.clone());
        }
        Some(keys)
    }

    fn find<'s, K: AsRef<str>>(&'s self, keys: &'s [K]) -> impl Iterator<Item = &'s Arc<Object>> + 's {
        let empty: Arc<str> = "".into();
        let components = keys.iter().map(|key| key.as_ref().into()).collect();
        let from = Key { components, namespace: Arc::clone(&empty), name: empty };
        self.objects.range(from..).take_while(move |(key, _)| key.starts_with(keys)).map(|(_, object)| object)
    }
}

// === impl Key ===

impl Key {
    fn starts_with<K: AsRef<str>>(&self, keys: &[K]) -> bool {
        keys.len() <= self.components.len() && self.components.iter().zip(keys).all(|(a, b)| **a == *b.as_ref())
    }
}
