//! A client of the OCI distribution API, for what plugins need: manifests, blobs, referrers, and pushing. Written by
//! hand because redirects, sizes and where credentials go are decided in [`crate::transport`] for every request.

mod manifest;
pub(crate) mod push;
mod token;

use bytes::Bytes;
use haptic_model::Digest;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use reqwest::Url;

use crate::{
    Credentials, FetchError, ImageReference, Reason,
    transport::{Answer, Request, Transport},
};

pub(crate) use manifest::{Descriptor, Index, Manifest};

/// What a manifest may have at most, as registries have it.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 4 << 20;

const MANIFEST_TYPES: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json";

/// One repository of a registry, and who we are to it.
pub(crate) struct Repository<'a> {
    transport: &'a Transport,
    image: &'a ImageReference,
    credentials: Option<&'a Credentials>,
    /// What the registry took last.
    authorization: Mutex<Option<HeaderValue>>,
    access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Pull,
    PullAndPush,
}

/// A manifest as the registry has it, byte for byte.
#[derive(Clone, Debug)]
pub(crate) struct RawManifest {
    pub(crate) bytes: Bytes,
    pub(crate) digest: Digest,
}

// === impl Repository ===

impl<'a> Repository<'a> {
    pub(crate) fn new(
        transport: &'a Transport,
        image: &'a ImageReference,
        credentials: Option<&'a Credentials>,
        access: Access,
    ) -> Self {
        Self { transport, image, credentials, authorization: Mutex::default(), access }
    }

    /// The manifest of a tag or digest. `None` = there is none.
    pub(crate) async fn manifest(&self, name: &str) -> Result<Option<RawManifest>, FetchError> {
        let request = Request::get(self.url(&format!("manifests/{name}"))?).header(header::ACCEPT, MANIFEST_TYPES);
        let answer = self.send(request).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let shown = answer.shown().to_owned();
        let bytes = success(answer)?.read(MAX_MANIFEST_BYTES).await?;
        let digest = Digest::of(&bytes);
        if name.strip_prefix("sha256:").is_some_and(|wanted| wanted != digest.to_string()) {
            let message = format!("{shown} is a manifest with sha256 {digest}");
            return Err(FetchError::new(
                Reason::DigestMismatch,
                message,
                "distrust the registry: it served other bytes",
            ));
        }
        Ok(Some(RawManifest { bytes, digest }))
    }

    /// A blob, proved to be the one that was asked for.
    pub(crate) async fn blob(&self, digest: Digest, limit: u64) -> Result<Bytes, FetchError> {
        let answer = self.send(Request::get(self.url(&format!("blobs/sha256:{digest}"))?)).await?;
        let shown = answer.shown().to_owned();
        let bytes = success(answer)?.read(limit).await?;
        let actual = Digest::of(&bytes);
        if actual != digest {
            let message = format!("{shown} is bytes with sha256 {actual}");
            return Err(FetchError::new(
                Reason::DigestMismatch,
                message,
                "distrust the registry: it served other bytes",
            ));
        }
        Ok(bytes)
    }

    /// What refers to a manifest: by the referrers API, and by the fallback tag where a registry has none.
    pub(crate) async fn referrers(&self, of: Digest) -> Result<Index, FetchError> {
        let request = Request::get(self.url(&format!("referrers/sha256:{of}"))?)
            .header(header::ACCEPT, "application/vnd.oci.image.index.v1+json");
        let answer = self.send(request).await?;
        let found = if answer.status.is_success() {
            Some(answer.read(MAX_MANIFEST_BYTES).await?)
        } else {
            self.manifest(&format!("sha256-{of}")).await?.map(|manifest| manifest.bytes)
        };
        Ok(found.and_then(|bytes| Index::parse(&bytes)).unwrap_or_default())
    }

    pub(crate) fn url(&self, below: &str) -> Result<Url, FetchError> {
        let text = format!("{}/v2/{}/{below}", self.image.origin(), self.image.repository());
        text.parse().map_err(|_| {
            let message = format!("{} names no registry that can be asked", self.image);
            FetchError::new(Reason::InvalidSource, message, "correct module.oci.image")
        })
    }

    /// Sends; an answer that asks who we are is answered once.
    pub(crate) async fn send(&self, request: Request) -> Result<Answer, FetchError> {
        let known = self.authorization.lock().clone();
        let answer = self.transport.send(again(&request, known)).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let Some(authorization) = self.authorize(&answer.headers).await? else { return Ok(answer) };
        *self.authorization.lock() = Some(authorization.clone());
        self.transport.send(again(&request, Some(authorization))).await
    }

    /// What the registry's challenge asks for; `None` = we have nothing to say.
    async fn authorize(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, FetchError> {
        let challenges: Vec<&str> =
            headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()).collect();
        let basic = challenges.iter().any(|challenge| challenge.to_ascii_lowercase().starts_with("basic"));
        match challenges.iter().find_map(|challenge| token::Challenge::parse(challenge)) {
            Some(bearer) => {
                let scope = match self.access {
                    Access::Pull => format!("repository:{}:pull", self.image.repository()),
                    Access::PullAndPush => format!("repository:{}:pull,push", self.image.repository()),
                };
                bearer.token(self.transport, self.image, self.credentials, &scope).await.map(Some)
            }
            None if basic => Ok(self.credentials.map(Credentials::basic)),
            None => Ok(None),
        }
    }
}

fn again(request: &Request, authorization: Option<HeaderValue>) -> Request {
    Request {
        method: request.method.clone(),
        url: request.url.clone(),
        headers: request.headers.clone(),
        authorization,
        body: request.body.clone(),
    }
}

pub(crate) fn success(answer: Answer) -> Result<Answer, FetchError> {
    if answer.status.is_success() { Ok(answer) } else { Err(answer.refused()) }
}
