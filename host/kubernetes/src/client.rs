//! A client from what the environment says. The environment itself is an argument.

use std::{io, path::PathBuf, time::Duration};

use kube::{
    Client, Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use thiserror::Error;

/// How to reach the API server and who to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// In a pod, as its service account.
    InCluster(InCluster),
    /// As a kubeconfig file says; `context` = `None` takes its current one.
    Kubeconfig { path: PathBuf, context: Option<String> },
    /// Without TLS and without credentials, such as to a proxy on the same machine that has them.
    Plain { url: String },
}

/// What a pod knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InCluster {
    /// `KUBERNETES_SERVICE_HOST`: a name or an address, without brackets.
    pub host: String,
    /// `KUBERNETES_SERVICE_PORT`.
    pub port: u16,
    /// The folder with `token`, `ca.crt` and `namespace`. Token and certificates are read again at least once a
    /// minute, because the kubelet renews them.
    pub folder: PathBuf,
}

#[derive(Debug, Error)]
pub enum ConnectError {
    #[error("reading `{path}` of the service account failed; mount a service account token into the pod")]
    ServiceAccount {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("reading the kubeconfig `{path}` failed; name a kubeconfig that exists and has this context")]
    Kubeconfig {
        path: PathBuf,
        #[source]
        source: KubeconfigError,
    },
    #[error("`{url}` is no address of an API server; write http:// or https:// with a host and a port")]
    Url {
        url: String,
        #[source]
        source: http::uri::InvalidUri,
    },
    #[error("making a client for the API server failed; check its certificates and the user's credentials")]
    Client(#[source] kube::Error),
}

/// Makes a client. Nothing is sent yet. `connect_timeout` bounds making a connection, TLS included.
pub async fn connect(access: &Access, connect_timeout: Duration) -> Result<Client, ConnectError> {
    let mut config = match access {
        Access::InCluster(pod) => pod.config().await?,
        Access::Kubeconfig { path, context } => {
            let failed = |source| ConnectError::Kubeconfig { path: path.clone(), source };
            let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
            let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(failed)?
        }
        Access::Plain { url } => Config::new(uri(url)?),
    };
    config.connect_timeout = Some(connect_timeout);
    config.write_timeout = Some(connect_timeout);
    // Whole answers and idle watches have bounds of their own.
    config.read_timeout = None;
    // Retries here would hide refusals from those who decide what follows from them.
    config.default_retry = false;
    Client::try_from(config).map_err(ConnectError::Client)
}

// === impl InCluster ===

impl InCluster {
    /// Where every pod finds its service account.
    pub const FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

    async fn config(&self) -> Result<Config, ConnectError> {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let mut config = Config::new(uri(&format!("https://{host}:{}", self.port))?);
        // Read here only so that a missing one is named at once.
        for name in ["token", "ca.crt"] {
            self.read(name).await?;
        }
        self.read("namespace").await?.trim().clone_into(&mut config.default_namespace);
        config.root_cert_file = Some(self.folder.join("ca.crt"));
        let token_file = self.folder.join("token").to_string_lossy().into_owned();
        config.auth_info = AuthInfo { token_file: Some(token_file), ..AuthInfo::default() };
        Ok(config)
    }

    async fn read(&self, name: &str) -> Result<String, ConnectError> {
        let path = self.folder.join(name);
        match tokio::fs::read_to_string(&path).await {
            Ok(text) => Ok(text),
            Err(source) => Err(ConnectError::ServiceAccount { path, source }),
        }
    }
}

fn uri(url: &str) -> Result<http::Uri, ConnectError> {
    url.parse().map_err(|source| ConnectError::Url { url: url.to_owned(), source })
}

#[cfg(test)]
mod tests;
