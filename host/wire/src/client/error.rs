//! Why an agent could not be asked, told apart by what is to be done about it.

use std::{error::Error as StdError, fmt, io, net::SocketAddr, path::PathBuf, time::Duration};

use rustls::{AlertDescription, CertificateError};
use rustls_pki_types::ServerName;
use thiserror::Error;

use crate::{Conflict, MalformedBody, tls::NotAfter};

/// Where an agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentAddress {
    /// A unix socket on this machine.
    Unix(PathBuf),
    /// TLS over TCP.
    Tls(SocketAddr),
}

/// An apply that was not acted on.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// The fence did not hold; nothing was written.
    #[error("the agent refused the apply: {}", .0.message)]
    Conflict(Box<Conflict>),
    /// The request is not valid, too big, or the agent is not ready; nothing was written.
    #[error("the agent rejected the apply with status {status}: {error}")]
    Rejected {
        /// HTTP status.
        status: u16,
        /// The agent's words.
        error: String,
    },
    /// Whether it was acted on is not known, unless [`ClientError::nothing_was_asked`]: read the state.
    #[error(transparent)]
    Unreachable(#[from] ClientError),
}

/// The agent could not be asked, or did not answer as this API says.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Unreachable: no connection, or none in time.
    #[error("could not connect to the agent at {agent}; look whether its pod runs and may be reached")]
    Connect {
        /// The agent.
        agent: AgentAddress,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Reachable, but one side does not take the other for what it says it is.
    #[error("no trusted connection to the agent at {agent}")]
    Handshake {
        /// The agent.
        agent: AgentAddress,
        /// Which side refused, and why.
        #[source]
        source: HandshakeError,
    },
    /// The connection failed under a request.
    #[error("could not exchange {request} with the agent at {agent}")]
    Exchange {
        /// Method and path.
        request: String,
        /// The agent.
        agent: AgentAddress,
        /// Why.
        #[source]
        source: hyper::Error,
    },
    /// No answer in time.
    #[error("the agent at {agent} did not answer {request} within {limit:?}")]
    Timeout {
        /// Method and path.
        request: String,
        /// The agent.
        agent: AgentAddress,
        /// The bound.
        limit: Duration,
    },
    /// An answer with an unexpected status.
    #[error("the agent answered {request} with status {status}: {error}")]
    Status {
        /// Method and path.
        request: String,
        /// HTTP status.
        status: u16,
        /// The agent's words.
        error: String,
    },
    /// An answer that is not what this API says.
    #[error("the agent's answer to {request} is not valid")]
    Decode {
        /// Method and path.
        request: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The manifest could not be written.
    #[error("the apply could not be encoded: {0}")]
    Encode(MalformedBody),
}

/// Which side refused the other, and why.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// The other side is trusted, and is somebody else.
    #[error("its certificate names {presented:?} and not {expected}; something else than an agent may listen there")]
    WrongIdentity {
        /// What it must name.
        expected: String,
        /// The DNS names that it has.
        presented: Vec<String>,
    },
    /// The other side's certificate is made for another purpose, e.g. a controller's.
    #[error("its certificate is not made for an agent; issue it with the extended key usage \"server auth\"")]
    WrongPurpose,
    /// The agent's certificate has ended.
    #[error("its certificate expired at {not_after}; renew the Secret that its pod mounts, or set this clock right")]
    AgentExpired {
        /// When.
        not_after: NotAfter,
    },
    /// The agent says that the controller's certificate has ended.
    #[error("it takes this controller's certificate for expired (its end is {not_after}); renew the credentials")]
    OwnExpired {
        /// When, by the certificate.
        not_after: NotAfter,
    },
    /// The agent's certificate is not of the known CA, not valid yet, or broken.
    #[error("its certificate is not trusted; look whether both sides have certificates of the same CA")]
    Untrusted {
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// The agent refused this side.
    #[error("it refused this controller: {}", refusal(*.alert))]
    RefusedByAgent {
        /// In the words of TLS.
        alert: AlertDescription,
    },
    /// What is there does not speak TLS 1.3.
    #[error("it does not speak TLS 1.3 as an agent does; something else may listen there")]
    Protocol {
        /// Why.
        #[source]
        source: io::Error,
    },
}

// === impl ClientError ===

impl ClientError {
    /// The request was not sent, so the agent did not act on it.
    pub fn nothing_was_asked(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Handshake { .. } | Self::Encode(_))
    }
}

// === impl HandshakeError ===

impl HandshakeError {
    /// From what a TLS connection failed with, `own` being the end of this side's certificate. Gives back what is no
    /// matter of the handshake: a peer that vanished.
    pub(super) fn classify(error: io::Error, own: NotAfter) -> Result<Self, io::Error> {
        let Some(reason) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
            return Err(error);
        };
        Ok(match reason {
            rustls::Error::AlertReceived(alert) => Self::refused(*alert, own),
            rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { expected, presented }) => {
                Self::WrongIdentity { expected: shown(expected), presented: presented.clone() }
            }
            rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. }) => {
                Self::AgentExpired { not_after: NotAfter::new(*not_after) }
            }
            rustls::Error::InvalidCertificate(CertificateError::InvalidPurpose) => Self::WrongPurpose,
            rustls::Error::InvalidCertificate(_) => Self::Untrusted { source: reason.clone() },
            _ => Self::Protocol { source: error },
        })
    }

    pub(super) fn refused(alert: AlertDescription, own: NotAfter) -> Self {
        match alert {
            AlertDescription::CertificateExpired => Self::OwnExpired { not_after: own },
            AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure => {
                let source = rustls::Error::AlertReceived(alert);
                Self::Protocol { source: io::Error::new(io::ErrorKind::InvalidData, source) }
            }
            alert => Self::RefusedByAgent { alert },
        }
    }
}

impl fmt::Display for AgentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(socket) => socket.display().fmt(f),
            Self::Tls(address) => address.fmt(f),
        }
    }
}

/// The alert, if the other side ended the connection with one.
pub(super) fn alert_in(error: &(dyn StdError + 'static)) -> Option<AlertDescription> {
    let mut next = Some(error);
    while let Some(error) = next {
        // An io::Error's own source skips what it wraps.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let reason = wrapped.and_then(|inner| inner.downcast_ref()).or_else(|| error.downcast_ref());
        if let Some(rustls::Error::AlertReceived(alert)) = reason {
            return Some(*alert);
        }
        next = error.source();
    }
    None
}

fn refusal(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA => "its CA file does not hold the CA of this side's certificate".to_owned(),
        AlertDescription::BadCertificate => "this side's certificate does not name the controller".to_owned(),
        AlertDescription::UnsupportedCertificate => {
            "this side's certificate lacks the extended key usage \"client auth\"".to_owned()
        }
        AlertDescription::CertificateRequired => "this side showed no certificate".to_owned(),
        alert => format!("{alert:?}; the agent's log says why"),
    }
}

fn shown(name: &ServerName<'_>) -> String {
    name.to_str().into_owned()
}
