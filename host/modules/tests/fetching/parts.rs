//! What the tests are made of.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use haptic_e2e::{Doors, Network, Registry, RegistryFolder};
use haptic_model::Digest;
use haptic_modules::{
    Cache, ComponentNames, Credentials, FetchError, Fetcher, Limits, Pushed, Reason, Source, Transport, Wanted, push,
};

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
