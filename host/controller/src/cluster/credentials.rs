//! The controller's credentials for agents, from a Secret with `tls.crt`, `tls.key` and `ca.crt`.
//!
//! Renewal is live: a newer Secret that parses is swapped in, and connections that stand go on. One that does not parse
//! changes nothing but the findings. No I/O: who watches the Secret feeds it.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haptic_model::{Digest, Finding, FindingCode, ObjectRef};
use haptic_store::RawObject;
use haptic_wire::tls::{ClientIdentity, Credentials, CredentialsError, CredentialsPart, NotAfter};
use serde_json::Value;

use crate::clock::WallClock;

/// How long before its end a certificate is complained about, in seconds.
const WARN_BEFORE: u64 = 24 * 60 * 60;

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const CA: &str = "ca.crt";

/// The identity that agents are asked with, kept up with one Secret.
#[derive(Debug)]
pub struct AgentCredentials {
    secret: ObjectRef,
    clock: WallClock,
    identity: Option<Arc<ClientIdentity>>,
    /// Of what is in use, so that a new label on the Secret makes no new connections.
    used: Option<Digest>,
    /// Why the newest Secret is not in use.
    refused: Option<Finding>,
    complained: Lifetime,
}

/// What an update made of the credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialsChange {
    /// The same credentials.
    Unchanged,
    /// The first ones: connections can be made from now on.
    First,
    /// Renewed ones; connections that are made from now on show them.
    Renewed,
    /// They cannot be used, and those before stay in use: see [`AgentCredentials::findings`].
    Refused,
}

/// How a certificate stands in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Lifetime {
    #[default]
    Good,
    EndsSoon,
    Ended,
}

// === impl AgentCredentials ===

impl AgentCredentials {
    /// Without credentials until the first [`Self::update`].
    pub fn new(namespace: &str, name: &str, clock: WallClock) -> Self {
        let secret = ObjectRef::new("Secret", namespace, name);
        Self { secret, clock, identity: None, used: None, refused: None, complained: Lifetime::Good }
    }

    /// Whether it is kept up with this Secret.
    pub fn is_of(&self, namespace: &str, name: &str) -> bool {
        (&*self.secret.namespace, &*self.secret.name) == (namespace, name)
    }

    /// Takes the newest state of the Secret; `None` = it is not there. Later states must come later.
    pub fn update(&mut self, secret: Option<&Arc<RawObject>>) -> CredentialsChange {
        let read = secret.ok_or_else(|| Box::new(self.missing())).and_then(|secret| self.read(secret));
        let (digest, credentials) = match read {
            Ok(Some(read)) => read,
            Ok(None) => {
                self.refused = None;
                return CredentialsChange::Unchanged;
            }
            Err(finding) => return self.refuse(*finding),
        };
        let change = match &self.identity {
            Some(identity) => identity.swap(&credentials).map(|()| CredentialsChange::Renewed),
            None => ClientIdentity::new(&credentials).map(|identity| {
                self.identity = Some(Arc::new(identity));
                CredentialsChange::First
            }),
        };
        match change {
            Ok(change) => {
                self.used = Some(digest);
                self.refused = None;
                self.complained = Lifetime::Good;
                tracing::info!(
                    target: "haptic::credentials", namespace = %self.secret.namespace, name = %self.secret.name,
                    not_after = %credentials.not_after(), renewed = change == CredentialsChange::Renewed,
                    "credentials for the agents"
                );
                self.check_expiry();
                change
            }
            Err(error) => {
                let finding = self.unusable(&error);
                self.refuse(finding)
            }
        }
    }

    /// What agents are asked with; stays the same object through every renewal. `None` before the first Secret.
    pub fn identity(&self) -> Option<Arc<ClientIdentity>> {
        self.identity.clone()
    }

    /// When the certificate in use ends.
    pub fn not_after(&self) -> Option<NotAfter> {
        self.identity.as_ref().map(|identity| identity.not_after())
    }

    /// What is wrong with the newest Secret, and with the lifetime of what is in use, at this moment.
    pub fn findings(&self) -> Vec<Finding> {
        self.refused.iter().cloned().chain(self.expiry()).collect()
    }

    /// Logs once that the certificate in use ends within a day, and once that it has ended. Call it now and then.
    pub fn check_expiry(&mut self) {
        let lifetime = self.lifetime();
        if lifetime > self.complained
            && let Some(finding) = self.expiry()
        {
            match lifetime {
                Lifetime::Ended => tracing::error!(target: "haptic::credentials", code = %finding.code, "{finding}"),
                _ => tracing::warn!(target: "haptic::credentials", code = %finding.code, "{finding}"),
            }
        }
        self.complained = lifetime;
    }

    /// `None` = it holds what is in use.
    fn read(&self, secret: &RawObject) -> Result<Option<(Digest, Credentials)>, Box<Finding>> {
        let value = secret.value();
        let [certificate, key, ca] = [CERTIFICATE, KEY, CA].map(|entry| self.entry(&value, entry));
        let (certificate, key, ca) = (certificate?, key?, ca?);
        let digests = [&certificate, &key, &ca].map(|part| Digest::of(part).to_string());
        let digest = Digest::of(digests.concat().as_bytes());
        if self.used == Some(digest) {
            return Ok(None);
        }
        let credentials =
            Credentials::from_pem(&certificate, &key, &ca).map_err(|error| Box::new(self.unusable(&error)))?;
        Ok(Some((digest, credentials)))
    }

    fn entry(&self, secret: &Value, entry: &str) -> Result<Vec<u8>, Box<Finding>> {
        let encoded = secret["data"][entry].as_str().filter(|text| !text.is_empty()).ok_or_else(|| {
            let content = match entry {
                CERTIFICATE => "the controller's client certificate in PEM",
                KEY => "the key of the client certificate in PEM",
                _ => "the CA of the agents' certificates in PEM",
            };
            let message = format!("it has no `{entry}`, which the controller needs to ask agents");
            Box::new(self.finding(message).hint(format!("put {content} into `{entry}`")))
        })?;
        STANDARD.decode(encoded).map_err(|_| {
            let finding = self.finding(format!("its `{entry}` is not base64"));
            Box::new(finding.hint("encode it, or write it as stringData and let the API server encode it"))
        })
    }

    fn refuse(&mut self, finding: Finding) -> CredentialsChange {
        if self.refused.as_ref() != Some(&finding) {
            let kept = if self.identity.is_some() { "those before stay in use" } else { "no agent can be asked" };
            tracing::error!(target: "haptic::credentials", code = %finding.code, "{finding}; {kept}");
        }
        self.refused = Some(finding);
        CredentialsChange::Refused
    }

    fn missing(&self) -> Finding {
        let message = "it is not there or may not be read, and the controller asks agents with it";
        Finding { code: FindingCode::UnresolvedReference, ..self.finding(message) }.hint(
            "create it, correct spec.credentialsSecretRef, or apply what `haptic rbac` says for this configuration",
        )
    }

    fn unusable(&self, error: &CredentialsError) -> Finding {
        let entry = match error.part() {
            CredentialsPart::Certificate => CERTIFICATE,
            CredentialsPart::Key => KEY,
            CredentialsPart::Ca => CA,
        };
        let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
        self.finding(format!("its `{entry}` cannot be used: {error}{source}"))
            .hint(format!("replace `{entry}` in the Secret; it is read again at once"))
    }

    fn expiry(&self) -> Option<Finding> {
        let end = self.not_after()?;
        let hint = format!("renew `{CERTIFICATE}` and `{KEY}` in the Secret; they are taken without a restart");
        let lifetime = self.lifetime();
        let finding = match lifetime {
            Lifetime::Good => return None,
            Lifetime::EndsSoon => {
                let message = format!("its `{CERTIFICATE}` ends at {end}; after that no agent takes what is deployed");
                Finding::warning(FindingCode::InvalidValue, message)
            }
            Lifetime::Ended => {
                let message = format!("its `{CERTIFICATE}` ended at {end}, so no agent takes what is deployed");
                Finding::error(FindingCode::InvalidValue, message)
            }
        };
        Some(finding.about(Some(self.secret.clone())).hint(hint))
    }

    fn lifetime(&self) -> Lifetime {
        let Some(end) = self.not_after() else { return Lifetime::Good };
        let now = self.clock.now().0;
        if now > end.as_secs() {
            Lifetime::Ended
        } else if now + WARN_BEFORE > end.as_secs() {
            Lifetime::EndsSoon
        } else {
            Lifetime::Good
        }
    }

    fn finding(&self, message: impl Into<String>) -> Finding {
        Finding::error(FindingCode::InvalidValue, message).about(Some(self.secret.clone()))
    }
}

#[cfg(test)]
mod tests;
