//! Sample expressions: `fetch(arguments),converter(arguments),…`, as far as their shape goes.

use crate::model::Event;

/// What a fetch needs to have in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    Request,
    Response,
}

/// What is wrong with an expression, and at which of its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) offset: usize,
    pub(crate) message: &'static str,
}

/// Fetches of a request's content, and whether longer names that begin so are meant as well.
const REQUEST: [(&str, bool); 15] = [
    ("base", true),
    ("cook", true),
    ("hdr", true),
    ("method", false),
    ("path", true),
    ("payload", false),
    ("query", false),
    ("req.", true),
    ("req_", true),
    ("url", true),
    ("urlp", true),
    ("http_auth", true),
    ("http_first_req", false),
    ("rdp_cookie", true),
    ("capture.req.", true),
];

const RESPONSE: [(&str, bool); 7] = [
    ("capture.res.", true),
    ("rep_ssl_hello_type", false),
    ("res.", true),
    ("scook", true),
    ("set-cookie", false),
    ("shdr", true),
    ("status", false),
];

/// Fetches that HAProxy offers after the request as well.
const REMEMBERED: [&str; 9] = [
    "capture.req.hdr",
    "capture.req.method",
    "capture.req.uri",
    "capture.req.ver",
    "hdr",
    "method",
    "payload",
    "req.ver",
    "req_ver",
];

/// The fetch of an expression, without its arguments.
pub(crate) fn fetch(expression: &str) -> &str {
    expression.split(['(', ',']).next().unwrap_or_default()
}

/// What keeps `expression` from being one.
pub(crate) fn check(expression: &str) -> Result<(), Wrong> {
    let wrong = |offset, message| Err(Wrong { offset, message });
    let bytes = expression.as_bytes();
    let mut index = 0;
    loop {
        let name = bytes[index..].iter().take_while(|byte| !matches!(byte, b'(' | b')' | b',')).count();
        if name == 0 && index == 0 {
            return wrong(index, "name a sample fetch here, e.g. `src` or `req.hdr(host)`");
        }
        if name == 0 {
            return wrong(index.min(bytes.len() - 1), "no converter follows this comma; name one or remove the comma");
        }
        index += name;
        if bytes.get(index) == Some(&b'(') {
            let Some(length) = closing(&bytes[index..]) else {
                return wrong(index, "close this parenthesis");
            };
            index += length + 1;
        }
        match bytes.get(index) {
            None => return Ok(()),
            Some(b',') => index += 1,
            Some(_) => return wrong(index, "a converter follows after a comma; remove what stands here or add one"),
        }
    }
}

/// How far it is to the parenthesis that closes the first byte. Quotes protect those within.
fn closing(bytes: &[u8]) -> Option<usize> {
    let mut quote = None;
    let mut index = 1;
    while let Some(&byte) = bytes.get(index) {
        match (byte, quote) {
            (b'\\', None | Some(b'"')) => index += 1,
            (b'"' | b'\'', None) => quote = Some(byte),
            (byte, Some(open)) if byte == open => quote = None,
            (b')', None) => return Some(index),
            _ => {}
        }
        index += 1;
    }
    None
}

/// Whether the fetch can have a value at the event; otherwise what it reads.
pub(crate) fn available(fetch: &str, event: Event) -> Result<(), &'static str> {
    match (needs(fetch), event) {
        (Needs::Request, Event::ClientSession) => Err("the request, which has not come yet"),
        (Needs::Request, Event::TcpResponse | Event::HttpResponse) if !REMEMBERED.contains(&fetch) => {
            Err("the request, which is gone by then")
        }
        (Needs::Response, Event::TcpResponse | Event::HttpResponse) => Ok(()),
        (Needs::Response, _) => Err("the response, which has not come yet"),
        _ => Ok(()),
    }
}

fn needs(fetch: &str) -> Needs {
    let any = |list: &[(&str, bool)]| {
        list.iter()
            .any(|(name, longer)| fetch == *name || (*longer && fetch.starts_with(name) && is_family(fetch, name)))
    };
    if any(&RESPONSE) {
        Needs::Response
    } else if any(&REQUEST) {
        Needs::Request
    } else {
        Needs::Nothing
    }
}

/// Whether a longer name goes on as names of one family do: `path_beg`, `url32`, `req.hdr`.
fn is_family(fetch: &str, name: &str) -> bool {
    let rest = &fetch[name.len()..];
    name.ends_with(['.', '_']) || rest.starts_with(['_', '3']) || rest == "q"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(expression: &str) -> Option<usize> {
        check(expression).err().map(|wrong| wrong.offset)
    }

    #[test]
    fn an_expression_is_a_fetch_and_converters() {
        for right in ["src", "req.hdr(host)", "req.hdr(host),lower,field(1,:)", "str(a)", r#"str("a)b")"#, "path,"] {
            let trailing = right.strip_suffix(',');
            assert_eq!(offset(trailing.unwrap_or(right)), None, "{right}");
        }
        assert_eq!(offset(""), Some(0));
        assert_eq!(offset("src,"), Some(3));
        assert_eq!(offset("src,,lower"), Some(4));
        assert_eq!(offset("hdr(host"), Some(3));
        assert_eq!(offset("hdr(host))"), Some(9));
        assert_eq!(offset("hdr(host)x"), Some(9));
    }

    #[test]
    fn a_fetch_needs_what_it_reads() {
        assert!(available("src", Event::ClientSession).is_ok());
        assert!(available("path_beg", Event::ClientSession).is_err());
        assert!(available("req.hdr", Event::ServerSession).is_ok());
        assert!(available("path", Event::HttpResponse).is_err());
        assert!(available("method", Event::HttpResponse).is_ok());
        assert!(available("status", Event::FrontendHttpRequest).is_err());
        assert!(available("res.hdr", Event::HttpResponse).is_ok());
        assert!(available("basement", Event::ClientSession).is_ok());
        assert!(available("pathq", Event::ClientSession).is_err());
    }
}
