//! The entries of a file, read as HAProxy does, and the lines that it reads otherwise than a person.

use haptic_plugin_sdk::{File, Position};
use parts::Findings;

use crate::config::{Config, Kind};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// All entries, in order. The content stays where it is.
pub(crate) struct Entries<'a> {
    content: &'a [u8],
    list: Vec<Entry>,
}

/// One entry: where its key is, and where its line ends. A file may have a million of them, so this is small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    line: u32,
    start: u32,
    length: u32,
    /// Of what HAProxy reads of the line.
    end: u32,
}

/// A line that is being looked at.
struct Line<'a> {
    file: &'a File,
    number: u32,
    text: &'a [u8],
    /// The length of what HAProxy reads of it: up to a carriage return or NUL.
    end: usize,
}

// === impl Entry ===

impl Entry {
    pub(crate) fn line(self) -> u32 {
        self.line
    }
}

// === impl Entries ===

impl<'a> Entries<'a> {
    /// Reads `content`, which must be shorter than 4 GiB.
    pub(crate) fn read(file: &File, content: &'a [u8], kind: Kind, config: &Config, findings: &mut Findings) -> Self {
        let mut list = Vec::with_capacity(memchr::memchr_iter(b'\n', content).count() + 1);
        // One look at all is cheaper than one at each line, and most files have none.
        let has_ends = memchr::memchr2(b'\r', 0, content).is_some();
        let mut start = 0;
        let mut number = 0;
        while start < content.len() {
            number += 1;
            let end = memchr::memchr(b'\n', &content[start..]).map_or(content.len(), |length| start + length);
            let text = &content[start..end];
            let read = if has_ends { memchr::memchr2(b'\r', 0, text).unwrap_or(text.len()) } else { text.len() };
            let line = Line { file, number, text, end: read };
            if let Some((at, length)) = line.key(kind, config, findings) {
                let places = [start + at, length, start + read].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
                let [start, length, end] = places;
                list.push(Entry { line: number, start, length, end });
            }
            start = end + 1;
        }
        if !is_ascii(content)
            && let Err(error) = std::str::from_utf8(content)
        {
            let position = file.position(content, error.valid_up_to());
            findings
                .warn(position, "this is not UTF-8, so no client that sends UTF-8 matches it; save the file as UTF-8");
        }
        Self { content, list }
    }

    pub(crate) fn list(&self) -> &[Entry] {
        &self.list
    }

    pub(crate) fn key(&self, entry: Entry) -> &'a [u8] {
        &self.content[entry.start as usize..(entry.start + entry.length) as usize]
    }

    /// What follows the key, without the blanks around it.
    pub(crate) fn value(&self, entry: Entry) -> &'a [u8] {
        let (value, _) = self.rest(entry);
        value
    }

    /// The column of the key's first byte.
    pub(crate) fn column(&self, entry: Entry) -> u32 {
        self.column_of(entry.start as usize)
    }

    /// The column of the value's first byte; that behind the key where there is no value.
    pub(crate) fn value_column(&self, entry: Entry) -> u32 {
        match self.rest(entry) {
            ([], _) => self.column_of((entry.start + entry.length) as usize),
            (_, start) => self.column_of(start),
        }
    }

    fn rest(&self, entry: Entry) -> (&'a [u8], usize) {
        let start = (entry.start + entry.length) as usize;
        let rest = &self.content[start..entry.end as usize];
        let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
        let value = &rest[blanks..];
        let trailing = value.iter().rev().take_while(|byte| is_blank(**byte)).count();
        (&value[..value.len() - trailing], start + blanks)
    }

    fn column_of(&self, offset: usize) -> u32 {
        let start = memchr::memrchr(b'\n', &self.content[..offset]).map_or(0, |feed| feed + 1);
        u32::try_from(offset - start + 1).unwrap_or(u32::MAX)
    }
}

// === impl Line ===

impl Line<'_> {
    fn at(&self, index: usize) -> Position {
        Position::at(self.file.path(), self.number, u32::try_from(index + 1).unwrap_or(u32::MAX))
    }

    /// Where in the line its key is, and how long; `None` if HAProxy skips the line.
    fn key(&self, kind: Kind, config: &Config, findings: &mut Findings) -> Option<(usize, usize)> {
        let text = self.text;
        if text.first() == Some(&b'#') {
            return None;
        }
        if self.number == 1 && text.starts_with(BYTE_ORDER_MARK) {
            let message = "a byte order mark stands before the first key and is part of it; save the file without one";
            findings.error(self.at(0), message);
        }
        // As fgets does with a buffer of this size: the rest is read as the next line.
        if text.len() > config.buffer_bytes - 1 {
            let (most, bytes) = (config.buffer_bytes - 1, text.len());
            findings.error(
                self.at(most),
                format!(
                    "HAProxy ends the line here, after {most} of {bytes} bytes, and reads the rest as another entry; \
                         shorten it, or raise `tune.bufsize`"
                ),
            );
        }
        let start = text.iter().take_while(|byte| is_blank(**byte)).count();
        let end = self.end;
        if end < text.len() && &text[end..] != b"\r" {
            let what = if text[end] == 0 { "NUL byte" } else { "carriage return" };
            findings.error(
                self.at(end),
                format!("HAProxy ignores the rest of the line from this {what} on; remove it, or end the line with LF"),
            );
        }
        if start >= end {
            return None;
        }
        if text[start] == b'#' {
            let message = "HAProxy takes `#` for a comment in the first column only: this is an entry; move it there";
            findings.warn(self.at(start), message);
        }
        match kind {
            Kind::Map => {
                let length = memchr::memchr2(b' ', b'\t', &text[start..end]).unwrap_or(end - start);
                Some((start, length))
            }
            Kind::List => {
                let trailing = text[..end].iter().rev().take_while(|byte| is_blank(**byte)).count();
                if trailing > 0 {
                    let message = "blanks at the end of a line are part of the pattern in a list; remove them";
                    findings.error(self.at(end - trailing), message);
                }
                Some((start, end - trailing - start))
            }
        }
    }
}

/// In pieces, which are looked at sixteen bytes at a time.
fn is_ascii(content: &[u8]) -> bool {
    content.chunks(1024).all(|piece| piece.iter().fold(0, |all, byte| all | byte) < 0x80)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}
