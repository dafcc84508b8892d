//! Who is who between controller and agent: TLS 1.3, both sides show a certificate of a common CA, and the two have
//! identities that never stand for each other.
//!
//! A certificate is the agent's if its subject alternative names hold the agent's DNS name, letter for letter, and its
//! extended key usage says server; the controller's, if they hold the controller's name and the usage says client. A
//! certificate without extended key usage is nobody's. The address that was dialled plays no part: pods come and go.
//!
//! Sessions are never resumed, because a resumed one would skip the proof of identity.

mod credentials;
mod peer;
mod server_pair;

pub use credentials::{ClientIdentity, Credentials, CredentialsError, CredentialsPart, NotAfter};
pub use peer::PeerName;
pub use server_pair::ServerPair;

#[cfg(feature = "client")]
pub(crate) use credentials::Current;

/// DNS name in the controller's certificate, unless configured otherwise.
pub const CONTROLLER_NAME: &str = "haptic-controller";
/// DNS name in an agent's certificate, unless configured otherwise.
pub const AGENT_NAME: &str = "haptic-agent";
