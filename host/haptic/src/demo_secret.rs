//! `haptic demo-secret`: a self-signed TLS Secret as a manifest, for demonstrations and tests.

use anyhow::Context as _;
use clap::Args;
use rcgen::{CertificateParams, DnType, KeyPair};

#[derive(Args, Debug)]
pub(crate) struct DemoSecret {
    /// Namespace of the Secret.
    #[arg(long, default_value = "default")]
    namespace: String,
    /// Name of the Secret.
    #[arg(long)]
    name: String,
    /// Host name in the certificate; may be given several times, the first is its common name.
    #[arg(long = "host", required = true)]
    hosts: Vec<String>,
}

// === impl DemoSecret ===

impl DemoSecret {
    /// The manifest, as YAML.
    pub(crate) fn manifest(&self) -> anyhow::Result<String> {
        let mut params = CertificateParams::new(self.hosts.clone()).context("reading the host names")?;
        params.distinguished_name.push(DnType::CommonName, self.hosts[0].as_str());
        let key = KeyPair::generate().context("generating a key")?;
        let certificate = params.self_signed(&key).context("signing the certificate")?;
        let secret = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": self.namespace, "name": self.name},
            "type": "kubernetes.io/tls",
            "stringData": {"tls.crt": certificate.pem(), "tls.key": key.serialize_pem()},
        });
        serde_norway::to_string(&secret).context("writing the manifest")
    }
}
