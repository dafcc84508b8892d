//! Where the agent serves: options to listeners, refusing what would let anybody write the configuration.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use haptic_agent::{Agent, ServerCertificates, TlsFiles};
use haptic_wire::tls::{CONTROLLER_NAME, PeerName};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

#[derive(Args, Debug)]
pub(super) struct DoorOptions {
    /// Serve the API over TCP too; needs the certificate files, or --insecure-loopback
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// The agent's certificate and its chain (PEM): extended key usage "server auth", DNS name haptic-agent
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// CA of the controller's certificate (PEM, one or more). All three files may change at any time
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// DNS name that the controller's certificate must have
    #[arg(long, value_name = "NAME", default_value = CONTROLLER_NAME)]
    client_name: PeerName,
    /// Serve --listen without TLS; only on a loopback address, where every local user can write the configuration
    #[arg(long)]
    insecure_loopback: bool,
    /// Serve /healthz, /readyz and /metrics, and nothing else, without TLS: for the probes of a kubelet and Prometheus
    #[arg(long, value_name = "ADDRESS:PORT")]
    probe_listen: Option<SocketAddr>,
}

/// Bound and not yet served, so that what cannot be served is told before HAProxy is touched.
pub(super) struct Doors {
    api: Option<(TcpListener, Guard)>,
    probes: Option<TcpListener>,
}

/// What stands between the network and the API.
enum Guard {
    Tls(Box<ServerCertificates>),
    /// As soon as the files are there.
    TlsLater(TlsFiles, PeerName),
    Loopback,
}

// === impl DoorOptions ===

impl DoorOptions {
    pub(super) async fn open(self) -> anyhow::Result<Doors> {
        let api = match self.listen {
            Some(address) => {
                let guard = self.guard(address)?;
                Some((bind("--listen", address).await?, guard))
            }
            None if self.files()?.is_some() || self.insecure_loopback => {
                bail!("there are TLS options but nothing to serve with them; add --listen ADDRESS:PORT")
            }
            None => None,
        };
        let probes = match self.probe_listen {
            Some(address) => Some(bind("--probe-listen", address).await?),
            None => None,
        };
        Ok(Doors { api, probes })
    }

    fn guard(&self, address: SocketAddr) -> anyhow::Result<Guard> {
        match (self.files()?, self.insecure_loopback) {
            (Some(_), true) => {
                bail!("--insecure-loopback and the certificate files exclude each other; leave one of them out")
            }
            (Some(files), false) => match ServerCertificates::load(files.clone(), self.client_name.clone()) {
                Ok(certificates) => Ok(Guard::Tls(Box::new(certificates))),
                // A pod may be there before what issues its certificate. HAProxy starts, and is not ready.
                Err(error) if error.is_not_yet() => Ok(Guard::TlsLater(files, self.client_name.clone())),
                Err(error) => Err(error).context("reading the agent's certificate"),
            },
            (None, true) if address.ip().is_loopback() => Ok(Guard::Loopback),
            (None, true) => bail!(
                "--insecure-loopback serves loopback addresses only, and {address} is none; \
                 name --tls-cert, --tls-key and --client-ca instead"
            ),
            (None, false) => bail!(
                "--listen {address} needs --tls-cert, --tls-key and --client-ca: without TLS, whoever reaches it \
                 could write the configuration (on a loopback address, --insecure-loopback allows that)"
            ),
        }
    }

    /// All three or none.
    fn files(&self) -> anyhow::Result<Option<TlsFiles>> {
        let given = [("--tls-cert", &self.tls_cert), ("--tls-key", &self.tls_key), ("--client-ca", &self.client_ca)];
        let missing: Vec<_> = given.iter().filter(|(_, file)| file.is_none()).map(|(name, _)| *name).collect();
        match (&self.tls_cert, &self.tls_key, &self.client_ca) {
            (Some(certificate), Some(key), Some(client_ca)) => {
                Ok(Some(TlsFiles { certificate: certificate.clone(), key: key.clone(), client_ca: client_ca.clone() }))
            }
            (None, None, None) => Ok(None),
            _ => bail!("TLS needs all three certificate files; {} is missing", missing.join(" and ")),
        }
    }
}

// === impl Doors ===

impl Doors {
    /// Serves the API until `stop`, and the probes until `shutdown`.
    pub(super) fn serve(
        self,
        agent: &Agent,
        api: &mut JoinSet<anyhow::Result<()>>,
        probes: &mut JoinSet<anyhow::Result<()>>,
        stop: &CancellationToken,
        shutdown: &CancellationToken,
    ) {
        if let Some((listener, guard)) = self.api {
            let (agent, stop) = (agent.clone(), stop.clone());
            api.spawn(async move {
                match guard {
                    Guard::Tls(certificates) => agent.serve_tls(listener, &certificates, stop).await,
                    Guard::TlsLater(files, client_name) => {
                        if let Some(certificates) = ServerCertificates::await_files(files, client_name, &stop).await {
                            agent.serve_tls(listener, &certificates, stop).await;
                        }
                    }
                    Guard::Loopback => agent.serve_loopback(listener, stop).await?,
                }
                Ok(())
            });
        }
        if let Some(listener) = self.probes {
            let (agent, stop, shutdown) = (agent.clone(), stop.clone(), shutdown.clone());
            probes.spawn(async move {
                agent.serve_probes(listener, stop, shutdown).await;
                Ok(())
            });
        }
    }
}

async fn bind(option: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("listening on {option} {address}"))?;
    tracing::info!(option, address = %listener.local_addr()?, "listening");
    Ok(listener)
}
