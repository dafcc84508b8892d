//! What several first-party plugins share: the words of a line of HAProxy's configuration, and findings that stay
//! within bounds however wrong a file is.
#![forbid(unsafe_code)]

mod findings;
mod words;

pub use findings::Findings;
pub use words::{First, Words, first};
