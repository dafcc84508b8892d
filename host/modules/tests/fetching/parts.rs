//! What the tests are made of.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use haptic_e2e::{Doors, Network, Registry, RegistryFolder};
use haptic_model::Digest;
use haptic_modules::{
    Cache, ComponentNames, Credentials, FetchError, Fetcher, Limits, Pushed, Reason, Source, Transport, Wanted, push,
};
use serde_json::Value;

/// Not a component: nothing here looks inside.
pub(crate) const MODULE: &[u8] = b"\0asm the module";

pub(crate) const PORT: u16 = 5000;

pub(crate) struct Parts {
    pub(crate) folder: RegistryFolder,
    pub(crate) registry: Option<Registry>,
    pub(crate) address: std::net::SocketAddr,
    _network: Network,
}

impl Parts {
    pub(crate) async fn start(doors: Doors) -> Self {
        let mut parts = Self::stopped(doors);
        parts.registry = Some(parts.folder.start().await.unwrap());
        parts
    }

    /// With an address and nobody there.
    pub(crate) fn stopped(doors: Doors) -> Self {
        let network = Network::claim().unwrap();
        let address = (network.address(1), PORT).into();
        Self { folder: RegistryFolder::new(address, doors).unwrap(), registry: None, address, _network: network }
    }

    pub(crate) async fn push(&self, name: &str, module: &'static [u8], credentials: Option<&Credentials>) -> Pushed {
        let image = self.folder.image(name).parse().unwrap();
        push(&transport(), &image, Bytes::from_static(module), &ComponentNames::default(), credentials).await.unwrap()
    }

    /// The manifest or index that the registry keeps below a tag.
    pub(crate) fn manifest_at(&self, repository: &str, tag: &str) -> Value {
        let link = fs::read_to_string(self.repository(repository).join(format!("tags/{tag}/current/link"))).unwrap();
        serde_json::from_slice(&fs::read(self.blob(link.strip_prefix("sha256:").unwrap())).unwrap()).unwrap()
    }

    /// Has the registry keep a manifest or index below a tag, as if it had been pushed.
    pub(crate) fn put_manifest(&self, repository: &str, tag: &str, manifest: &Value) {
        let text = manifest.to_string();
        let digest = Digest::of(text.as_bytes()).to_string();
        let links = self.repository(repository);
        let link = format!("sha256:{digest}");
        for (path, content) in [
            (self.blob(&digest), &text),
            (links.join(format!("revisions/sha256/{digest}/link")), &link),
            (links.join(format!("tags/{tag}/index/sha256/{digest}/link")), &link),
            (links.join(format!("tags/{tag}/current/link")), &link),
        ] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    fn repository(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("data/docker/registry/v2/repositories/{name}/_manifests"))
    }

    fn blob(&self, digest: &str) -> PathBuf {
        self.folder.path().join(format!("data/docker/registry/v2/blobs/sha256/{}/{digest}/data", &digest[..2]))
    }

    pub(crate) fn image(&self, name: &str) -> Wanted {
        oci(&self.folder.image(name))
    }
}

pub(crate) fn limits() -> Limits {
    Limits { module_bytes: 1 << 20, total: Duration::from_secs(20), connect: Duration::from_secs(5) }
}

pub(crate) fn transport() -> Transport {
    Transport::new(limits()).unwrap()
}

pub(crate) fn fetcher() -> Fetcher {
    Fetcher::new(transport(), None)
}

pub(crate) fn caching(folder: &Path) -> Fetcher {
    Fetcher::new(transport(), Some(Cache::open(folder).unwrap()))
}

/// Pinned to [`MODULE`].
pub(crate) fn oci(image: &str) -> Wanted {
    wanted(Source::Oci { image: image.to_owned(), pull_secret: None })
}

pub(crate) fn http(url: &str) -> Wanted {
    wanted(Source::Http { url: url.to_owned() })
}

pub(crate) fn wanted(source: Source) -> Wanted {
    Wanted { name: "guard".to_owned(), source, pin: Some(Digest::of(MODULE)), cosign_key: None }
}

/// The error of a fetch, which must have a next step.
pub(crate) async fn refused(fetcher: &Fetcher, wanted: &Wanted, reason: Reason) -> FetchError {
    let error = fetcher.fetch(wanted).await.expect_err("it is refused");
    assert_eq!(error.reason, reason, "{error}");
    assert!(!error.next_step.is_empty(), "{error}");
    error
}
