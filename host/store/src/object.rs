//! One object of the store, as templates read it.

use std::sync::Arc;

use haptic_model::{ObjectRef, SourceLocation};
use minijinja::{
    Value,
    value::{Enumerator, ObjectExt as _},
};
use parking_lot::RwLock;

use crate::shape::Shaped;

/// An immutable, pruned object. Templates see it as a map.
#[derive(Debug)]
pub struct Object {
    reference: ObjectRef,
    serial: u64,
    /// A manifest that only moved within its file changes this and nothing else.
    source: RwLock<Option<SourceLocation>>,
    fields: Shaped,
    /// What it takes in memory.
    bytes: usize,
    /// Set if the fields are mere metadata: of this version of the object.
    partial: Option<Box<str>>,
}

// Equal serials are equal contents, and what a snapshot holds differs exactly if they do.
impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.serial == other.serial
    }
}

// === impl Object ===

impl Object {
    pub(crate) fn new(reference: ObjectRef, serial: u64, source: Option<SourceLocation>, fields: Shaped) -> Self {
        let bytes = size_of::<Self>() + fields.bytes();
        Self { reference, serial, source: RwLock::new(source), fields, bytes, partial: None }
    }

    /// An object of which only the metadata is kept.
    pub(crate) fn partial(reference: ObjectRef, serial: u64, version: &str, fields: Shaped) -> Self {
        Self { partial: Some(version.into()), ..Self::new(reference, serial, None, fields) }
    }

    /// The version that the rest must have, if this is mere metadata.
    pub(crate) fn wanted_version(&self) -> Option<&str> {
        self.partial.as_deref()
    }

    pub fn reference(&self) -> &ObjectRef {
        &self.reference
    }

    /// A number that is new whenever the content changed; no two contents of this process share one.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// What it takes in memory, without what it shares with others and what the allocator adds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where it was read, if it came from a file.
    pub fn source(&self) -> Option<SourceLocation> {
        self.source.read().clone()
    }

    /// `metadata.creationTimestamp` as it was written, if it is there. RFC 3339 in UTC sorts as text.
    pub fn creation_timestamp(&self) -> Option<Arc<str>> {
        let metadata = self.fields.get("metadata")?.downcast_object_ref::<Shaped>()?;
        metadata.get("creationTimestamp")?.to_str()
    }

    /// The value below these field names, if it is there.
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        let (last, parents) = path.split_last()?;
        let mut fields = &self.fields;
        for name in parents {
            fields = fields.get(name)?.downcast_object_ref::<Shaped>()?;
        }
        fields.get(last)
    }

    /// The object as a value for templates.
    pub fn as_value(self: &Arc<Self>) -> Value {
        Value::from_dyn_object(Arc::clone(self))
    }

    /// The object behind a value, if the value is a whole object of a store (and not a part of one).
    pub fn from_value(value: &Value) -> Option<&Self> {
        value.downcast_object_ref::<Self>()
    }

    /// As [`Self::from_value`], shared.
    pub fn shared_from_value(value: &Value) -> Option<Arc<Self>> {
        value.downcast_object::<Self>()
    }

    pub(crate) fn same_content(&self, fields: &Shaped) -> bool {
        self.fields.same(fields)
    }

    pub(crate) fn moved_to(&self, source: Option<SourceLocation>) {
        *self.source.write() = source;
    }
}

impl minijinja::value::Object for Object {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.fields.get(key.as_str()?).cloned()
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.fields.get(key).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_key_value_enumerator(|this| Box::new(this.fields.pairs()))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.fields.names().len())
    }
}
