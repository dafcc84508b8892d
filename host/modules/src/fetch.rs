//! One attempt at one module: from the cache if what is there proves itself, else from its source.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use haptic_model::{Digest, Framer};
use reqwest::Url;

use crate::{
    Cache, CacheError, Credentials, DockerConfig, FetchError, ImageReference, PublicKey, Reason,
    cosign::{Base64, SignedManifest, gather, other_module},
    file::{ReadError, read_at_most},
    registry::{Access, Manifest, Repository, success},
    transport::{Request, Transport, show},
};

/// Where a module is.
#[derive(Clone)]
pub enum Source {
    Oci {
        image: String,
        pull_secret: Option<DockerConfig>,
    },
    Http {
        url: String,
    },
    /// Of this machine.
    File {
        path: PathBuf,
    },
}

/// A module that somebody wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Of the plugin, for log lines.
    pub name: String,
    pub source: Source,
    /// Without one nothing is asked for.
    pub pin: Option<Digest>,
    /// PEM. Only images carry signatures.
    pub cosign_key: Option<String>,
}

/// Gets modules. Cheap to clone.
#[derive(Clone)]
pub struct Fetcher {
    transport: Transport,
    cache: Option<Cache>,
}

// === impl Source ===

impl Source {
    /// Where it is, fit for a person: no user names, passwords or queries.
    pub fn shown(&self) -> String {
        match self {
            Self::Oci { image, .. } => match image.parse::<ImageReference>() {
                Ok(image) => image.to_string(),
                Err(_) => "an image".to_owned(),
            },
            Self::Http { url } => url.parse().map_or_else(|_| "a URL".to_owned(), |url: Url| show(&url)),
            Self::File { path } => path.display().to_string(),
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Self::Oci { .. } => "Oci",
            Self::Http { .. } => "Http",
            Self::File { .. } => "File",
        };
        write!(f, "{kind}({})", self.shown())
    }
}

// === impl Wanted ===

impl Wanted {
    /// Equal for what is the same attempt, whoever makes it. Credentials count: other ones may do.
    pub fn key(&self) -> Digest {
        let mut framer = Framer::default();
        match &self.source {
            Source::Oci { image, pull_secret } => {
                framer.field(b"oci").field(image.as_bytes());
                for field in pull_secret.iter().flat_map(DockerConfig::identity) {
                    framer.field(&field);
                }
            }
            Source::Http { url } => {
                framer.field(b"http").field(url.as_bytes());
            }
            Source::File { path } => {
                framer.field(b"file").field(path.as_os_str().as_encoded_bytes());
            }
        }
        let pin = self.pin.map_or_else(String::new, |pin| pin.to_string());
        framer.field(pin.as_bytes()).field(self.cosign_key.as_deref().unwrap_or_default().as_bytes());
        framer.finish()
    }

    fn pin(&self) -> Result<Digest, FetchError> {
        self.pin.ok_or_else(|| {
            let message = format!("{} is not pinned, and nothing unpinned is fetched", self.source.shown());
            FetchError::new(
                Reason::NotPinned,
                message,
                "set sha256 to the digest that `sha256sum` prints for the module",
            )
        })
    }

    fn public_key(&self) -> Result<Option<PublicKey>, FetchError> {
        let key = self.cosign_key.as_deref().map(PublicKey::from_pem).transpose();
        key.map_err(|error| {
            let message = format!("cosignKey cannot be used: {error}");
            FetchError::new(Reason::InvalidKey, message, "set cosignKey to the content of cosign.pub")
        })
    }
}

// === impl Fetcher ===

impl Fetcher {
    /// Without a cache every module is fetched anew.
    pub fn new(transport: Transport, cache: Option<Cache>) -> Self {
        Self { transport, cache }
    }

    /// The module, proved; kept in the cache if there is one.
    pub async fn fetch(&self, wanted: &Wanted) -> Result<Bytes, FetchError> {
        let pin = wanted.pin()?;
        let key = wanted.public_key()?;
        if let Some(known) = self.known(wanted).await {
            return Ok(known);
        }
        let shown = wanted.source.shown();
        let got = self.transport.in_time(&shown, self.get(&wanted.source, pin, key.as_ref())).await?;
        let Some(cache) = self.cache_of(&wanted.source).cloned() else { return Ok(got.module) };
        let (fetcher, again, module) = (self.clone(), wanted.clone(), got.module.clone());
        blocking(move || {
            if let Some((image, signed)) = &got.signed {
                cache.keep_signatures(pin, image, signed).map_err(|error| cache_failed(&error))?;
            }
            cache.keep_module(&got.module).map_err(|error| cache_failed(&error))?;
            // Who opens it later must find it; a disk that loses it is told now, and not asked again and again.
            fetcher.open(&again).map(|_| ()).ok_or_else(|| {
                let message = "the module cannot be read back from the cache".to_owned();
                FetchError::new(Reason::CacheFailed, message, "look at the disk of the state folder")
            })
        })
        .await??;
        Ok(module)
    }

    /// The module from the cache, its digest and its signature proved again. Blocks.
    pub fn open(&self, wanted: &Wanted) -> Option<Bytes> {
        let (pin, key) = (wanted.pin?, wanted.public_key().ok()?);
        if let (Source::File { path }, None) = (&wanted.source, &key) {
            // A file of this machine is its own cache.
            let module = from_file(path, self.transport.limits.module_bytes).ok()?;
            return (Digest::of(&module) == pin).then_some(module);
        }
        let cache = self.cache.as_ref()?;
        if let Some(key) = key {
            let Source::Oci { image, .. } = &wanted.source else { return None };
            let image = image.parse().ok()?;
            cache.signatures(pin, &image)?.verify(&key, &image, pin).ok()?;
        }
        cache.module(pin)
    }

    /// Whether [`Self::open`] gives again what [`Self::fetch`] has brought.
    pub(crate) fn keeps(&self, source: &Source) -> bool {
        self.cache.is_some() || matches!(source, Source::File { .. })
    }

    fn cache_of(&self, source: &Source) -> Option<&Cache> {
        self.cache.as_ref().filter(|_| !matches!(source, Source::File { .. }))
    }

    pub(crate) fn prune(&self, wanted: &[Digest]) {
        if let Some(cache) = &self.cache {
            cache.prune(wanted);
        }
    }

    async fn known(&self, wanted: &Wanted) -> Option<Bytes> {
        let (fetcher, wanted) = (self.clone(), wanted.clone());
        blocking(move || fetcher.open(&wanted)).await.ok().flatten()
    }

    async fn get(&self, source: &Source, pin: Digest, key: Option<&PublicKey>) -> Result<Got, FetchError> {
        match source {
            Source::Oci { image, pull_secret } => self.of_registry(image, pull_secret.as_ref(), pin, key).await,
            _ if key.is_some() => {
                let message = format!("cosignKey is set, and {} carries no signature", source.shown());
                Err(FetchError::new(Reason::SignatureMissing, message, "use a module of type oci, or remove cosignKey"))
            }
            Source::Http { url } => Got::plain(self.of_web(url).await?, &source.shown(), pin),
            Source::File { path } => {
                let (path, limit) = (path.clone(), self.transport.limits.module_bytes);
                let bytes = blocking(move || from_file(&path, limit)).await??;
                Got::plain(bytes, &source.shown(), pin)
            }
        }
    }

    /// With each of the credentials that fit, until the registry takes one.
    async fn of_registry(
        &self,
        image: &str,
        pull_secret: Option<&DockerConfig>,
        pin: Digest,
        key: Option<&PublicKey>,
    ) -> Result<Got, FetchError> {
        let image: ImageReference = image.parse().map_err(|error: crate::InvalidReference| {
            FetchError::new(Reason::InvalidSource, error.to_string(), "correct module.oci.image")
        })?;
        let fitting = pull_secret.map(|secret| secret.for_image(&image)).unwrap_or_default();
        let mut attempts: Vec<Option<&Credentials>> = fitting.iter().map(Some).collect();
        if attempts.is_empty() {
            attempts.push(None);
        }
        let mut refused = None;
        for credentials in attempts {
            match self.pull(&image, credentials, pin, key).await {
                Err(error) if error.reason == Reason::Unauthorized => refused = Some(error),
                done => return done,
            }
        }
        let error = refused.expect("at least one attempt was made");
        Err(match pull_secret {
            Some(_) if fitting.is_empty() => {
                let next = format!("add an entry for {} to the pullSecret", image.registry());
                FetchError { next_step: next.into(), ..error }
            }
            _ => error,
        })
    }

    async fn pull(
        &self,
        image: &ImageReference,
        credentials: Option<&Credentials>,
        pin: Digest,
        key: Option<&PublicKey>,
    ) -> Result<Got, FetchError> {
        let repository = Repository::new(&self.transport, image, credentials, Access::Pull);
        let raw = repository.manifest(&image.manifest_name()).await?.ok_or_else(|| {
            let message = format!("{image} is not in the registry");
            FetchError::new(Reason::NotFound, message, "push it, or correct module.oci.image")
        })?;
        let layer = Manifest::parse(&raw.bytes, image)?.wasm_layer(image)?;
        if layer.digest != pin {
            return Err(other_module(image, layer.digest, pin));
        }
        let limit = self.transport.limits.module_bytes;
        if layer.size > limit {
            let message =
                format!("the module of {image} has {} bytes, more than the {limit} that are loaded", layer.size);
            return Err(FetchError::new(Reason::TooLarge, message, "build the plugin for size"));
        }
        // Who signed is known before the module is downloaded.
        let signed = match key {
            None => None,
            Some(key) => {
                let evidence = gather(&repository, image, raw.digest).await?;
                let signed = SignedManifest { manifest: Base64(raw.bytes.to_vec()), evidence };
                signed.verify(key, image, pin)?;
                Some((image.clone(), signed))
            }
        };
        let module = repository.blob(pin, limit).await?;
        Ok(Got { module, signed })
    }

    async fn of_web(&self, url: &str) -> Result<Bytes, FetchError> {
        let invalid = || {
            let message = "module.http.url is no http:// or https:// address";
            FetchError::new(Reason::InvalidSource, message, "correct module.http.url")
        };
        let mut url: Url = url.parse().map_err(|_| invalid())?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(invalid());
        }
        let mut request = Request::get(url.clone());
        if !url.username().is_empty() {
            let decode = |text: &str| percent_decoded(text).ok_or_else(invalid);
            let credentials = Credentials::new(decode(url.username())?, decode(url.password().unwrap_or_default())?);
            request.authorization = Some(credentials.basic());
            let stripped = url.set_username("").is_ok() && url.set_password(None).is_ok();
            if !stripped {
                return Err(invalid());
            }
            request.url = url;
        }
        let answer = self.transport.send(request).await?;
        success(answer)
            .map_err(|error| match error.reason {
                Reason::Unauthorized => {
                    let next = "serve the module without a password, or correct the one in module.http.url";
                    FetchError { next_step: next.into(), ..error }
                }
                _ => error,
            })?
            .read(self.transport.limits.module_bytes)
            .await
    }
}

/// What an attempt brought.
struct Got {
    module: Bytes,
    signed: Option<(ImageReference, SignedManifest)>,
}

impl Got {
    fn plain(module: Bytes, shown: &str, pin: Digest) -> Result<Self, FetchError> {
        let actual = Digest::of(&module);
        if actual == pin {
            return Ok(Self { module, signed: None });
        }
        let message = format!("{shown} has sha256 {actual}, but {pin} is pinned");
        Err(FetchError::new(Reason::DigestMismatch, message, "pin the new digest if the change is meant"))
    }
}

fn from_file(path: &Path, limit: u64) -> Result<Bytes, FetchError> {
    let shown = path.display();
    read_at_most(path, limit).map(Bytes::from).map_err(|error| match error {
        ReadError::NoFile => {
            let message = format!("the module {shown} is no file");
            FetchError::new(Reason::InvalidSource, message, "correct module.file.path")
        }
        ReadError::TooLarge => {
            let message = format!("the module {shown} has more than the {limit} bytes that are loaded");
            FetchError::new(Reason::TooLarge, message, "build the plugin for size")
        }
        ReadError::Failed(error) => {
            let absent = error.kind() == std::io::ErrorKind::NotFound;
            let reason = if absent { Reason::NotFound } else { Reason::Unreachable };
            let message = format!("the module {shown} cannot be read: {error}");
            FetchError::new(reason, message, "build the plugin, or correct module.file.path")
        }
    })
}

fn cache_failed(error: &CacheError) -> FetchError {
    let cause = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    FetchError::new(Reason::CacheFailed, format!("{error}{cause}"), "make room and give access to the state folder")
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, FetchError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        FetchError::new(Reason::CacheFailed, "the work on the disk ended early", "report this with the log")
    })
}

/// `None` if it is not text.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' && after.len() >= 2 {
            let hex = std::str::from_utf8(&after[..2]).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}
