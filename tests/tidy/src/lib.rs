//! What the house rules are checked with: the workspace as cargo sees it, and the hand-written sources as they stand.
//!
//! What: facts, read once. What not: the rules; each is a test in `tests/`, and its failure is a sentence that says
//! why the rule is there. Only tests call this.

mod sources;
mod workspace;

pub use sources::{Source, sources};
pub use workspace::{Package, cargo_tree, packages, root};
