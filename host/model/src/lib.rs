//! The nouns that every stage shares, and the ports through which rooms call each other.
//!
//! What: identities ([`Digest`], [`PlanId`], [`ObjectRef`]), what a render produces ([`Rendered`], [`Plan`]),
//! what a diff produces ([`Op`], [`Verdict`]), what a person reads ([`Finding`]), and the traits a plugin host
//! implements ([`ports`]). What not: no input or output, no HAProxy text, no Kubernetes client, no template engine.
//! Every other room calls it; it calls none.

pub mod ports;

mod digest;
mod file;
mod finding;
mod object;
mod op;
mod plan;
mod rendered;

pub use digest::{Checkpoints, Digest, Framer, InvalidDigest, PlanId};
pub use file::{File, FileKind, FilePath, FileSet, InvalidFilePath};
pub use finding::{Finding, FindingCode, Severity, SourceLocation};
pub use object::ObjectRef;
pub use op::{Mode, Op, Reason, ReasonCode, ServerState, Verdict};
pub use plan::{
    BackendRecord, BindRecord, CONFIG_PATH, CrtListEntry, Entries, FileRecord, Keyword, MapEntry, PLAN_SCHEMA_VERSION,
    Plan, ProfileRecord, ProxyMode, SectionKind, SectionRecord, ServerAddress, ServerRecord,
};
pub use rendered::{Origin, Rendered, SourceMap, SourceSpan};
