//! What was delivered of one list and watch: the good objects that stay when the server has trouble.

use std::{collections::HashMap, sync::Arc};

use haptic_store::{RawChange, RawKey, RawObject};

use crate::{
    Effect, ResourceVersion, Trouble,
    decode::{Decoder, Event, Malformed},
};

/// The delivered objects and the version up to which they are known.
#[derive(Default)]
pub(crate) struct Known {
    objects: HashMap<Identity, Arc<RawObject>>,
    version: ResourceVersion,
}

/// A list while it comes. It is nothing until it is complete.
#[derive(Default)]
pub(crate) struct Listing(HashMap<Identity, Arc<RawObject>>);

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
        let before = std::mem::replace(&mut self.objects, listing.0);
        for (identity, old) in &before {
            match self.objects.get(identity) {
                None => changes.push(delete(old.key())),
                // In another group it is another object for the store.
                Some(new) if new.group() != old.group() || new.kind != old.kind => changes.push(delete(old.key())),
                Some(_) => {}
            }
        }
        for (identity, new) in &self.objects {
            match before.get(identity) {
                Some(old) if Arc::ptr_eq(old, new) => {}
                Some(_) => changes.push((RawChange::Upsert(Arc::clone(new)), Effect::Changed)),
                None => changes.push((RawChange::Upsert(Arc::clone(new)), Effect::Added)),
            }
        }
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
        self.objects.drain().map(|(_, object)| delete(object.key())).collect()
    }

    fn upsert(&mut self, object: Arc<RawObject>) -> Option<(RawChange, Effect)> {
        let identity = identity(&object);
        let effect = match self.objects.get(&identity) {
            Some(known) if known.has_text_of(&object) => return None,
            Some(_) => Effect::Changed,
            None => Effect::Added,
        };
        self.objects.insert(identity, Arc::clone(&object));
        Some((RawChange::Upsert(object), effect))
    }

    fn delete(&mut self, key: RawKey) -> Option<(RawChange, Effect)> {
        let identity = (Arc::clone(&key.namespace), Arc::clone(&key.name));
        self.objects.remove(&identity).map(|_| delete(key))
    }
}

// === impl Listing ===

impl Listing {
    /// Adds an object. One that is known with the same text stays the object that it is.
    pub(crate) fn add(&mut self, object: RawObject, known: &Known) {
        let identity = identity(&object);
        let object = match known.objects.get(&identity) {
            Some(old) if old.has_text_of(&object) => Arc::clone(old),
            _ => Arc::new(object),
        };
        self.0.insert(identity, object);
    }

    /// An object went while the list was sent.
    pub(crate) fn remove(&mut self, key: &RawKey) {
        self.0.remove(&(Arc::clone(&key.namespace), Arc::clone(&key.name)));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
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
