use std::{borrow::Cow, cell::OnceCell, fmt};

use crate::{Position, bindings::imports::haptic::plugin::files};

/// How much [`Lines`] reads at once.
const CHUNK_BYTES: u64 = 64 << 10;

/// A rendered file. Its content stays with haptic until it is read, and every byte that is read costs time and counts
/// against the input limit: read a range where that is enough, and read once.
pub struct File {
    content: Content,
    path: OnceCell<String>,
}

enum Content {
    Host(files::File),
    Memory(Vec<u8>),
}

/// Reads a file line by line, holding no more than a piece of it. Lines end at LF, which is not part of
/// [`Line::text`]; a CR before it is. A last line without LF is a line; nothing after the last LF is none.
pub struct Lines<'a> {
    file: &'a File,
    buffer: Vec<u8>,
    /// Where the next line starts in `buffer`.
    start: usize,
    /// Where to read on in the file.
    offset: u64,
    number: u32,
}

/// One line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Counted from 1.
    pub number: u32,
    /// Without its LF; any bytes.
    pub text: &'a [u8],
}

/// A line and column that still need to be told their file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinePosition {
    line: u32,
    column: u32,
}

// === impl File ===

impl File {
    pub(crate) fn from_host(file: files::File) -> Self {
        Self { content: Content::Host(file), path: OnceCell::new() }
    }

    pub(crate) fn in_memory(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self { content: Content::Memory(content.into()), path: OnceCell::from(path.to_owned()) }
    }

    /// Where the file stands below the base directory, e.g. `general/errors/503.http`.
    pub fn path(&self) -> &str {
        self.path.get_or_init(|| match &self.content {
            Content::Host(file) => file.path(),
            Content::Memory(_) => String::new(),
        })
    }

    /// The length of the content in bytes. Costs nothing.
    pub fn size(&self) -> u64 {
        match &self.content {
            Content::Host(file) => file.size(),
            Content::Memory(content) => content.len() as u64,
        }
    }

    /// The whole content; any bytes.
    pub fn read_all(&self) -> Cow<'_, [u8]> {
        match &self.content {
            Content::Host(file) => file.read_all().into(),
            Content::Memory(content) => content.into(),
        }
    }

    /// At most `length` bytes from `offset`: fewer, or none, where the file ends before.
    pub fn read(&self, offset: u64, length: u64) -> Cow<'_, [u8]> {
        match &self.content {
            Content::Host(file) => file.read(offset, length).into(),
            Content::Memory(content) => {
                let start = usize::try_from(offset).map_or(content.len(), |start| start.min(content.len()));
                let rest = &content[start..];
                rest[..usize::try_from(length).map_or(rest.len(), |length| length.min(rest.len()))].into()
            }
        }
    }

    /// The whole content as text, or the position of the first byte that is not UTF-8.
    pub fn read_text(&self) -> Result<String, Position> {
        String::from_utf8(self.read_all().into_owned()).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            self.position(error.as_bytes(), valid)
        })
    }

    /// The file as a whole, with no position in it.
    pub fn whole(&self) -> Position {
        Position::whole(self.path())
    }

    /// Line and column of the byte at `offset` of `content`, which is this file's content. An offset past the end is
    /// the end.
    pub fn position(&self, content: &[u8], offset: usize) -> Position {
        Position::of_offset(self.path(), content, offset)
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("path", &self.path()).field("size", &self.size()).finish_non_exhaustive()
    }
}

// === impl Lines ===

impl<'a> Lines<'a> {
    /// Starts at the first line.
    pub fn of(file: &'a File) -> Self {
        Self { file, buffer: Vec::new(), start: 0, offset: 0, number: 0 }
    }

    /// The next line; `None` after the last.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        let mut searched = self.start;
        let end = loop {
            if let Some(length) = memchr::memchr(b'\n', &self.buffer[searched..]) {
                break searched + length;
            }
            searched = self.buffer.len() - self.start;
            if !self.read_on() {
                if self.buffer.is_empty() {
                    return None;
                }
                break self.buffer.len();
            }
        };
        self.number += 1;
        let text = &self.buffer[self.start..end];
        self.start = (end + 1).min(self.buffer.len());
        Some(Line { number: self.number, text })
    }

    /// Drops what was given out and appends the next piece; false at the end of the file.
    fn read_on(&mut self) -> bool {
        self.buffer.drain(..self.start);
        self.start = 0;
        let piece = self.file.read(self.offset, CHUNK_BYTES);
        self.offset += piece.len() as u64;
        self.buffer.extend_from_slice(&piece);
        !piece.is_empty()
    }
}

// === impl Line ===

impl Line<'_> {
    /// The byte at `index` of the text.
    pub fn at(&self, index: usize) -> LinePosition {
        LinePosition { line: self.number, column: u32::try_from(index + 1).unwrap_or(u32::MAX) }
    }

    /// The line as a whole.
    pub fn start(&self) -> LinePosition {
        self.at(0)
    }
}

// === impl LinePosition ===

impl LinePosition {
    /// The same place, as a position in `file`.
    pub fn of(self, file: &File) -> Position {
        Position::at(file.path(), self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(content: &str) -> Vec<(u32, String)> {
        let file = File::in_memory("f", content);
        let mut lines = Lines::of(&file);
        let mut out = Vec::new();
        while let Some(line) = lines.next_line() {
            out.push((line.number, String::from_utf8_lossy(line.text).into_owned()));
        }
        out
    }

    #[test]
    fn splits_at_line_feeds_and_keeps_a_last_line_without_one() {
        assert_eq!(lines(""), []);
        assert_eq!(lines("\n"), [(1, String::new())]);
        assert_eq!(lines("a\n\nb"), [(1, "a".to_owned()), (2, String::new()), (3, "b".to_owned())]);
        assert_eq!(lines("a\r\nb\n"), [(1, "a\r".to_owned()), (2, "b".to_owned())]);
    }

    #[test]
    fn a_line_may_be_longer_than_what_is_read_at_once() {
        let long = "x".repeat(200_000);
        let content = format!("{long}\nshort\n{long}");
        assert_eq!(lines(&content), [(1, long.clone()), (2, "short".to_owned()), (3, long)]);
    }

    #[test]
    fn says_where_text_stops_being_text() {
        let file = File::in_memory("f", b"ok\nno \xff".to_vec());
        assert_eq!(file.read_text(), Err(Position::at("f", 2, 4)));
    }

    #[test]
    fn a_range_ends_where_the_file_ends() {
        let file = File::in_memory("f", "abc");
        assert_eq!(&*file.read(1, 100), b"bc");
        assert_eq!(&*file.read(3, 1), b"");
        assert_eq!(&*file.read(u64::MAX, u64::MAX), b"");
    }
}
