//! Writes a module as an image in the layout of the CNCF's Wasm working group.

use std::collections::BTreeMap;

use bytes::Bytes;
use haptic_model::Digest;
use http::{HeaderValue, Method, StatusCode, header};
use reqwest::Url;
use serde_json::json;

use crate::{
    Credentials, FetchError, ImageReference, MAX_MODULE_BYTES, Reason,
    registry::{
        Access, Repository, again,
        manifest::{Descriptor, MANIFEST_TYPE, Manifest, WASM_CONFIG_TYPE, WASM_LAYER_TYPE},
        success,
    },
    transport::{Answer, Request, Transport},
};

/// What a component exports and imports, for whoever reads the image's config.
#[derive(Clone, Debug, Default)]
pub struct ComponentNames {
    pub exports: Vec<String>,
    pub imports: Vec<String>,
}

/// What was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The image by digest, e.g. `ghcr.io/acme/p@sha256:…`: what is signed.
    pub image: ImageReference,
    /// Of the manifest.
    pub manifest: Digest,
    /// Of the module: what is pinned as `sha256`.
    pub module: Digest,
}

/// Pushes a module. The same module gives the same manifest digest, whenever it is pushed.
///
/// # Errors
/// When the image is named by digest, the module is too large, or the registry does not take it.
pub async fn push(
    transport: &Transport,
    image: &ImageReference,
    module: Bytes,
    names: &ComponentNames,
    credentials: Option<&Credentials>,
) -> Result<Pushed, FetchError> {
    if image.digest().is_some() {
        let message = format!("{image} names a digest, which only what is pushed can decide");
        return Err(FetchError::new(Reason::InvalidSource, message, "push to a tag"));
    }
    if module.len() as u64 > MAX_MODULE_BYTES {
        let message =
            format!("the module has {} bytes, more than the {MAX_MODULE_BYTES} that are loaded", module.len());
        return Err(FetchError::new(Reason::TooLarge, message, "build the plugin for size"));
    }
    let what = image.to_string();
    transport.in_time(&what, push_all(transport, image, module, names, credentials)).await
}

async fn push_all(
    transport: &Transport,
    image: &ImageReference,
    module: Bytes,
    names: &ComponentNames,
    credentials: Option<&Credentials>,
) -> Result<Pushed, FetchError> {
    let repository = Repository::new(transport, image, credentials, Access::PullAndPush);
    let layer = Descriptor::of(WASM_LAYER_TYPE, &module);
    let config = json!({
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [layer.digest],
        "component": { "exports": names.exports, "imports": names.imports },
    });
    let config = Bytes::from(config.to_string());
    let manifest = Manifest {
        schema_version: 2,
        media_type: Some(MANIFEST_TYPE.to_owned()),
        artifact_type: None,
        config: Descriptor::of(WASM_CONFIG_TYPE, &config),
        layers: vec![layer],
        annotations: BTreeMap::new(),
    };
    let manifest = Bytes::from(serde_json::to_vec(&manifest).expect("a manifest is JSON"));
    let pushed = Digest::of(&module);
    repository.put_blob(module).await?;
    repository.put_blob(config).await?;
    let digest = Digest::of(&manifest);
    let mut request = Request::new(Method::PUT, repository.url(&format!("manifests/{}", image.tag()))?)
        .header(header::CONTENT_TYPE, MANIFEST_TYPE);
    request.body = manifest;
    taken(repository.send(request).await?)?;
    Ok(Pushed { image: image.at(digest), manifest: digest, module: pushed })
}

impl Repository<'_> {
    async fn put_blob(&self, blob: Bytes) -> Result<(), FetchError> {
        let digest = Digest::of(&blob);
        let known = self.send(Request::new(Method::HEAD, self.url(&format!("blobs/sha256:{digest}"))?)).await?;
        if known.status == StatusCode::OK {
            return Ok(());
        }
        let begun = taken(self.send(Request::new(Method::POST, self.url("blobs/uploads/")?)).await?)?;
        let mut url = self.upload_url(&begun)?;
        url.query_pairs_mut().append_pair("digest", &format!("sha256:{digest}"));
        let mut request = Request::new(Method::PUT, url).header(header::CONTENT_TYPE, "application/octet-stream");
        request.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(blob.len()));
        request.body = blob;
        // The upload's address may be another host's: then it is told nothing but the bytes.
        let same = request.url.origin() == self.url("")?.origin();
        let answer = if same { self.send(request).await? } else { self.transport.send(again(&request, None)).await? };
        taken(answer).map(|_| ())
    }

    fn upload_url(&self, answer: &Answer) -> Result<Url, FetchError> {
        let base = self.url("blobs/uploads/")?;
        let location = answer.headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
        let url = location.and_then(|location| base.join(location).ok());
        url.filter(|url| url.scheme() == base.scheme()).ok_or_else(|| {
            let message = format!("{} names no place for an upload", answer.shown());
            FetchError::new(Reason::ServerError, message, "look at the registry")
        })
    }
}

/// A refusal of something that was to be written has another next step than one of something that was to be read.
fn taken(answer: Answer) -> Result<Answer, FetchError> {
    success(answer).map_err(|error| match error.reason {
        Reason::Unauthorized => {
            FetchError { next_step: "give a user name and a password that may push there".into(), ..error }
        }
        Reason::NotFound => FetchError { next_step: "make the repository, or correct its name".into(), ..error },
        _ => error,
    })
}
