//! From a body to a request that makes sense.

use serde::{Deserialize, de::IgnoredAny};

use crate::v1::{Refusal, Request, RequestFile, VERSION};

/// A request before it is known to be of version 1. Fields that nobody knows are ignored, so that a client may send more
/// than version 1 says.
#[derive(Deserialize)]
struct RawRequest<F> {
    #[serde(default)]
    protocol_version: i64,
    files: Option<F>,
    #[serde(default)]
    staged_root: Option<String>,
}

// === impl Request ===

impl Request {
    /// Reads a body. A request of another version is told so, even where its fields have another shape.
    pub fn decode(body: &[u8]) -> Result<Self, Refusal> {
        let text = std::str::from_utf8(body).map_err(|error| Refusal::NotUtf8 { at: error.valid_up_to() })?;
        let RawRequest { protocol_version, files, staged_root } =
            match serde_json::from_str::<RawRequest<Vec<RequestFile>>>(text) {
                Ok(raw) => raw,
                Err(error) => {
                    return Err(match serde_json::from_str::<RawRequest<IgnoredAny>>(text) {
                        Ok(RawRequest { protocol_version: version, .. }) if version != VERSION => {
                            Refusal::Version { version }
                        }
                        _ => Refusal::NotJson(error),
                    });
                }
            };
        if protocol_version != VERSION {
            return Err(Refusal::Version { version: protocol_version });
        }
        let files = files.ok_or(Refusal::MissingFiles)?;
        if files.is_empty() {
            return Err(Refusal::NoFiles);
        }
        Ok(Self { protocol_version, files, staged_root })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::v1::Connection;

    use super::*;

    fn refusal(body: &[u8]) -> (String, Connection) {
        let refusal = Request::decode(body).unwrap_err();
        (refusal.to_string(), refusal.connection())
    }

    #[test]
    fn a_request_is_read_with_all_its_fields() {
        let body = br#"{"protocol_version":1,"staged_root":"/tmp/x","files":[{"path":"a","content":"\u00e4"},
            {"path":"b","content":"","kind":"data"},{"path":"c","content":"","kind":null}]}"#;
        let request = Request::decode(body).unwrap();
        assert_eq!(request.staged_root.as_deref(), Some("/tmp/x"));
        assert_eq!(request.files.iter().map(|file| file.kind.is_some()).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(request.files[0].content, "ä");
    }

    #[test]
    fn fields_that_nobody_knows_are_ignored() {
        let body = br#"{"protocol_version":1,"later":{"x":[1]},"files":[{"path":"a","content":"","mode":420}]}"#;
        assert_eq!(Request::decode(body).unwrap().files.len(), 1);
    }

    #[test]
    fn what_is_no_json_closes_the_connection() {
        for body in [
            &b""[..],
            b"{",
            b"nonsense",
            b"{} {}",
            b"[]",
            b"\xef\xbb\xbf{}",
            br#"{"protocol_version":1,"files":{}}"#,
            br#"{"protocol_version":1,"files":[{"path":"a"}]}"#,
            br#"{"protocol_version":1,"files":[{"path":"a","content":"","kind":"other"}]}"#,
            br#"{"protocol_version":1,"files":[{"path":"a","content":"\ud800"}]}"#,
            br#"{"protocol_version":"1","files":[]}"#,
            br#"{"protocol_version":1.5,"files":[]}"#,
            br#"{"protocol_version":1,"protocol_version":1,"files":[]}"#,
        ] {
            let (message, connection) = refusal(body);
            assert!(message.starts_with("request body is not valid JSON: "), "{message}");
            assert_eq!(connection, Connection::Closed, "{message}");
        }
        // Also where nobody would look at the text.
        let (message, connection) = refusal(b"{\"protocol_version\":1,\"x\":\"\xff\"}");
        assert_eq!(
            (message.as_str(), connection),
            ("request body is not valid JSON: invalid UTF-8 at byte 27", Connection::Closed)
        );
    }

    #[test]
    fn nesting_without_end_is_refused_and_not_followed() {
        let files = "[".repeat(1 << 20);
        let (message, _) = refusal(format!("{{\"protocol_version\":1,\"files\":{files}").as_bytes());
        assert!(message.starts_with("request body is not valid JSON: "), "{message}");
    }

    #[test]
    fn what_is_json_and_no_request_leaves_it_open() {
        for (body, message) in [
            (r#"{"protocol_version":2,"files":[]}"#, "protocol version 2 not supported (max: 1)"),
            (r#"{"protocol_version":2,"files":{"a":1}}"#, "protocol version 2 not supported (max: 1)"),
            (r#"{"protocol_version":-1}"#, "protocol version -1 not supported (max: 1)"),
            ("{}", "protocol version 0 not supported (max: 1)"),
            (r#"{"protocol_version":1}"#, "missing required field 'files'"),
            (r#"{"protocol_version":1,"files":null}"#, "missing required field 'files'"),
            (r#"{"protocol_version":1,"files":[]}"#, "'files' array must be non-empty"),
        ] {
            assert_eq!(refusal(body.as_bytes()), (message.to_owned(), Connection::Open), "{body}");
        }
    }
}
