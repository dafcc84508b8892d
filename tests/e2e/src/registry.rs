use std::{
    env, fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::eventually;

/// The user that a private registry knows.
pub const USER: &str = "puller";
pub const PASSWORD: &str = "correct horse";
/// The same as bcrypt, which is what the registry reads.
const HTPASSWD: &str = "puller:$2y$05$dYbZIh9.KtvYS7A.iGss/eizIw2CYDYlmYKeIPWZD8RjljwCbAdzu\n";

/// Who may use a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doors {
    Open,
    /// [`USER`] with [`PASSWORD`] alone.
    Private,
}

/// What a registry keeps: it outlives the registry's process.
pub struct RegistryFolder {
    folder: TempDir,
    address: SocketAddr,
    doors: Doors,
}

/// A running CNCF Distribution registry. Ends with this value.
pub struct Registry {
    child: Child,
    address: SocketAddr,
}

/// Real cosign with a key pair of its own, in a home of its own.
pub struct Cosign {
    home: TempDir,
    registry_user: Option<(SocketAddr, String)>,
}

/// How cosign stores a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureFormat {
    /// Below the tag `sha256-….sig`, as cosign did until version 2.
    Tag,
    /// A Sigstore bundle that refers to the image.
    Bundle,
}

// === impl RegistryFolder ===

impl RegistryFolder {
    pub fn new(address: SocketAddr, doors: Doors) -> Result<Self> {
        let folder = tempfile::tempdir().context("make a folder for a registry")?;
        fs::write(folder.path().join("htpasswd"), HTPASSWD).context("write the users of a registry")?;
        Ok(Self { folder, address, doors })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// `127.….….1:5000/name`.
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// Starts the registry and waits until it takes connections.
    pub async fn start(&self) -> Result<Registry> {
        let path = |name: &str| self.folder.path().join(name);
        let mut config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: '{}', secret: tests}}\n",
            path("data").display(),
            self.address
        );
        if self.doors == Doors::Private {
            config.push_str(&format!("auth: {{htpasswd: {{realm: tests, path: {}}}}}\n", path("htpasswd").display()));
        }
        fs::write(path("config.yml"), config).context("write the configuration of a registry")?;
        let log = fs::File::create(path("log")).context("make the log of a registry")?;
        let binary = tool("registry");
        let mut command = Command::new(&binary);
        command.arg("serve").arg(path("config.yml")).env("OTEL_TRACES_EXPORTER", "none").stdin(Stdio::null());
        command.stdout(log.try_clone().context("share a log")?).stderr(log);
        let child = command.spawn().with_context(|| format!("start {}", binary.display()))?;
        let mut registry = Registry { child, address: self.address };
        eventually("the registry to take connections", async || {
            if let Ok(Some(status)) = registry.child.try_wait() {
                panic!("the registry ended with {status}: {}", fs::read_to_string(path("log")).unwrap_or_default());
            }
            TcpStream::connect(registry.address).ok()
        })
        .await;
        Ok(registry)
    }
}

// === impl Registry ===

impl Registry {
    /// Pushes a module to an open registry in the CNCF's layout, with nothing of haptic's; gives the image by digest.
    pub fn push(&self, name: &str, module: &[u8]) -> Result<String> {
        let (repository, tag) = name.rsplit_once(':').context("a name with a tag")?;
        let digest = |bytes: &[u8]| format!("sha256:{}", hex::encode(Sha256::digest(bytes)));
        let config = serde_json::json!({ "architecture": "wasm", "os": "wasip2", "layerDigests": [digest(module)] });
        let config = config.to_string().into_bytes();
        let descriptor = |kind: &str, bytes: &[u8]| serde_json::json!({ "mediaType": kind, "digest": digest(bytes), "size": bytes.len() });
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": kind,
            "config": descriptor("application/vnd.wasm.config.v0+json", &config),
            "layers": [descriptor("application/wasm", module)],
        });
        for blob in [module, &config] {
            let begun = self.exchange("POST", &format!("/v2/{repository}/blobs/uploads/"), "text/plain", &[])?;
            let location =
                begun.lines().find_map(|line| line.strip_prefix("Location: ")).context("a place to upload")?;
            let place = location.trim().split_once(&self.address.to_string()).map_or(location, |(_, path)| path);
            self.exchange("PUT", &format!("{place}&digest={}", digest(blob)), "application/octet-stream", blob)?;
        }
        let manifest = manifest.to_string().into_bytes();
        self.exchange("PUT", &format!("/v2/{repository}/manifests/{tag}"), kind, &manifest)?;
        Ok(format!("{}/{repository}@{}", self.address, digest(&manifest)))
    }

    /// One request over a connection of its own; gives the head of a good answer.
    fn exchange(&self, method: &str, target: &str, kind: &str, body: &[u8]) -> Result<String> {
        let mut stream = TcpStream::connect(self.address).context("connect to the registry")?;
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).context("write to the registry")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).context("read from the registry")?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        ensure!(answer.starts_with("HTTP/1.1 20"), "{method} {target}: {answer}");
        Ok(answer.replace("\r\n", "\n"))
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Cosign ===

impl Cosign {
    /// Makes a key pair (ECDSA P-256, which is what cosign makes).
    pub fn with_new_key() -> Result<Self> {
        let cosign = Self { home: tempfile::tempdir().context("make a home for cosign")?, registry_user: None };
        cosign.run(&["generate-key-pair"])?;
        Ok(cosign)
    }

    /// Takes a private key in PKCS #8 PEM.
    pub fn with_key(pem: &str) -> Result<Self> {
        let cosign = Self { home: tempfile::tempdir().context("make a home for cosign")?, registry_user: None };
        fs::write(cosign.home.path().join("own.pem"), pem).context("write a private key")?;
        cosign.run(&["import-key-pair", "--key", "own.pem", "--output-key-prefix", "cosign", "--yes"])?;
        Ok(cosign)
    }

    /// Signs in to a private registry as [`USER`].
    #[must_use]
    pub fn signed_in(mut self, address: SocketAddr) -> Self {
        self.registry_user = Some((address, docker_config(address, PASSWORD)));
        self
    }

    /// PEM.
    pub fn public_key(&self) -> Result<String> {
        fs::read_to_string(self.home.path().join("cosign.pub")).context("read cosign.pub")
    }

    /// Signs an image by digest, with no service of Sigstore's.
    pub fn sign(&self, image: &str, format: SignatureFormat) -> Result<()> {
        let config = self.home.path().join("signing-config.json");
        fs::write(&config, r#"{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json"}"#)
            .context("write a signing configuration with no services")?;
        let mut arguments = vec!["sign", "--key", "cosign.key", "--yes", "--allow-http-registry"];
        match format {
            SignatureFormat::Tag => {
                arguments.extend(["--new-bundle-format=false", "--use-signing-config=false", "--tlog-upload=false"]);
            }
            SignatureFormat::Bundle => arguments.extend(["--signing-config", "signing-config.json"]),
        }
        arguments.push(image);
        self.run(&arguments)
    }

    /// Attests something about an image: a statement that is no signature of it.
    pub fn attest(&self, image: &str) -> Result<()> {
        fs::write(self.home.path().join("predicate.json"), "{}").context("write a predicate")?;
        fs::write(
            self.home.path().join("signing-config.json"),
            r#"{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json"}"#,
        )
        .context("write a signing configuration with no services")?;
        self.run(&[
            "attest",
            "--key",
            "cosign.key",
            "--yes",
            "--allow-http-registry",
            "--signing-config",
            "signing-config.json",
            "--type",
            "https://example.com/scan",
            "--predicate",
            "predicate.json",
            image,
        ])
    }

    fn run(&self, arguments: &[&str]) -> Result<()> {
        let home = self.home.path();
        if let Some((_, config)) = &self.registry_user {
            fs::write(home.join("config.json"), config).context("sign cosign in")?;
        }
        let mut command = Command::new(tool("cosign"));
        command.args(arguments).current_dir(home).stdin(Stdio::null());
        command.env("HOME", home).env("DOCKER_CONFIG", home).env("COSIGN_PASSWORD", "tests");
        let output = command.output().context("run cosign")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cosign {}: {said}", arguments.join(" "));
        Ok(())
    }
}

/// The content of a pull secret for [`USER`].
pub fn docker_config(address: SocketAddr, password: &str) -> String {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    let auth = BASE64_STANDARD.encode(format!("{USER}:{password}"));
    serde_json::json!({ "auths": { address.to_string(): { "auth": auth } } }).to_string()
}

/// # Panics
/// When it is missing: a test that skips itself proves nothing.
fn tool(name: &str) -> PathBuf {
    let folder = env::var_os("HAPTIC_REGISTRY_TOOLS_DIR").map_or_else(
        || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache/haptic/go/bin"),
        PathBuf::from,
    );
    let path = folder.join(name);
    assert!(path.exists(), "{} is missing: run `make registry-tools`", path.display());
    path
}
