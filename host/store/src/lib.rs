//! Where resources come from, and the indexed, tracked store that templates read.
//!
//! What: [`DirectorySource`] reads manifests from directories and says what changed; [`Store`] prunes, shapes and
//! indexes objects; a [`Snapshot`] is one immutable state of it, whose reads can be stamped ([`Snapshot::stamp`]) so
//! that a render knows what it depends on. What not: no template is evaluated, no configuration object is merged.
//! The controller feeds the store, the render reads snapshots.
//!
//! ```text
//! directory ──Scan──► Store::sync ──► Snapshot ──list/fetch/get_single──► templates
//! ```

mod bodies;
mod directory;
mod jsonpath;
mod object;
mod raw;
mod resource;
mod selector;
mod shape;
mod snapshot;
mod store;

pub use bodies::{BodyReader, UnreadableBody};
pub use directory::{DirectorySource, Notified, OpenDirectoryError, Scan, WatchDirectoryError, Watcher};
pub use jsonpath::{InvalidJsonPath, JsonPath};
pub use object::Object;
pub use raw::{Extent, RawChange, RawKey, RawObject, Transcript};
pub use resource::WatchedResource;
pub use selector::{FieldSelector, InvalidSelector, LabelSelector};
pub use snapshot::{Changes, Read, ReadError, Snapshot, Stamp};
pub use store::{Changed, Overlay, Store, UnknownResource};
