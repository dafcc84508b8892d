//! The registry's token flow: a challenge names who gives tokens, and for what.

use http::HeaderValue;
use reqwest::Url;
use serde::Deserialize;

use crate::{
    Credentials, FetchError, ImageReference, Reason,
    credentials::sensitive,
    reference::{host_of, is_loopback},
    registry::success,
    transport::{Request, Transport, show},
};

const MAX_TOKEN_BYTES: u64 = 64 << 10;

/// `Bearer realm="…",service="…"`; the scope is ours to say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Challenge {
    realm: String,
    service: Option<String>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

// === impl Challenge ===

impl Challenge {
    /// `None` if it is a challenge of another kind.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, mut rest) = text.trim().split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service) = (None, None);
        while let Some((name, after)) = rest.split_once('=') {
            let name = name.trim_matches([' ', ',']);
            let (value, after) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => after.split_once(',').unwrap_or((after, "")),
            };
            match name.to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value.to_owned()),
                "service" => service = Some(value.to_owned()),
                _ => {}
            }
            rest = after;
        }
        Some(Self { realm: realm?, service })
    }

    pub(super) async fn token(
        &self,
        transport: &Transport,
        image: &ImageReference,
        credentials: Option<&Credentials>,
        scope: &str,
    ) -> Result<HeaderValue, FetchError> {
        let url = self.url(image, scope)?;
        let mut request = Request::get(url);
        request.authorization = credentials.map(Credentials::basic);
        let answer = transport.send(request).await?;
        let shown = answer.shown().to_owned();
        let body = success(answer)?.read(MAX_TOKEN_BYTES).await?;
        let parsed: Option<TokenAnswer> = serde_json::from_slice(&body).ok();
        let token = parsed.and_then(|answer| answer.token.or(answer.access_token));
        token.and_then(|token| sensitive(&format!("Bearer {token}"))).ok_or_else(|| {
            let message = format!("{shown} gave no token that can be used");
            FetchError::new(Reason::ServerError, message, "look at the registry's token server; it is tried again")
        })
    }

    /// A registry may send our password to a neighbour of its own, and to nobody else.
    fn url(&self, image: &ImageReference, scope: &str) -> Result<Url, FetchError> {
        let foreign = |shown: &str| {
            let registry = image.registry();
            let message =
                format!("the registry {registry} wants our credentials sent to {shown}, which is not of its domain");
            FetchError::new(Reason::Unauthorized, message, "use a registry whose token server is in its own domain")
        };
        let mut url: Url = self.realm.parse().map_err(|_| foreign("what is no address"))?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let registry = image.registry();
        let safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&host));
        let no_user = url.username().is_empty() && url.password().is_none();
        if !safe || !no_user || !neighbours(&host, host_of(registry)) {
            return Err(foreign(&show(&url)));
        }
        url.query_pairs_mut().append_pair("scope", scope);
        if let Some(service) = &self.service {
            url.query_pairs_mut().append_pair("service", service);
        }
        Ok(url)
    }
}

/// The same host, or two hosts of one domain.
fn neighbours(one: &str, other: &str) -> bool {
    let domain = |host: &str| {
        let is_address = host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok();
        let labels: Vec<&str> = host.rsplit('.').take(2).collect();
        (!is_address && labels.len() == 2).then(|| labels.join(".").to_ascii_lowercase())
    };
    let both_here = is_loopback(one) && is_loopback(other);
    one.eq_ignore_ascii_case(other) || both_here || domain(one).is_some_and(|one| domain(other) == Some(one))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn reads_a_challenge() {
        let text = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="a:b:pull,push""#;
        let expected =
            Challenge { realm: "https://auth.docker.io/token".into(), service: Some("registry.docker.io".into()) };
        assert_eq!(Challenge::parse(text), Some(expected));
        assert_eq!(Challenge::parse(r#"Basic realm="x""#), None);
        assert_eq!(Challenge::parse("Bearer service=x"), None);
    }

    #[test]
    fn sends_credentials_to_the_registrys_own_domain_only() {
        let url = |realm: &str, image: &str| {
            Challenge { realm: realm.to_owned(), service: None }.url(&image.parse().unwrap(), "s")
        };
        assert!(url("https://auth.docker.io/token", "acme/p").is_ok());
        assert!(url("https://ghcr.io/token", "ghcr.io/acme/p").is_ok());
        assert!(url("https://gitlab.example.com/jwt/auth", "registry.example.com:5050/p").is_ok());
        assert!(url("http://localhost:1/t", "localhost:5000/p").is_ok());
        for foreign in [
            "https://evil.example/token",
            "http://ghcr.io/token",
            "https://u:p@ghcr.io/token",
            "http://localhost/token",
            "file:///etc/passwd",
            "",
        ] {
            let error = url(foreign, "ghcr.io/acme/p").unwrap_err();
            assert_eq!(error.reason, Reason::Unauthorized, "{foreign}");
            assert!(!error.message.contains("u:p"), "{error}");
        }
        assert!(url("https://10.0.0.2/token", "10.1.0.2:5000/p").is_err());
    }
}
