//! Who may ask the debug server: whoever is on this machine or comes through a port-forward, and no web page elsewhere.
//!
//! A page of another site can make a browser send requests to a loopback address by giving its own name that address
//! (DNS rebinding). The name stands in `Host` then, so only names and addresses of loopback are answered.

use std::net::IpAddr;

use axum::{
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

/// Answers nobody else, and says to browsers that nothing of it is to be kept, framed or guessed at.
pub(super) async fn only(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(is_loopback) {
        const WHY: &str = "this server answers for localhost and loopback addresses only: reach it through \
                           `kubectl port-forward` as http://localhost:PORT/\n";
        return (StatusCode::MISDIRECTED_REQUEST, WHY).into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// `host` as the header has it, with or without a port.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name.parse::<IpAddr>().map_or_else(|_| is_local_name(&name), |address| address.is_loopback())
}

/// These names are the machine itself, whatever a name server says (RFC 6761).
fn is_local_name(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn only_loopback_is_answered_for() {
        for host in
            ["localhost", "localhost:8081", "LOCALHOST.:1", "127.0.0.1", "127.9.8.7:8081", "[::1]:8081", "[::1]"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            ":8081",
            "example.com",
            "localhost.example.com:80",
            "notlocalhost",
            "10.0.0.1:8081",
            "[2001:db8::1]:80",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
