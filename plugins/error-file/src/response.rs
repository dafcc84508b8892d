//! The parts of a response, with the place of each.

use haptic_plugin_sdk::File;
use parts::{Findings, cut};

/// A line of the head, without its line end.
struct Line<'a> {
    offset: usize,
    text: &'a [u8],
}

/// Reports everything that keeps `content` from being one complete response. HAProxy takes CRLF and LF alike.
pub(crate) fn check(file: &File, content: &[u8], buffer_bytes: usize, findings: &mut Findings) {
    let mut checker = Checker { file, content, buffer_bytes, findings };
    let mut lines = Lines { content, offset: 0 };
    let Some(first) = lines.next() else {
        let message = "the file is empty; write a complete HTTP response: status line, headers, empty line, body";
        checker.error(0, message.to_owned());
        return;
    };
    if !first.text.starts_with(b"HTTP/1.") {
        let text = String::from_utf8_lossy(first.text);
        let example = "HTTP/1.0 503 Service Unavailable";
        checker.error(0, format!("`{}` is no status line; begin the file with e.g. `{example}`", cut(&text)));
        // What follows is most likely a page without a head: one finding says it all.
        return;
    }
    let status = checker.status(&first);
    let blanks = first.text.iter().filter(|byte| **byte == b' ').take(2).count();
    let mut head = Head { buffered: BUFFERED_FIXED + first.text.len() - blanks, ..Head::default() };
    for line in lines.by_ref() {
        if line.text.is_empty() {
            checker.body(status, &head, line.offset, lines.offset);
            return;
        }
        checker.header(&line, &mut head);
    }
    checker.error(
        content.len(),
        "the file ends inside the headers; write an empty line after the last header, then the body".to_owned(),
    );
}

struct Checker<'a> {
    file: &'a File,
    content: &'a [u8],
    buffer_bytes: usize,
    findings: &'a mut Findings,
}

/// What the headers say about the body.
#[derive(Default)]
struct Head {
    /// The length that is said, and where.
    content_length: Option<(u64, usize)>,
    has_content_type: bool,
    /// What the head takes of HAProxy's buffer.
    buffered: usize,
}

/// What a parsed response takes of a buffer beside its words: at all (93 bytes in HAProxy 3.0 and 3.2, 85 in 3.4), and
/// for each header. Measured.
const BUFFERED_FIXED: usize = 93;
const BUFFERED_PER_HEADER: usize = 8;

/// Headers about a connection that HAProxy, not the file, makes.
const OF_THE_CONNECTION: [&[u8]; 4] = [b"connection", b"keep-alive", b"proxy-connection", b"upgrade"];

struct Lines<'a> {
    content: &'a [u8],
    /// Where the next line starts.
    offset: usize,
}

impl Checker<'_> {
    fn error(&mut self, offset: usize, message: String) {
        self.findings.error(self.file.position(self.content, offset), message);
    }

    fn status(&mut self, line: &Line<'_>) -> Option<u16> {
        let text = String::from_utf8_lossy(line.text);
        let (version, rest) = text.split_once(' ').unwrap_or((&text, ""));
        if !matches!(version, "HTTP/1.0" | "HTTP/1.1") {
            let message = format!(
                "`{}` is no status line; begin the file with e.g. `HTTP/1.0 503 Service Unavailable`",
                cut(&text)
            );
            self.error(line.offset, message);
            return None;
        }
        let offset = line.offset + version.len() + 1;
        let code = rest.split(' ').next().unwrap_or_default();
        let status = (code.len() == 3).then(|| code.parse::<u16>().ok()).flatten();
        match status {
            Some(status @ 200..=599) => {
                self.name_agrees(status, offset);
                Some(status)
            }
            _ => {
                let message =
                    format!("`{}` is no final status; write three digits from 200 to 599 after the version", cut(code));
                self.error(offset.min(line.offset + line.text.len()), message);
                None
            }
        }
    }

    /// HAProxy sends whatever status the file says, also if it is not the one that it stands for.
    fn name_agrees(&mut self, status: u16, offset: usize) {
        let name = self.file.path().rsplit('/').next().unwrap_or_default();
        let stem = name.split('.').next().unwrap_or_default();
        if stem.len() == 3 && stem.parse().is_ok_and(|named: u16| named != status) {
            let message = format!("the file is named for status {stem} but answers with {status}; make the two agree");
            self.findings.warn(self.file.position(self.content, offset), message);
        }
    }

    fn header(&mut self, line: &Line<'_>, head: &mut Head) {
        let Some(colon) = line.text.iter().position(|byte| *byte == b':') else {
            let text = String::from_utf8_lossy(line.text);
            let message =
                format!("`{}` is no header; write `Name: value`, or an empty line before the body", cut(&text));
            return self.error(line.offset, message);
        };
        let (name, value) = (&line.text[..colon], &line.text[colon + 1..]);
        if let Some(bad) = name.iter().position(|byte| !is_token(*byte)).or(name.is_empty().then_some(0)) {
            let message = "a header's name must be letters, digits and `-` up to its colon, with no space".to_owned();
            return self.error(line.offset + bad, message);
        }
        if let Some(bad) = value.iter().position(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f) {
            return self.error(line.offset + colon + 1 + bad, "remove this control character".to_owned());
        }
        let leading = value.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let offset = line.offset + colon + 1 + leading;
        head.buffered += name.len() + value.trim_ascii().len() + BUFFERED_PER_HEADER;
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let message = "leave out `Transfer-Encoding`; HAProxy frames the body itself".to_owned();
            return self.error(line.offset, message);
        }
        if OF_THE_CONNECTION.iter().any(|other| name.eq_ignore_ascii_case(other)) {
            let name = String::from_utf8_lossy(name);
            let message = format!("leave out `{name}`; the connection to the client is HAProxy's");
            self.findings.warn(self.file.position(self.content, line.offset), message);
        }
        if name.eq_ignore_ascii_case(b"content-type") {
            if head.has_content_type {
                self.error(line.offset, "`Content-Type` is given twice; leave one out".to_owned());
            }
            head.has_content_type = true;
        }
        if !name.eq_ignore_ascii_case(b"content-length") {
            return;
        }
        let value = String::from_utf8_lossy(value);
        let value = value.trim();
        let length = value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok()).flatten();
        match (length, &head.content_length) {
            (None, _) => self.error(offset, format!("`{}` is no length; write the body's bytes in digits", cut(value))),
            (Some(_), Some(_)) => self.error(line.offset, "`Content-Length` is given twice; leave one out".to_owned()),
            (Some(length), None) => head.content_length = Some((length, offset)),
        }
    }

    /// The body begins at `start`, behind the empty line at `empty`.
    fn body(&mut self, status: Option<u16>, head: &Head, empty: usize, start: usize) {
        let length = self.content.len() - start;
        let (needed, limit) = (length + head.buffered, self.buffer_bytes);
        if needed > limit {
            let message =
                format!("parsed, the response takes {needed} bytes and HAProxy's buffer has {limit}; shorten it");
            self.findings.error(self.file.whole(), message);
        }
        if matches!(status, Some(204 | 304)) && length > 0 {
            let status = status.unwrap_or_default();
            self.error(start, format!("a response with status {status} has no body; remove its {length} bytes"));
        }
        let body = &self.content[start..];
        if !head.has_content_type && body.trim_ascii_start().starts_with(b"<") {
            let message =
                "no header says what the body is, and browsers may show its tags; add `Content-Type: text/html`";
            self.findings.warn(self.file.position(self.content, empty), message);
        }
        if let Some((said, offset)) = head.content_length
            && said != length as u64
        {
            let message = format!(
                "`Content-Length` says {said} but the body has {length} bytes; write {length}, or leave the header out"
            );
            self.error(offset, message);
        }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let rest = &self.content[self.offset..];
        if rest.is_empty() {
            return None;
        }
        let offset = self.offset;
        let end = rest.iter().position(|byte| *byte == b'\n');
        self.offset += end.map_or(rest.len(), |end| end + 1);
        let text = &rest[..end.unwrap_or(rest.len())];
        Some(Line { offset, text: text.strip_suffix(b"\r").unwrap_or(text) })
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
