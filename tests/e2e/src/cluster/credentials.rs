//! The identities of controller and agents, and the Secrets in which they get them.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{Authority, Issued, Subject};

/// A CA with both identities, as `tests/tools/cluster-certificates.sh` makes them for people.
pub struct Credentials {
    pub authority: Authority,
    pub controller: Issued,
    pub agent: Issued,
}

// === impl Credentials ===

impl Credentials {
    pub fn issue() -> Result<Self> {
        let authority = Authority::new("haptic").context("make a CA")?;
        let controller = authority.issue(&Subject::controller()).context("make the controller's certificate")?;
        let agent = authority.issue(&Subject::agent()).context("make the agents' certificate")?;
        Ok(Self { authority, controller, agent })
    }

    /// The entries of a Secret with a new certificate of the controller, by the same CA.
    pub fn controller_again(&self) -> Result<Value> {
        let pair = self.authority.issue(&Subject::controller()).context("make the controller's certificate")?;
        Ok(json!({ "tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": self.authority.pem() }))
    }

    /// Both Secrets of the example.
    pub fn secrets(&self) -> [Value; 2] {
        [("haptic-credentials", &self.controller), ("haptic-agent", &self.agent)].map(|(name, pair)| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": { "name": name, "namespace": "haptic" },
                "stringData": { "tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": self.authority.pem() },
            })
        })
    }
}
