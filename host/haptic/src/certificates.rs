//! Which certificates the controller issues, as `run` and `rbac` are told.

use anyhow::Context as _;
use clap::Args;
use haptic_controller::cluster::{CertificateNames, CertificateSettings, Lifetimes, WebhookCertificate};

#[derive(Args, Debug)]
pub(crate) struct CertificateOptions {
    /// Issue and renew the certificates between controllers, agents and the API server, in Secrets that are there; by
    /// default the Secrets are filled by someone else
    #[arg(long)]
    issue_certificates: bool,
    /// Secret of the authority that signs them: ca.crt and ca.key
    #[arg(long, requires = "issue_certificates", value_name = "NAME", default_value = "haptic-authority")]
    authority_secret: String,
    /// Secret of the agents' certificate: tls.crt, tls.key and ca.crt, as those that follow
    #[arg(long, requires = "issue_certificates", value_name = "NAME", default_value = "haptic-agent")]
    agent_secret: String,
    /// Secret of the controller's certificate, the one that spec.credentialsSecretRef names
    #[arg(long, requires = "issue_certificates", value_name = "NAME", default_value = "haptic-controller")]
    controller_secret: String,
    /// Secret of the webhook's certificate
    #[arg(long, requires = "webhook_service", value_name = "NAME", default_value = "haptic-webhook")]
    webhook_secret: String,
    /// Service by which the API server asks the webhook; default: there is no webhook
    #[arg(long, requires = "issue_certificates", value_name = "NAME")]
    webhook_service: Option<String>,
    /// ValidatingWebhookConfiguration whose caBundle is kept right; default: that is done by someone else
    #[arg(long, requires = "webhook_service", value_name = "NAME")]
    webhook_configuration: Option<String>,
}

// === impl CertificateOptions ===

impl CertificateOptions {
    pub(crate) fn is_wanted(&self) -> bool {
        self.issue_certificates
    }

    /// `None` = certificates are someone else's work.
    pub(crate) fn names(self) -> anyhow::Result<Option<CertificateNames>> {
        if !self.issue_certificates {
            return Ok(None);
        }
        let names = CertificateNames {
            authority_secret: self.authority_secret,
            agent_secret: self.agent_secret,
            controller_secret: self.controller_secret,
            webhook: self.webhook_service.map(|service| WebhookCertificate {
                secret: self.webhook_secret,
                service,
                configuration: self.webhook_configuration,
            }),
        };
        names.check().context("naming the Secrets of certificates")?;
        Ok(Some(names))
    }

    pub(crate) fn settings(self, namespace: &str, lifetimes: Lifetimes) -> anyhow::Result<Option<CertificateSettings>> {
        let settings = |names| CertificateSettings { namespace: namespace.into(), names, lifetimes };
        Ok(self.names()?.map(settings))
    }
}
