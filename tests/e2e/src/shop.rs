use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{Certificate, Echo, Network, Target};

/// A copy of `tests/examples/shop` on addresses of its own, with its backends running. Files are changed by rename,
/// as `kubectl`, editors and people's scripts do it.
pub struct Shop {
    folder: TempDir,
    network: Network,
    backends: Vec<Echo>,
    written: AtomicU64,
}

const HTTP_PORT: u16 = 8080;
const HTTPS_PORT: u16 = 8443;
const DEBUG_PORT: u16 = 8081;
/// The configuration of the shop, below [`Shop::manifests`].
pub const CONFIG: &str = "common/config.yaml";
/// The endpoints of both services.
pub const SLICES: &str = "standalone/endpointslices.yaml";

/// Name, last number of the address, port. `api-3`, `new-1` and `new-2` are in no manifest of the example.
const BACKENDS: [(&str, u8, u16); 7] = [
    ("web-1", 11, 9001),
    ("web-2", 12, 9001),
    ("api-1", 21, 9002),
    ("api-2", 22, 9002),
    ("api-3", 23, 9002),
    ("new-1", 31, 9003),
    ("new-2", 32, 9003),
];

// === impl Shop ===

impl Shop {
    pub async fn open() -> Result<Self> {
        let network = Network::claim()?;
        // Short: the path of a unix socket has 97 characters at most.
        let folder = tempfile::Builder::new().prefix("h").rand_bytes(6).tempdir_in("/tmp").context("make a folder")?;
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/shop");
        for part in ["common", "standalone"] {
            copy(&example.join(part), &folder.path().join("m").join(part))?;
        }
        let mut shop = Self { folder, network, backends: Vec::new(), written: AtomicU64::new(0) };
        let address = shop.network.address(1);
        shop.edit(CONFIG, "bind_address: 127.0.0.1", &format!("bind_address: {address}"))?;
        shop.edit(SLICES, "127.0.0.", &shop.network.prefix())?;
        for (name, host) in [
            ("shop-tls", "shop.localhost"),
            ("api-tls", "api.shop.localhost"),
            ("default-tls", "default.shop.localhost"),
        ] {
            shop.issue(name, host)?;
        }
        for (name, last, port) in BACKENDS {
            let address = shop.network.address(last);
            shop.backends.push(Echo::start(name, SocketAddr::new(address.into(), port)).await?);
        }
        Ok(shop)
    }

    /// The folder of the manifests.
    pub fn manifests(&self) -> PathBuf {
        self.folder.path().join("m")
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    pub fn http(&self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(self.network.address(1)), HTTP_PORT)
    }

    pub fn https(&self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(self.network.address(1)), HTTPS_PORT)
    }

    /// Where a test may serve the status page.
    pub fn debug(&self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(self.network.address(1)), DEBUG_PORT)
    }

    /// The text form of an address of this shop.
    pub fn address(&self, last: u8) -> String {
        self.network.address(last).to_string()
    }

    pub fn backend(&self, name: &str) -> &Echo {
        self.backends.iter().find(|backend| backend.name == name).expect("a backend of the shop")
    }

    /// Both services of the example.
    pub fn targets() -> [Target; 2] {
        [("shop.localhost", "web-"), ("api.shop.localhost", "api-")]
            .map(|(host, served_by)| Target { host: host.to_owned(), served_by: served_by.to_owned() })
    }

    /// Replaces or makes a manifest at once; `path` is below [`Self::manifests`].
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let staged = self.folder.path().join(format!("staged-{number}"));
        let target = self.manifests().join(path);
        fs::create_dir_all(target.parent().context("a manifest has a folder")?).context("make a folder")?;
        fs::write(&staged, text).with_context(|| format!("write {path}"))?;
        fs::rename(&staged, &target).with_context(|| format!("write {path}"))
    }

    pub fn read(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.manifests().join(path)).with_context(|| format!("read {path}"))
    }

    pub fn remove(&self, path: &str) -> Result<()> {
        fs::remove_file(self.manifests().join(path)).with_context(|| format!("remove {path}"))
    }

    /// Replaces every `from` in a manifest, of which there must be one.
    pub fn edit(&self, path: &str, from: &str, to: &str) -> Result<()> {
        let text = self.read(path)?;
        ensure!(text.contains(from), "{path} has no `{from}` to replace");
        self.write(path, &text.replace(from, to))
    }

    /// Puts a new certificate into the Secret `name`.
    pub fn issue(&self, name: &str, host: &str) -> Result<Certificate> {
        let certificate = Certificate::issue(host)?;
        self.write(&format!("common/generated/{name}.yaml"), &certificate.manifest(name))?;
        Ok(certificate)
    }

    /// An Ingress for `host` with a new Service `name` and its slice on `new-1` and `new-2`, as one manifest.
    pub fn route(&self, name: &str, host: &str) -> String {
        let (one, two) = (self.address(31), self.address(32));
        format!(
            r"apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: shop}}
spec:
  selector: {{app: {name}}}
  ports: [{{name: http, port: 80, targetPort: 9003}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {name}-1
  namespace: shop
  labels: {{kubernetes.io/service-name: {name}}}
addressType: IPv4
ports: [{{name: http, port: 9003, protocol: TCP}}]
endpoints:
  - {{addresses: [{one}], conditions: {{ready: true}}, targetRef: {{kind: Pod, namespace: shop, name: {name}-1}}}}
  - {{addresses: [{two}], conditions: {{ready: true}}, targetRef: {{kind: Pod, namespace: shop, name: {name}-2}}}}
---
{}",
            ingress(name, host, "/", &[], name)
        )
    }
}

/// An Ingress of the shop; every value is written as a JSON string, so that it may hold anything.
pub fn ingress(name: &str, host: &str, path: &str, annotations: &[(&str, &str)], service: &str) -> String {
    let annotations: serde_json::Map<_, _> =
        annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
    let object = serde_json::json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": { "name": name, "namespace": "shop", "annotations": annotations,
            "creationTimestamp": "2026-02-01T00:00:00Z" },
        "spec": {
            "ingressClassName": "haptic",
            "rules": [{ "host": host, "http": { "paths": [{
                "path": path, "pathType": "Prefix",
                "backend": { "service": { "name": service, "port": { "number": 80 } } },
            }] } }],
        },
    });
    // JSON is YAML: one document per object, in a file of either kind.
    format!("{object}\n")
}

/// Copies a folder; links become what they point to, so that a test may edit it. What `make run` generated stays.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("list {}", from.display()))? {
        let entry = entry.with_context(|| format!("list {}", from.display()))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_name() == "generated" {
            continue;
        }
        if source.is_dir() {
            copy(&source, &target)?;
        } else {
            fs::copy(&source, &target).with_context(|| format!("copy {}", source.display()))?;
        }
    }
    Ok(())
}
