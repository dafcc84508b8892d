//! What several first-party plugins share: the words of a line of HAProxy's configuration, findings that stay within
//! bounds however wrong a file is, and quotes that do.
#![forbid(unsafe_code)]

mod findings;
mod quote;
mod words;

pub use findings::Findings;
pub use quote::cut;
pub use words::{First, Words, first, is_blank};
