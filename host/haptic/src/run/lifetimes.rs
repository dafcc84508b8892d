//! How long certificates live that the controller issues.

use anyhow::Context as _;
use clap::Args;
use haptic_api::Duration;
use haptic_controller::cluster::Lifetimes;

#[derive(Args, Debug)]
pub(super) struct LifetimeArgs {
    /// How long a certificate is valid; it is renewed after two thirds of that
    #[arg(long, requires = "issue_certificates", value_name = "DURATION", default_value = "2160h")]
    certificate_lifetime: Duration,
    /// How long an authority is valid, at least three times as long as a certificate; likewise
    #[arg(long, requires = "issue_certificates", value_name = "DURATION", default_value = "87600h")]
    authority_lifetime: Duration,
}

// === impl LifetimeArgs ===

impl LifetimeArgs {
    pub(super) fn get(&self) -> anyhow::Result<Lifetimes> {
        Lifetimes::new(self.certificate_lifetime.get(), self.authority_lifetime.get())
            .context("reading --certificate-lifetime and --authority-lifetime")
    }
}
