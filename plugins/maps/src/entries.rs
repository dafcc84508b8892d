//! The entries of a file, read as HAProxy does, and the lines that it reads otherwise than a person.

use haptic_plugin_sdk::{File, Position};
use parts::Findings;

use crate::config::{Config, Kind};

/// A one in each of eight bytes.
const EACH: u64 = u64::MAX / 0xff;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// All entries, in order. The content stays where it is.
pub(crate) struct Entries<'a> {
    content: &'a [u8],
    list: Vec<Entry>,
    has_hash: bool,
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
    marks: Marks,
}

/// Places in a line.
#[derive(Clone, Copy)]
struct Marks {
    /// Its first byte.
    line: usize,
    /// The first byte that is no blank.
    start: usize,
    /// The first blank behind that.
    blank: usize,
    /// Where HAProxy stops reading it: at a carriage return or NUL.
    read: usize,
}

/// The blanks and control characters of a text, by their places. Looks at eight bytes at a time.
struct Specials<'a> {
    text: &'a [u8],
    /// The place behind what was looked at.
    next: usize,
    /// The highest bit of each byte that was found in the last eight and not given yet.
    found: u64,
    /// Every bit that any byte has.
    any: u64,
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
        let mut number = 0;
        let mut marks = Marks::of_line(0);
        let mut take = |marks: Marks, end: usize| {
            number += 1;
            let line = Line { file, number, text: &content[marks.line..end], marks: marks.within(end) };
            let Some((at, length)) = line.key(kind, config, findings) else { return };
            let places = [marks.line + at, length, marks.line + line.marks.read];
            let [start, length, end] = places.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
            list.push(Entry { line: number, start, length, end });
        };
        let mut specials = Specials::of(content);
        for at in specials.by_ref() {
            match content[at] {
                b'\n' => {
                    take(marks, at);
                    marks = Marks::of_line(at + 1);
                }
                b' ' | b'\t' if at == marks.start => marks.start += 1,
                b' ' | b'\t' => marks.blank = marks.blank.min(at),
                b'\r' | 0 => marks.read = marks.read.min(at),
                _ => {}
            }
        }
        if marks.line < content.len() {
            take(marks, content.len());
        }
        if !specials.is_ascii()
            && let Err(error) = std::str::from_utf8(content)
        {
            let position = file.position(content, error.valid_up_to());
            findings
                .warn(position, "this is not UTF-8, so no client that sends UTF-8 matches it; save the file as UTF-8");
        }
        Self { content, list, has_hash: memchr::memchr(b'#', content).is_some() }
    }

    pub(crate) fn list(&self) -> &[Entry] {
        &self.list
    }

    pub(crate) fn key(&self, entry: Entry) -> &'a [u8] {
        &self.content[entry.start as usize..(entry.start + entry.length) as usize]
    }

    /// Whether there is a `#` anywhere in the file. To know it once is cheaper than to look at each value.
    pub(crate) fn has_hash(&self) -> bool {
        self.has_hash
    }

    /// Whether anything but blanks follows the key.
    pub(crate) fn has_value(&self, entry: Entry) -> bool {
        let start = (entry.start + entry.length) as usize;
        self.content[start..entry.end as usize].iter().any(|byte| !is_blank(*byte))
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
        let Marks { start, blank, read: end, .. } = self.marks;
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
            Kind::Map => Some((start, blank.min(end) - start)),
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

// === impl Marks ===

impl Marks {
    /// Before anything else is seen of the line that begins at `line`.
    fn of_line(line: usize) -> Self {
        Self { line, start: line, blank: usize::MAX, read: usize::MAX }
    }

    /// The same counted from the line's first byte, and none of them behind its end.
    fn within(self, end: usize) -> Self {
        let Self { line, start, blank, read } = self;
        Self { line: 0, start: start - line, blank: blank.min(end) - line, read: read.min(end) - line }
    }
}

// === impl Specials ===

impl<'a> Specials<'a> {
    fn of(text: &'a [u8]) -> Self {
        Self { text, next: 0, found: 0, any: 0 }
    }

    /// Looks at the next eight bytes; `false` if there are none.
    fn look(&mut self) -> bool {
        let rest = self.text.get(self.next..).unwrap_or_default();
        let bytes = match rest.first_chunk() {
            Some(bytes) => *bytes,
            None if rest.is_empty() => return false,
            None => {
                let mut bytes = [b'.'; 8];
                bytes[..rest.len()].copy_from_slice(rest);
                bytes
            }
        };
        let bytes = u64::from_le_bytes(bytes);
        // A byte has its highest bit, or gets it by this sum, where it is above a blank.
        let above = ((bytes & (EACH * 0x7f)) + EACH * (0x7f - u64::from(b' '))) | bytes;
        self.found = !above & (EACH * 0x80);
        self.any |= bytes;
        self.next += 8;
        true
    }

    /// Whether all that was looked at is ASCII.
    fn is_ascii(&self) -> bool {
        self.any & (EACH * 0x80) == 0
    }
}

impl Iterator for Specials<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.found == 0 {
            if !self.look() {
                return None;
            }
        }
        let place = self.next - 8 + self.found.trailing_zeros() as usize / 8;
        self.found &= self.found - 1;
        Some(place)
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_blank_and_control_character_is_found_and_nothing_else() {
        let all: Vec<u8> = (0..=u8::MAX).chain((0..=u8::MAX).rev()).chain(*b"tail\n").collect();
        for start in 0..16 {
            for end in [all.len(), all.len() - 3, start + 5] {
                let text = &all[start..end];
                let expected: Vec<usize> = (0..text.len()).filter(|place| text[*place] <= b' ').collect();
                assert_eq!(Specials::of(text).collect::<Vec<_>>(), expected);
            }
        }
    }
}
