//! Who we are to a registry, and the files that say so: `kubernetes.io/dockerconfigjson`, matched as Kubernetes does.

use std::{collections::BTreeMap, fmt};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::HeaderValue;
use serde::Deserialize;
use thiserror::Error;

use crate::reference::{ImageReference, host_of};

/// A user name and its password. Shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    username: String,
    password: String,
}

/// The content of a pull secret.
#[derive(Clone, Debug)]
pub struct DockerConfig {
    /// By what the file calls a registry.
    entries: BTreeMap<String, Credentials>,
}

/// The reason is not shown in detail: the text around a mistake may be a password.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InvalidDockerConfig {
    #[error("it is not JSON with an object `auths`")]
    NotJson,
    #[error("an entry of `auths` has neither `auth` in base64 of `user:password` nor `username` and `password`")]
    Entry,
}

#[derive(Deserialize)]
struct ConfigFile {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

// === impl Credentials ===

impl Credentials {
    pub fn new(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self { username: username.into(), password: password.into() }
    }

    pub(crate) fn basic(&self) -> HeaderValue {
        let encoded = BASE64_STANDARD.encode(format!("{}:{}", self.username, self.password));
        sensitive(&format!("Basic {encoded}")).expect("base64 is fit for a header")
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

/// `None` if the text is not fit for a header.
pub(crate) fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

// === impl DockerConfig ===

impl DockerConfig {
    /// Reads `.dockerconfigjson` of a pull secret, or a `config.json` of a container tool. Entries without a password,
    /// which such tools write when a credential store has it, are passed over.
    pub fn parse(json: &[u8]) -> Result<Self, InvalidDockerConfig> {
        let file: ConfigFile = serde_json::from_slice(json).map_err(|_| InvalidDockerConfig::NotJson)?;
        let mut entries = BTreeMap::new();
        for (registry, entry) in file.auths {
            if let Some(credentials) = entry.credentials()? {
                entries.insert(registry, credentials);
            }
        }
        Ok(Self { entries })
    }

    /// Other credentials are another attempt.
    pub(crate) fn identity(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.entries.iter().flat_map(|(registry, credentials)| {
            [registry, &credentials.username, &credentials.password].map(|field| field.as_bytes().to_vec())
        })
    }

    /// What fits the image, the most specific entry first. As in Kubernetes: `*` stands for a part of one label of the
    /// host, a port must be the same, and a path is a prefix of the repository's.
    pub fn for_image(&self, image: &ImageReference) -> Vec<Credentials> {
        let mut fitting: Vec<_> = self
            .entries
            .iter()
            .filter_map(|(pattern, credentials)| Some((specific(pattern, image)?, pattern, credentials)))
            .collect();
        fitting.sort_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)));
        fitting.into_iter().map(|(_, _, credentials)| credentials.clone()).collect()
    }
}

impl Entry {
    fn credentials(self) -> Result<Option<Credentials>, InvalidDockerConfig> {
        match self {
            Self { username: Some(username), password: Some(password), .. } => {
                Ok(Some(Credentials { username, password }))
            }
            Self { auth: Some(auth), .. } if !auth.is_empty() => {
                let bytes = BASE64_STANDARD.decode(auth.trim()).map_err(|_| InvalidDockerConfig::Entry)?;
                let text = String::from_utf8(bytes).map_err(|_| InvalidDockerConfig::Entry)?;
                let (username, password) = text.split_once(':').ok_or(InvalidDockerConfig::Entry)?;
                // Container tools pad with NUL bytes.
                Ok(Some(Credentials::new(username, password.trim_matches('\0'))))
            }
            Self { username: None, password: None, .. } => Ok(None),
            _ => Err(InvalidDockerConfig::Entry),
        }
    }
}

/// How specific a pattern that fits is: the length of its path, then of its host. `None` = it does not fit.
fn specific(pattern: &str, image: &ImageReference) -> Option<(usize, usize)> {
    let bare = pattern.split_once("://").map_or(pattern, |(_, bare)| bare);
    let (authority, path) = bare.split_once('/').unwrap_or((bare, ""));
    // `https://index.docker.io/v1/` is how Docker Hub has always been written; the path is the old API's.
    let path = if matches!(path.trim_end_matches('/'), "v1" | "v2") { "" } else { path.trim_end_matches('/') };
    let authority = match authority {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        other => other,
    };
    let port = |authority: &str| authority.strip_prefix(host_of(authority)).unwrap_or_default().to_owned();
    if port(authority) != port(image.registry()) {
        return None;
    }
    let wanted: Vec<&str> = host_of(authority).split('.').collect();
    let found: Vec<&str> = host_of(image.registry()).split('.').collect();
    let hosts = wanted.len() == found.len() && wanted.iter().zip(&found).all(|(wanted, found)| label(wanted, found));
    let paths = path.is_empty()
        || image.repository().strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    (hosts && paths).then_some((path.len(), authority.len() - authority.matches('*').count()))
}

/// `*` stands for any run of characters.
fn label(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern.eq_ignore_ascii_case(text) };
    let Some(rest) = text.strip_prefix(before) else { return false };
    (0..=rest.len()).any(|at| rest.is_char_boundary(at) && label(after, &rest[at..]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn names(config: &serde_json::Value, image: &str) -> Vec<String> {
        let config = DockerConfig::parse(config.to_string().as_bytes()).unwrap();
        config.for_image(&image.parse().unwrap()).into_iter().map(|found| found.username).collect()
    }

    fn entry(name: &str) -> serde_json::Value {
        json!({ "auth": BASE64_STANDARD.encode(format!("{name}:p")) })
    }

    #[test]
    fn matches_hosts_as_kubernetes_does() {
        let config = json!({ "auths": {
            "https://index.docker.io/v1/": entry("hub"),
            "registry.example": entry("plain"),
            "registry.example:5000": entry("port"),
            "*.example": entry("star"),
            "registry.example/team": entry("team"),
            "registry.example/team/deep": entry("deep"),
        }});
        assert_eq!(names(&config, "acme/p:1"), ["hub"]);
        assert_eq!(names(&config, "registry.example/other/p:1"), ["plain", "star"]);
        assert_eq!(names(&config, "registry.example:5000/p"), ["port"]);
        assert_eq!(names(&config, "registry.example/team/deep"), ["deep", "team", "plain", "star"]);
        assert_eq!(names(&config, "registry.example/teammate/p"), ["plain", "star"]);
        assert_eq!(names(&config, "a.b.example/p"), Vec::<String>::new());
    }

    #[test]
    fn reads_both_ways_to_write_a_password_and_passes_over_stores() {
        let config = json!({ "auths": {
            "a.example": { "username": "plain", "password": "p" },
            "b.example": {},
        }, "credsStore": "desktop" });
        assert_eq!(names(&config, "a.example/p"), ["plain"]);
        assert_eq!(names(&config, "b.example/p"), Vec::<String>::new());
    }

    #[test]
    fn says_nothing_of_what_it_cannot_read() {
        for text in ["hunter2", r#"{"auths":{"a":{"auth":"hunter2"}}}"#, r#"{"auths":{"a":{"username":"hunter2"}}}"#] {
            let error = DockerConfig::parse(text.as_bytes()).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"));
        }
        assert!(!format!("{:?}", Credentials::new("u", "hunter2")).contains("hunter2"));
    }
}
