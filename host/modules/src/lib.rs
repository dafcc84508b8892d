//! Where the bytes of a plugin come from: an OCI registry, an HTTP server or a file; always pinned by SHA-256, and signed
//! if that is asked for.
//!
//! What: [`Fetcher`] gets one module once; [`Modules`] keeps a wanted set, tries each again with backoff and keeps what
//! came in a [`Cache`] that is proved on every read; [`push`] writes an image in the CNCF Wasm layout. What not: nothing
//! here compiles or runs a module, and nothing here reads objects of a cluster. Called by the controller and by the
//! commands `haptic plugin push`, `validate`, `render` and `diff`.
//!
//! ```text
//! Wanted {source, pin, key} ──► Modules (a task each, backoff) ──► Fetcher ──► registry | http | file
//!                                   │ open(): pin and signature proved again        │
//!                                   └──────────────── Cache ◄───────────────────────┘
//! ```
//!
//! Secrets (passwords, tokens, user names in URLs, queries) are in no error, log line or `Debug` text of this crate.

#![forbid(unsafe_code)]

mod cache;
mod cosign;
mod credentials;
mod error;
mod fetch;
mod file;
mod modules;
mod reference;
mod registry;
mod transport;

pub use cache::{Cache, CacheError};
pub use cosign::{InvalidKey, PublicKey};
pub use credentials::{Credentials, DockerConfig, InvalidDockerConfig};
pub use error::{FetchError, Reason, Stage};
pub use fetch::{Fetcher, Source, Wanted};
pub use modules::{Backoff, ModuleState, Modules};
pub use reference::{ImageReference, InvalidReference};
pub use registry::push::{ComponentNames, Pushed, push};
pub use transport::{Limits, Transport, TransportError};

/// The largest module that is fetched; the plugin host loads none that is larger.
pub const MAX_MODULE_BYTES: u64 = 64 << 20;
