//! What talks to the API server: discovery, lists and watches, and the Lease of the leader.
//!
//! What: [`connect`] makes a client from an environment given as an argument; [`Source`] follows a set of wanted
//! resources and delivers what changed in the terms of the store; [`Election`] holds a Lease and the fencing epoch of
//! its term; [`Objects`] reads and writes single objects. What not: nothing here knows what objects are for, renders,
//! deploys or decides what a status says. Called by the controller.
//!
//! ```text
//! Wanted ──► discovery ──► list ──► watch ──► Update {resource, changes} ──► Store::apply
//!               ▲           │ 410, cut │ end
//!          CRDs changed     ◄──────────┘ backoff; the last good objects stay
//!
//! Lease ◄──► Election ──► watch::Receiver<Leadership>
//! ```
//!
//! Every request has a bound in time, every body one in size, and every failed request is followed by a pause.

#![forbid(unsafe_code)]

mod backoff;
mod client;
mod decode;
mod discovery;
mod election;
mod follow;
mod kinds;
mod known;
mod objects;
mod request;
mod source;
mod transport;
mod trouble;
mod version;

pub use backoff::{Backoff, Failures, Jitter};
pub use client::{Access, ConnectError, InCluster, connect};
pub use decode::Malformed;
pub use discovery::{Discovery, Served};
pub use election::{
    Candidate, Election, ElectionClock, ElectionSettings, Ended, Ending, FENCING_EPOCH, Leadership, LeaseProblem,
};
pub use kube::Client;
pub use objects::{Deletion, FIELD_MANAGER, Identity, LARGEST_BODY, Listing, Objects};
pub use request::{Content, Wanted};
pub use source::{Effect, ResourceState, Source, SourceEnded, SourceSettings, States, Update};
pub use transport::{Api, Limits};
pub use trouble::{Refusal, Trouble};
pub use version::ResourceVersion;
