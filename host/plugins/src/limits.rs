//! What one call may cost.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// The bounds of every call of one plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time from making the instance to the answer; for a filter, also of each later call. Default 1 s.
    pub timeout: Duration,
    /// Linear memories and tables of one instance together. Default 64 MiB.
    pub memory_bytes: u64,
    /// What one call may answer, and the longest value it may hand to the host. Default 1 MiB.
    pub output_bytes: u64,
    /// What one call may read of the files it is given, or the arguments of one filter call. Default 32 MiB. A copy
    /// cannot be interrupted, so this also bounds how far a call can pass its timeout.
    pub input_bytes: u64,
}

/// Bytes that one table element is charged with: a pointer and its type.
const TABLE_ELEMENT_BYTES: usize = 16;

/// componentize-py needs more than twenty core instances for one component.
pub(crate) const MAX_INSTANCES: usize = 128;
pub(crate) const MAX_MEMORIES: usize = 16;
pub(crate) const MAX_TABLES: usize = 64;

/// Handles that one instance may hold at one time, beyond those of the files that it is given.
pub(crate) const MAX_HANDLES: usize = 4096;

/// Counts what an instance holds and remembers that it refused, because a guest that is refused memory dies of the
/// same trap as one that panics.
#[derive(Debug)]
pub(crate) struct Limiter {
    limit: u64,
    held: u64,
    denied: bool,
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(1), memory_bytes: 64 << 20, output_bytes: 1 << 20, input_bytes: 32 << 20 }
    }
}

// === impl Limiter ===

impl Limiter {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, held: 0, denied: false }
    }

    /// Memory is never given back, so this is also the most that was held.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    pub(crate) fn denied(&self) -> bool {
        self.denied
    }

    fn charge(&mut self, bytes: usize) -> bool {
        let wanted = self.held.saturating_add(bytes as u64);
        if wanted > self.limit {
            self.denied = true;
            return false;
        }
        self.held = wanted;
        true
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // Growth past the module's own maximum fails whatever is answered here, and must not be charged.
        Ok(maximum.is_none_or(|maximum| desired <= maximum) && self.charge(desired.saturating_sub(current)))
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let grown = desired.saturating_sub(current).saturating_mul(TABLE_ELEMENT_BYTES);
        Ok(maximum.is_none_or(|maximum| desired <= maximum) && self.charge(grown))
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES
    }

    fn tables(&self) -> usize {
        MAX_TABLES
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn memories_and_tables_share_one_budget() {
        let mut limiter = Limiter::new(1 << 20);
        assert!(limiter.memory_growing(0, 1 << 19, None).unwrap());
        assert!(limiter.table_growing(0, (1 << 19) / TABLE_ELEMENT_BYTES, None).unwrap());
        assert!(!limiter.denied());
        assert!(!limiter.memory_growing(1 << 19, (1 << 19) + 1, None).unwrap());
        assert!(limiter.denied());
    }

    #[test]
    fn growth_past_the_modules_own_maximum_is_no_denial() {
        let mut limiter = Limiter::new(1 << 20);
        assert!(!limiter.memory_growing(0, 1 << 18, Some(1 << 17)).unwrap());
        assert!(!limiter.denied());
    }
}
