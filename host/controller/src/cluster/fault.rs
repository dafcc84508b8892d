//! The hook by which tests break a hand-over at the one place that nothing from outside can.

use std::{
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use thiserror::Error;

/// Makes the first successor fail that took over a Lease: after the hand-over, before it serves. Written
/// `handed_over:fail`.
#[derive(Clone, Debug)]
pub struct HandOverFault(Arc<AtomicBool>);

#[derive(Debug, Error)]
#[error("`{0}` is not a fault of the controller: write handed_over:fail")]
pub struct InvalidHandOverFault(String);

// === impl HandOverFault ===

impl HandOverFault {
    /// True once.
    pub(crate) fn fires(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }
}

impl FromStr for HandOverFault {
    type Err = InvalidHandOverFault;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "handed_over:fail" { Ok(Self(Arc::default())) } else { Err(InvalidHandOverFault(text.to_owned())) }
    }
}
