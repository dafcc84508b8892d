//! Recognises the echo of haptic's own status writes in a watch: such an event updates the store and triggers nothing.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use haptic_store::{RawKey, RawObject};
use parking_lot::Mutex;

/// Writes whose echo may still come; older ones trigger one render too much, which finds nothing to do.
const REMEMBERED: usize = 16_384;

/// Shared by who writes and who watches.
#[derive(Clone, Debug, Default)]
pub struct OwnWrites(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    versions: BTreeMap<RawKey, Box<str>>,
    order: VecDeque<RawKey>,
}

// === impl OwnWrites ===

impl OwnWrites {
    /// The API server answered a write of ours with this version of the object.
    pub fn wrote(&self, key: RawKey, resource_version: &str) {
        let mut known = self.0.lock();
        if known.versions.insert(key.clone(), resource_version.into()).is_none() {
            known.order.push_back(key);
        }
        if known.order.len() > REMEMBERED
            && let Some(oldest) = known.order.pop_front()
        {
            known.versions.remove(&oldest);
        }
    }

    /// Whether this state of the object is exactly what we wrote.
    pub fn made(&self, object: &RawObject) -> bool {
        let known = self.0.lock();
        // Most objects are never written, and most controllers write few.
        !known.versions.is_empty()
            && known.versions.get(&object.key()).is_some_and(|version| **version == *object.resource_version())
    }
}

#[cfg(test)]
mod tests;
