//! Requests with everything bounded: connect time, size while it streams, redirects followed by hand. Credentials go
//! to the origin they are for and nowhere else.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::{Certificate, Client, Url, redirect::Policy};
use thiserror::Error;

use crate::{FetchError, MAX_MODULE_BYTES, Reason};

/// Redirects that one request follows.
const MAX_REDIRECTS: usize = 5;

/// What one fetch may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of a module. Default: 64 MiB, which is what the plugin host loads at most.
    pub module_bytes: u64,
    /// For all requests of one fetch together. Default: 2 min.
    pub total: Duration,
    /// Default: 10 s.
    pub connect: Duration,
}

/// The HTTP client. Cheap to clone.
#[derive(Clone)]
pub struct Transport {
    /// Made when it is first needed: whoever fetches nothing needs no certificate authorities.
    client: Arc<OnceLock<Result<Client, FetchError>>>,
    authorities: Arc<[Certificate]>,
    pub(crate) limits: Limits,
}

#[derive(Debug, Error)]
pub enum TransportError {
    #[error("reading a certificate authority for plugin modules")]
    Authority(#[source] reqwest::Error),
}

pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// Sent to the origin of `url` only.
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) body: Bytes,
}

/// An answer of which the body is still to come.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    response: reqwest::Response,
    shown: Arc<str>,
}

// === impl Transport ===

impl Transport {
    /// Trusts the system's certificate authorities; `SSL_CERT_FILE` names others.
    pub fn new(limits: Limits) -> Result<Self, TransportError> {
        Self::trusting(limits, &[])
    }

    /// Trusts `authorities` (PEM) as well.
    pub fn trusting(limits: Limits, authorities: &[&[u8]]) -> Result<Self, TransportError> {
        let certificates = authorities.iter().map(|pem| Certificate::from_pem(pem));
        let authorities: Vec<_> = certificates.collect::<Result<_, _>>().map_err(TransportError::Authority)?;
        Ok(Self { client: Arc::default(), authorities: authorities.into(), limits })
    }

    fn client(&self) -> Result<&Client, FetchError> {
        let made = self.client.get_or_init(|| {
            // One for the process; whoever came first chose the same.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let builder = Client::builder()
                .redirect(Policy::none())
                .referer(false)
                .connect_timeout(self.limits.connect)
                .user_agent(concat!("haptic/", env!("CARGO_PKG_VERSION")));
            let builder = match &*self.authorities {
                [] => builder,
                authorities => builder.tls_certs_merge(authorities.iter().cloned()),
            };
            builder.build().map_err(|error| {
                let message = format!("the HTTP client cannot be set up: {}", root_cause(&error));
                let next =
                    "install certificate authorities (package ca-certificates), or name a file with SSL_CERT_FILE";
                FetchError::new(Reason::Unreachable, message, next)
            })
        });
        made.as_ref().map_err(Clone::clone)
    }

    /// Runs all of a fetch within its time.
    pub(crate) async fn in_time<T>(
        &self,
        what: &str,
        fetch: impl Future<Output = Result<T, FetchError>>,
    ) -> Result<T, FetchError> {
        let total = self.limits.total;
        tokio::time::timeout(total, fetch).await.unwrap_or_else(|_| {
            let message = format!("fetching {what} took longer than {total:?}");
            Err(FetchError::new(Reason::TimedOut, message, "look at the server's load and at the way to it"))
        })
    }

    /// Sends and follows redirects. An answer of any status but a redirect is an answer.
    pub(crate) async fn send(&self, mut request: Request) -> Result<Answer, FetchError> {
        let first = request.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let shown: Arc<str> = show(&request.url).into();
            let response = self.exchange(&request, &shown).await?;
            let status = response.status();
            let location = response.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
            let followed = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
                && matches!(request.method, Method::GET | Method::HEAD);
            let (Some(location), true) = (location, followed) else {
                let headers = response.headers().clone();
                return Ok(Answer { status, headers, response, shown });
            };
            let next = redirected(&request.url, location, &shown)?;
            if next.origin() != first.origin() {
                request.authorization = None;
            }
            request.url = next;
        }
        let message = format!("{} redirects more than {MAX_REDIRECTS} times", show(&first));
        Err(FetchError::new(Reason::RedirectRefused, message, "name the address that the redirects lead to"))
    }

    async fn exchange(&self, request: &Request, shown: &str) -> Result<reqwest::Response, FetchError> {
        let mut outgoing = self
            .client()?
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone())
            .body(request.body.clone());
        if let Some(authorization) = &request.authorization {
            outgoing = outgoing.header(header::AUTHORIZATION, authorization.clone());
        }
        outgoing.send().await.map_err(|error| broken(error, shown))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { module_bytes: MAX_MODULE_BYTES, total: Duration::from_mins(2), connect: Duration::from_secs(10) }
    }
}

// === impl Request ===

impl Request {
    pub(crate) fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    pub(crate) fn new(method: Method, url: Url) -> Self {
        Self { method, url, headers: HeaderMap::new(), authorization: None, body: Bytes::new() }
    }

    pub(crate) fn header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.append(name, HeaderValue::from_static(value));
        self
    }
}

// === impl Answer ===

impl Answer {
    /// The address that answered, as it may be shown.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Reads at most `limit` bytes; the size is looked at before and while they come.
    pub(crate) async fn read(self, limit: u64) -> Result<Bytes, FetchError> {
        let shown = self.shown;
        let too_large = || {
            let message = format!("{shown} has more than {limit} bytes");
            FetchError::new(Reason::TooLarge, message, "build the plugin for size, or correct the address")
        };
        if self.response.content_length().is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let mut read = BytesMut::new();
        let mut stream = self.response.bytes_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| broken(error, &shown))?;
            if (read.len() + chunk.len()) as u64 > limit {
                return Err(too_large());
            }
            read.extend_from_slice(&chunk);
        }
        Ok(read.freeze())
    }

    /// The error that a status is, for whoever expected a success.
    pub(crate) fn refused(&self) -> FetchError {
        let (shown, status) = (&self.shown, self.status.as_u16());
        match status {
            404 | 410 => {
                let message = format!("{shown} is not there (HTTP {status})");
                FetchError::new(Reason::NotFound, message, "correct the address, or publish the module there")
            }
            401 | 403 | 407 => {
                let message = format!("{shown} is not for us (HTTP {status})");
                FetchError::new(
                    Reason::Unauthorized,
                    message,
                    "name a pullSecret that may read it, or correct its password",
                )
            }
            _ => {
                let message = format!("{shown} answers with HTTP {status}");
                FetchError::new(Reason::ServerError, message, "look at the server; it is tried again")
            }
        }
    }
}

/// Scheme, host, port and path: user names, passwords and queries are for the server alone.
pub(crate) fn show(url: &Url) -> String {
    let origin = url.origin().ascii_serialization();
    let query = if url.query().is_some() { "?…" } else { "" };
    format!("{origin}{}{query}", url.path())
}

fn redirected(from: &Url, location: &str, shown: &str) -> Result<Url, FetchError> {
    let refused = |message| {
        FetchError::new(
            Reason::RedirectRefused,
            message,
            "name the address that the redirect leads to, with its scheme",
        )
    };
    let mut next = from.join(location).map_err(|_| refused(format!("{shown} redirects to what is no address")))?;
    if next.scheme() != from.scheme() {
        return Err(refused(format!("{shown} redirects to another scheme, {}", show(&next))));
    }
    // What the server of the redirect writes there is not ours to send.
    let stripped = next.set_username("").is_ok() && next.set_password(None).is_ok();
    if next.host_str().is_none() || !stripped {
        return Err(refused(format!("{shown} redirects to what is no address of a server")));
    }
    Ok(next)
}

fn broken(error: reqwest::Error, shown: &str) -> FetchError {
    if error.is_timeout() && !error.is_connect() {
        let message = format!("{shown} did not answer in time");
        return FetchError::new(Reason::TimedOut, message, "look at the server's load and at the way to it");
    }
    // The chain names addresses again, with all that is in them.
    let error = error.without_url();
    let message = format!("{shown} cannot be reached: {}", root_cause(&error));
    FetchError::new(Reason::Unreachable, message, "look whether the server runs and can be reached from here")
}

fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
