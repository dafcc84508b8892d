//! Image references as container tools write them: `registry/repository[:tag][@sha256:…]`.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use haptic_model::Digest;
use thiserror::Error;

/// What a reference without registry means.
const DOCKER_HUB: &str = "docker.io";

/// Where Docker Hub's registry really is.
const DOCKER_HUB_REGISTRY: &str = "registry-1.docker.io";

const DEFAULT_TAG: &str = "latest";
const MAX_REPOSITORY_BYTES: usize = 255;
const MAX_TAG_BYTES: usize = 128;

/// Registry, repository, and a tag or digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference {
    /// Host and port, e.g. `ghcr.io` or `localhost:5000`.
    registry: String,
    repository: String,
    tag: String,
    digest: Option<Digest>,
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error("`{image}` is not an image reference: {wrong}")]
pub struct InvalidReference {
    image: String,
    wrong: &'static str,
}

// === impl ImageReference ===

impl ImageReference {
    pub fn registry(&self) -> &str {
        &self.registry
    }

    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// `latest` if the reference names none.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Of the manifest.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// What a manifest is asked for by: the digest if there is one.
    pub(crate) fn manifest_name(&self) -> String {
        self.digest.map_or_else(|| self.tag.clone(), |digest| format!("sha256:{digest}"))
    }

    /// `https://host`, and `http://host` for a registry of this machine only.
    pub(crate) fn origin(&self) -> String {
        let host = if self.registry == DOCKER_HUB { DOCKER_HUB_REGISTRY } else { &self.registry };
        let scheme = if is_loopback(host_of(host)) { "http" } else { "https" };
        format!("{scheme}://{host}")
    }

    /// The same repository by digest.
    #[must_use]
    pub fn at(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }
}

impl FromStr for ImageReference {
    type Err = InvalidReference;

    fn from_str(image: &str) -> Result<Self, Self::Err> {
        let invalid = |wrong| {
            // User name and password do not belong there, and would be shown.
            let user = image.split_once('@').is_some_and(|(_, after)| !after.starts_with("sha256:"));
            let image = if user { "…" } else { image };
            InvalidReference { image: image.chars().take(256).collect(), wrong }
        };
        if image.contains("://") {
            return Err(invalid("leave out the scheme, as in ghcr.io/acme/plugin:1.0"));
        }
        let (name, digest) = match image.split_once('@') {
            None => (image, None),
            Some((name, digest)) => {
                let digest = digest.strip_prefix("sha256:").and_then(|hex| hex.parse().ok());
                (name, Some(digest.ok_or_else(|| invalid("after `@` stands sha256: and 64 hex digits"))?))
            }
        };
        let (registry, path) = match name.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
            _ => (DOCKER_HUB, name),
        };
        let (repository, tag) = match path.rsplit_once(':') {
            Some((repository, tag)) => (repository, tag),
            None => (path, DEFAULT_TAG),
        };
        let registry = match registry {
            "index.docker.io" | DOCKER_HUB_REGISTRY => DOCKER_HUB,
            other => other,
        };
        let single = registry == DOCKER_HUB && !repository.contains('/');
        let repository = if single { format!("library/{repository}") } else { repository.to_owned() };
        if !is_registry(registry) {
            return Err(invalid("before the first `/` stands a host, with a port if need be"));
        }
        if !is_repository(&repository) {
            return Err(invalid("a repository has parts of lower-case letters, digits, `.`, `_` and `-` between `/`"));
        }
        if !is_tag(tag) {
            return Err(invalid("a tag has letters, digits, `.`, `_` and `-`, at most 128"));
        }
        Ok(Self { registry: registry.to_ascii_lowercase(), repository, tag: tag.to_owned(), digest })
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        match self.digest {
            Some(digest) => write!(f, "@sha256:{digest}"),
            None => write!(f, ":{}", self.tag),
        }
    }
}

/// Whether a host is this machine, by its name alone.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Without the port.
pub(crate) fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

fn is_registry(registry: &str) -> bool {
    let host = host_of(registry);
    let named = !host.is_empty()
        && !host.starts_with(['.', '-'])
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-');
    let v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let port = registry.strip_prefix(host).is_some_and(|port| port.is_empty() || port[1..].parse::<u16>().is_ok());
    port && (named || v6.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok()))
}

fn is_repository(repository: &str) -> bool {
    let part = |part: &str| {
        let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        part.bytes().all(inside) && edge(part.bytes().next()) && edge(part.bytes().last())
    };
    repository.len() <= MAX_REPOSITORY_BYTES && repository.split('/').all(part)
}

fn is_tag(tag: &str) -> bool {
    tag.len() <= MAX_TAG_BYTES
        && tag.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn check(image: &str, whole: &str, origin: &str) {
        let parsed: ImageReference = image.parse().unwrap();
        assert_eq!((parsed.to_string().as_str(), parsed.origin().as_str()), (whole, origin), "{image}");
    }

    #[test]
    fn reads_what_container_tools_read() {
        let digest = "a".repeat(64);
        check("nginx", "docker.io/library/nginx:latest", "https://registry-1.docker.io");
        check("acme/p:1", "docker.io/acme/p:1", "https://registry-1.docker.io");
        check("index.docker.io/acme/p:1", "docker.io/acme/p:1", "https://registry-1.docker.io");
        check("ghcr.io/acme/plugins/p:v1.0", "ghcr.io/acme/plugins/p:v1.0", "https://ghcr.io");
        check("localhost:5000/p", "localhost:5000/p:latest", "http://localhost:5000");
        check("127.0.0.1:5000/p:1", "127.0.0.1:5000/p:1", "http://127.0.0.1:5000");
        check("[::1]:5000/p:1", "[::1]:5000/p:1", "http://[::1]:5000");
        check("registry.example:5000/p:1", "registry.example:5000/p:1", "https://registry.example:5000");
        check(&format!("ghcr.io/p:1@sha256:{digest}"), &format!("ghcr.io/p@sha256:{digest}"), "https://ghcr.io");
    }

    #[test]
    fn refuses_the_rest() {
        let wrong =
            ["", "https://ghcr.io/p", "ghcr.io/P", "ghcr.io/p:", "ghcr.io/a//b", "ghcr.io/../p", "ghcr.io/p@sha256:1"];
        for image in wrong {
            assert!(image.parse::<ImageReference>().is_err(), "{image}");
        }
        assert!("ghcr.io:99999/p".parse::<ImageReference>().is_err());
        for image in ["user:secret@ghcr.io/p".to_owned(), format!("user:secret@ghcr.io/p@sha256:{}", "a".repeat(64))] {
            let error = image.parse::<ImageReference>().unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn only_this_machine_is_asked_without_tls() {
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.1", "[::1]", "::1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["localhost.example", "127.example", "10.0.0.1", "0.0.0.0", "[::2]"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
