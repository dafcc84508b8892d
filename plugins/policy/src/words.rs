//! A line of configuration, as the words that HAProxy sees.

use haptic_plugin_sdk::{File, Line, Position};

/// The words of one line, quotes and escapes resolved, without its comment. Kept between lines to save allocations.
#[derive(Default)]
pub(crate) struct Words {
    line: u32,
    bytes: Vec<u8>,
    /// Start in the line, and range in `bytes`.
    words: Vec<(u32, usize, usize)>,
}

/// The kind of section that a line stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    None,
    Global,
    Defaults,
    Frontend,
    Backend,
    Listen,
    Other,
}

/// Words that begin a section besides those with a name of their own in [`Section`].
const OTHER_SECTIONS: [&[u8]; 16] = [
    b"resolvers",
    b"userlist",
    b"peers",
    b"mailers",
    b"program",
    b"http-errors",
    b"ring",
    b"log-forward",
    b"log-profile",
    b"cache",
    b"crt-store",
    b"fcgi-app",
    b"traces",
    b"acme",
    b"haterm",
    b"healthcheck",
];

// === impl Words ===

impl Words {
    pub(crate) fn split(&mut self, line: &Line<'_>) {
        self.line = line.number;
        self.bytes.clear();
        self.words.clear();
        let text = line.text.strip_suffix(b"\r").unwrap_or(line.text);
        let mut index = 0;
        while let Some(skip) = text[index..].iter().position(|byte| !matches!(byte, b' ' | b'\t')) {
            index += skip;
            if text[index] == b'#' {
                return;
            }
            index = self.word(text, index);
        }
    }

    /// Takes one word and returns where it ends.
    fn word(&mut self, text: &[u8], first: usize) -> usize {
        let start = self.bytes.len();
        let mut quote = None;
        let mut index = first;
        while let Some(&byte) = text.get(index) {
            match (byte, quote) {
                (b' ' | b'\t' | b'#', None) => break,
                (b'\'' | b'"', None) => quote = Some(byte),
                (byte, Some(open)) if byte == open => quote = None,
                (b'\\', None | Some(b'"')) if index + 1 < text.len() => {
                    index += 1;
                    self.bytes.push(text[index]);
                }
                _ => self.bytes.push(byte),
            }
            index += 1;
        }
        let column = u32::try_from(first + 1).unwrap_or(u32::MAX);
        self.words.push((column, start, self.bytes.len()));
        index
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        self.words.get(index).map(|&(_, start, end)| &self.bytes[start..end])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.words.iter().map(|&(_, start, end)| &self.bytes[start..end])
    }

    /// Whether the line begins with these words.
    pub(crate) fn begin_with(&self, words: &[String]) -> bool {
        words.len() <= self.words.len() && self.iter().zip(words).all(|(word, wanted)| word == wanted.as_bytes())
    }

    pub(crate) fn position(&self, index: usize, file: &File) -> Position {
        let column = self.words.get(index).map_or(1, |&(column, ..)| column);
        Position::at(file.path(), self.line, column)
    }
}

// === impl Section ===

impl Section {
    /// The section that a line with this first word begins.
    pub(crate) fn starting_with(word: &[u8]) -> Option<Self> {
        match word {
            b"global" => Some(Self::Global),
            b"defaults" => Some(Self::Defaults),
            b"frontend" => Some(Self::Frontend),
            b"backend" => Some(Self::Backend),
            b"listen" => Some(Self::Listen),
            other => OTHER_SECTIONS.contains(&other).then_some(Self::Other),
        }
    }
}
