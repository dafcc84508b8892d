//! What was delivered of one list and watch: the good objects that stay when the server has trouble. The objects
//! themselves are whoever's they were delivered to; what is kept of each is enough to tell a change.

use std::{collections::HashMap, sync::Arc};

use haptic_model::Digest;
use haptic_store::{RawChange, RawKey, RawObject};

use crate::{
    Effect, ResourceVersion, Trouble,
    decode::{Decoder, Event, Malformed},
};

/// The delivered objects and the version up to which they are known.
#[derive(Default)]
pub(crate) struct Known {
    objects: HashMap<Identity, Delivered>,
    version: ResourceVersion,
}

/// A list while it comes. It is nothing until it is complete.
#[derive(Default)]
pub(crate) struct Listing(HashMap<Identity, Listed>);

/// One object as it was delivered last.
struct Delivered {
    api_version: Arc<str>,
    kind: Arc<str>,
    content: Digest,
}

struct Listed {
    delivered: Delivered,
    /// `None` = as it is known.
    new: Option<Arc<RawObject>>,
}

/// An event that was read but not yet taken over.
#[derive(Debug)]
pub(crate) enum Step {
    Upsert(Arc<RawObject>),
    Delete(RawKey, ResourceVersion),
    Advance(ResourceVersion),
}

pub(crate) type Changes = Vec<(RawChange, Effect)>;

/// Namespace and name.
type Identity = (Arc<str>, Arc<str>);

// === impl Known ===

impl Known {
    pub(crate) fn version(&self) -> &ResourceVersion {
        &self.version
    }

    /// Takes a complete list, unless it is older than what is known.
    pub(crate) fn replace(&mut self, listing: Listing, version: &ResourceVersion) -> Changes {
        let mut changes = Vec::new();
        let mut arrived = Vec::new();
        let mut before = std::mem::take(&mut self.objects);
        for (identity, Listed { delivered, new }) in listing.0 {
            let old = before.remove(&identity);
            // In another group it is another object for the store.
            if let Some(old) = old.as_ref().filter(|old| !old.is_kin_of(&delivered)) {
                changes.push(delete(old.key(&identity)));
            }
            if let Some(new) = new {
                let effect = if old.is_some() { Effect::Changed } else { Effect::Added };
                arrived.push((RawChange::Upsert(new), effect));
            }
            self.objects.insert(identity, delivered);
        }
        changes.extend(before.iter().map(|(identity, gone)| delete(gone.key(identity))));
        changes.append(&mut arrived);
        self.version.advance(version);
        changes
    }

    /// Whether a complete list of this version may be taken.
    pub(crate) fn believe(&self, listed: &ResourceVersion) -> Result<(), Trouble> {
        if listed.is_older_than(&self.version) {
            return Err(Trouble::Older { listed: listed.clone(), known: self.version.clone() });
        }
        Ok(())
    }

    /// Takes events in their order. What was known already is no change, and neither is an event of the past: a server
    /// sends events in the order of their versions, so it lags behind one that was heard before.
    pub(crate) fn follow(&mut self, steps: Vec<Step>) -> Changes {
        let mut changes = Vec::new();
        for step in steps {
            let version = step.version();
            if version.is_older_than(&self.version) {
                continue;
            }
            self.version.advance(&version);
            match step {
                Step::Upsert(object) => changes.extend(self.upsert(object)),
                Step::Delete(key, _) => changes.extend(self.delete(key)),
                Step::Advance(_) => {}
            }
        }
        changes
    }

    /// The resource is not there any more.
    pub(crate) fn withdraw(&mut self) -> Changes {
        self.objects.drain().map(|(identity, object)| delete(object.key(&identity))).collect()
    }

    fn upsert(&mut self, object: Arc<RawObject>) -> Option<(RawChange, Effect)> {
        let identity = identity(&object);
        let delivered = Delivered::new(&object);
        let effect = match self.objects.get(&identity) {
            Some(known) if known.content == delivered.content => return None,
            Some(_) => Effect::Changed,
            None => Effect::Added,
        };
        self.objects.insert(identity, delivered);
        Some((RawChange::Upsert(object), effect))
    }

    fn delete(&mut self, key: RawKey) -> Option<(RawChange, Effect)> {
        let identity = (Arc::clone(&key.namespace), Arc::clone(&key.name));
        self.objects.remove(&identity).map(|_| delete(key))
    }
}

// === impl Listing ===

impl Listing {
    /// Adds an object. One that is known with the same content is no change.
    pub(crate) fn add(&mut self, object: RawObject, known: &Known) {
        let identity = identity(&object);
        let delivered = Delivered::new(&object);
        let is_known = known.objects.get(&identity).is_some_and(|old| old.content == delivered.content);
        let new = (!is_known).then(|| Arc::new(object));
        self.0.insert(identity, Listed { delivered, new });
    }

    /// An object went while the list was sent.
    pub(crate) fn remove(&mut self, key: &RawKey) {
        self.0.remove(&(Arc::clone(&key.namespace), Arc::clone(&key.name)));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

// === impl Delivered ===

impl Delivered {
    fn new(object: &RawObject) -> Self {
        let (api_version, kind) = (Arc::clone(&object.api_version), Arc::clone(&object.kind));
        Self { api_version, kind, content: object.content() }
    }

    fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    fn is_kin_of(&self, other: &Self) -> bool {
        self.group() == other.group() && self.kind == other.kind
    }

    fn key(&self, (namespace, name): &Identity) -> RawKey {
        RawKey {
            group: self.group().into(),
            kind: Arc::clone(&self.kind),
            namespace: Arc::clone(namespace),
            name: Arc::clone(name),
        }
    }
}

// === impl Step ===

impl Step {
    fn version(&self) -> ResourceVersion {
        match self {
            Self::Upsert(object) => object.resource_version().into(),
            Self::Delete(_, version) | Self::Advance(version) => version.clone(),
        }
    }

    pub(crate) fn read(event: Event, decoder: &mut Decoder) -> Result<Self, Trouble> {
        let named =
            |version: ResourceVersion| if version.is_unknown() { Err(Malformed::Unversioned) } else { Ok(version) };
        Ok(match event {
            Event::Upsert(object) => {
                named(object.version())?;
                Self::Upsert(Arc::new(decoder.object(object)?))
            }
            Event::Delete(object) => Self::Delete(decoder.key(&object)?, named(object.version())?),
            Event::Bookmark { version, .. } => Self::Advance(named(version)?),
            Event::Error(status) => return Err(Trouble::Refused(status.into())),
        })
    }
}

fn identity(object: &RawObject) -> Identity {
    (Arc::clone(&object.namespace), Arc::clone(&object.name))
}

fn delete(key: RawKey) -> (RawChange, Effect) {
    (RawChange::Delete(key), Effect::Removed)
}

#[cfg(test)]
mod tests;
