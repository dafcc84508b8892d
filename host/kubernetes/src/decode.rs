//! The server's JSON into objects of the store, in one pass from bytes: no tree is made of an object.
//!
//! What is never stored is not even copied: `managedFields`, the configuration that `kubectl apply` remembers, and the
//! resource version, which is kept apart. `apiVersion` and `kind` come from discovery, because the items of a typed
//! list do not repeat them and those of a metadata list have another kind.

mod event;
mod page;
mod transcribe;

use std::sync::Arc;

use haptic_store::{Extent, RawKey, RawObject, Transcript};
use thiserror::Error;

use crate::{ResourceVersion, discovery::Served};

pub(crate) use event::{Event, read_event};
pub(crate) use page::read_page;
pub(crate) use transcribe::Transcribed;

/// What the server sent is not what its API promises.
#[derive(Debug, Error)]
pub enum Malformed {
    #[error("reading the server's JSON failed")]
    Json(#[source] serde_json::Error),
    #[error("the server sent an object without a name")]
    Nameless,
    #[error("the server sent a list without a resource version")]
    Unversioned,
    #[error("the server sent an event of the unknown type `{0}`")]
    UnknownEvent(String),
}

/// Makes objects of one kind. What all of them have in common is shared between them.
pub(crate) struct Decoder {
    served: Arc<Served>,
    group: Arc<str>,
    extent: Extent,
    /// The namespace of the object before: lists are sorted by it.
    namespace: Arc<str>,
}

// === impl Decoder ===

impl Decoder {
    pub(crate) fn new(served: Arc<Served>, extent: Extent) -> Self {
        let group = served.group().into();
        Self { served, group, extent, namespace: "".into() }
    }

    pub(crate) fn served(&self) -> &Served {
        &self.served
    }

    pub(crate) fn object(&mut self, transcribed: Transcribed) -> Result<RawObject, Malformed> {
        let namespace = self.namespace(&transcribed);
        let name = transcribed.name.filter(|name| !name.is_empty()).ok_or(Malformed::Nameless)?;
        Ok(RawObject::transcribed(Transcript {
            api_version: Arc::clone(&self.served.api_version),
            kind: Arc::clone(&self.served.kind),
            namespace,
            name: name.into(),
            resource_version: transcribed.resource_version.into(),
            extent: self.extent,
            json: transcribed.json.into_boxed_str(),
        }))
    }

    pub(crate) fn key(&mut self, transcribed: &Transcribed) -> Result<RawKey, Malformed> {
        let name = transcribed.name.as_deref().filter(|name| !name.is_empty()).ok_or(Malformed::Nameless)?;
        let namespace = self.namespace(transcribed);
        Ok(RawKey { group: Arc::clone(&self.group), kind: Arc::clone(&self.served.kind), namespace, name: name.into() })
    }

    fn namespace(&mut self, transcribed: &Transcribed) -> Arc<str> {
        let namespace = transcribed.namespace.as_deref().unwrap_or_default();
        if *self.namespace != *namespace {
            self.namespace = namespace.into();
        }
        Arc::clone(&self.namespace)
    }
}

impl Transcribed {
    pub(crate) fn version(&self) -> ResourceVersion {
        self.resource_version.as_str().into()
    }
}

#[cfg(test)]
mod tests;
