//! What is not kept of objects with `store: on-demand`: read when a template asks for it.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use haptic_model::ObjectRef;
use parking_lot::Mutex;
use serde_json::Value;
use thiserror::Error;

use crate::{Object, WatchedResource, shape::Interner};

/// Reads whole objects. Blocks: renders run on blocking threads.
pub trait BodyReader: Send + Sync + fmt::Debug {
    /// The newest state of the object; `None` = it is gone.
    ///
    /// # Errors
    /// When it cannot be told. That fails the render; it is never the same as "not there".
    fn read(&self, resource: &WatchedResource, object: &ObjectRef) -> Result<Option<Value>, UnreadableBody>;
}

/// Why an object could not be read, with what to do about it.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct UnreadableBody(pub String);

/// Whole objects that were read lately, at most [`KEPT`] of them, so that units of one change do not ask again.
#[derive(Debug)]
pub(crate) struct Bodies {
    reader: Arc<dyn BodyReader>,
    specs: BTreeMap<Arc<str>, WatchedResource>,
    kept: Mutex<Kept>,
}

/// More would be the whole store that `on-demand` is there to spare.
const KEPT: usize = 256;

#[derive(Debug, Default)]
struct Kept {
    /// By serial, with the turn of the last use.
    objects: HashMap<u64, (u64, Arc<Object>)>,
    turn: u64,
}

// === impl Bodies ===

impl Bodies {
    pub(crate) fn new(reader: Arc<dyn BodyReader>, resources: impl Iterator<Item = WatchedResource>) -> Self {
        let specs = resources.map(|spec| (Arc::clone(&spec.name), spec)).collect();
        Self { reader, specs, kept: Mutex::default() }
    }

    /// The whole of `known`, which is mere metadata. What was read may be newer than what is known of it: then the
    /// source is about to tell, and what is rendered now is rendered again.
    pub(crate) fn whole(&self, resource: &str, known: &Object) -> Result<Option<Arc<Object>>, UnreadableBody> {
        if let Some(object) = self.kept.lock().get(known.serial()) {
            return Ok(Some(object));
        }
        let spec = self.specs.get(resource).ok_or_else(|| UnreadableBody("it is of no watched resource".to_owned()))?;
        let Some(mut value) = self.reader.read(spec, known.reference())? else { return Ok(None) };
        let version = value.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let is_known = version == known.wanted_version();
        spec.prune(&mut value);
        let Value::Object(fields) = value else {
            return Err(UnreadableBody("the answer is no object".to_owned()));
        };
        let fields = Interner::default().shaped(fields);
        let object = Arc::new(Object::new(known.reference().clone(), known.serial(), None, fields));
        if is_known {
            self.kept.lock().put(known.serial(), Arc::clone(&object));
        }
        Ok(Some(object))
    }
}

// === impl Kept ===

impl Kept {
    fn get(&mut self, serial: u64) -> Option<Arc<Object>> {
        self.turn += 1;
        let (used, object) = self.objects.get_mut(&serial)?;
        *used = self.turn;
        Some(Arc::clone(object))
    }

    fn put(&mut self, serial: u64, object: Arc<Object>) {
        if self.objects.len() >= KEPT
            && let Some(oldest) = self.objects.iter().min_by_key(|(_, (used, _))| *used).map(|(serial, _)| *serial)
        {
            self.objects.remove(&oldest);
        }
        self.objects.insert(serial, (self.turn, object));
    }
}

#[cfg(test)]
mod tests;
