//! Objects in a third of the memory: fields are interned shapes, values are the template engine's own.
//!
//! Thousands of objects of one kind have a few dozen lists of field names between them. So an object is a shared
//! *shape*, which is its sorted field names, and a row of values. Reading a field allocates nothing: a child is
//! already a value of the engine.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use minijinja::{
    Value,
    value::{Enumerator, Object, ObjectExt as _, ObjectRepr, ValueKind},
};
use serde_json::Value as Json;

/// An object: its field names and, in the same order, its values.
#[derive(Debug)]
pub(crate) struct Shaped {
    shape: Arc<Shape>,
    values: Box<[Value]>,
}

/// Field names, sorted.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape(Box<[Arc<str>]>);

/// A list.
#[derive(Debug)]
pub(crate) struct List(Box<[Value]>);

/// Shares shapes and field names between the objects of one store.
#[derive(Default)]
pub(crate) struct Interner {
    names: HashSet<Arc<str>>,
    shapes: HashMap<Box<[Arc<str>]>, Arc<Shape>>,
    /// Unused entries are dropped when there are more than this.
    sweep_at: usize,
}

// === impl Shaped ===

impl Shaped {
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.shape.position(name).map(|index| &self.values[index])
    }

    pub(crate) fn names(&self) -> &[Arc<str>] {
        &self.shape.0
    }

    pub(crate) fn pairs(&self) -> impl ExactSizeIterator<Item = (Value, Value)> + '_ {
        self.shape.0.iter().zip(&self.values).map(|(name, value)| (Value::from(Arc::clone(name)), value.clone()))
    }

    /// What its values take in memory, texts and everything inside included. Names of fields are shared.
    pub(crate) fn bytes(&self) -> usize {
        self.values.iter().map(bytes).sum()
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shape, &other.shape) && self.values.iter().zip(&other.values).all(|(a, b)| same(a, b))
    }
}

impl Object for Shaped {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get(key.as_str()?).cloned()
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.get(key).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_key_value_enumerator(|this| Box::new(this.pairs()))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.values.len())
    }
}

// === impl Shape ===

impl Shape {
    fn position(&self, name: &str) -> Option<usize> {
        // Measured: below nine names a scan beats a binary search.
        if self.0.len() <= 8 {
            self.0.iter().position(|known| **known == *name)
        } else {
            self.0.binary_search_by(|known| (**known).cmp(name)).ok()
        }
    }
}

// === impl List ===

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }
}

// === impl Interner ===

impl Interner {
    /// The one shared copy of a text.
    pub(crate) fn name(&mut self, text: &str) -> Arc<str> {
        if let Some(name) = self.names.get(text) {
            return Arc::clone(name);
        }
        let name: Arc<str> = text.into();
        self.names.insert(Arc::clone(&name));
        name
    }

    pub(crate) fn shaped(&mut self, fields: serde_json::Map<String, Json>) -> Shaped {
        let mut fields: Vec<(Arc<str>, Value)> =
            fields.into_iter().map(|(name, value)| (self.name(&name), self.value(value))).collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        let (names, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
        Shaped { shape: self.shape(names), values: values.into() }
    }

    fn shape(&mut self, names: Vec<Arc<str>>) -> Arc<Shape> {
        if let Some(shape) = self.shapes.get(names.as_slice()) {
            return Arc::clone(shape);
        }
        let shape = Arc::new(Shape(names.clone().into()));
        self.shapes.insert(names.into(), Arc::clone(&shape));
        shape
    }

    fn value(&mut self, value: Json) -> Value {
        match value {
            Json::Null => Value::from(()),
            Json::Bool(flag) => Value::from(flag),
            Json::Number(number) => self::number(&number),
            Json::String(text) => Value::from(text),
            Json::Array(items) => Value::from_object(List(items.into_iter().map(|item| self.value(item)).collect())),
            Json::Object(fields) => Value::from_object(self.shaped(fields)),
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shapes.len() + self.names.len()
    }

    /// Drops what no object uses any more, once there is enough of it: annotation names come and go for ever.
    pub(crate) fn sweep(&mut self) {
        if self.shapes.len() + self.names.len() < self.sweep_at.max(4096) {
            return;
        }
        self.shapes.retain(|_, shape| Arc::strong_count(shape) > 1);
        self.names.retain(|name| Arc::strong_count(name) > 1);
        self.sweep_at = 2 * (self.shapes.len() + self.names.len());
    }
}

/// A number that is whole stays an integer, so that a port prints as `80`, never as `80.0`.
fn number(number: &serde_json::Number) -> Value {
    if let Some(whole) = number.as_i64() {
        return Value::from(whole);
    }
    if let Some(whole) = number.as_u64() {
        return Value::from(whole);
    }
    let float = number.as_f64().unwrap_or(f64::NAN);
    // Up to 2^53 every whole number has an exact float.
    if float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0 {
        #[allow(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
        return Value::from(float as i64);
    }
    Value::from(float)
}

/// As it is kept, without what the allocator adds.
fn bytes(value: &Value) -> usize {
    /// The counts of an `Arc`.
    const COUNTS: usize = 2 * size_of::<usize>();
    /// Shorter texts stand in the value itself.
    const INLINE: usize = 22;
    let below = if let Some(fields) = value.downcast_object_ref::<Shaped>() {
        COUNTS + size_of::<Shaped>() + fields.bytes()
    } else if let Some(list) = value.downcast_object_ref::<List>() {
        COUNTS + size_of::<List>() + list.0.iter().map(bytes).sum::<usize>()
    } else {
        value.as_str().filter(|text| text.len() > INLINE).map_or(0, |text| COUNTS + text.len())
    };
    size_of::<Value>() + below
}

/// Exactly the same content: `1` is not `1.0` and not `true`.
fn same(a: &Value, b: &Value) -> bool {
    if let (Some(a), Some(b)) = (a.downcast_object_ref::<Shaped>(), b.downcast_object_ref::<Shaped>()) {
        return a.same(b);
    }
    if let (Some(a), Some(b)) = (a.downcast_object_ref::<List>(), b.downcast_object_ref::<List>()) {
        return a.0.len() == b.0.len() && a.0.iter().zip(&b.0).all(|(a, b)| same(a, b));
    }
    a.kind() == b.kind() && (a.kind() != ValueKind::Number || a.is_integer() == b.is_integer()) && a == b
}
