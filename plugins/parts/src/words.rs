//! How HAProxy cuts a line of configuration into words.
//!
//! It knows quotes, escapes and comments. It does not expand `${VARIABLES}`: a plugin has no environment, so such a
//! word stays as it is written.

use haptic_plugin_sdk::{File, Position};

/// The words of one line, quotes and escapes resolved, without its comment. Kept between lines to save allocations.
#[derive(Debug, Default)]
pub struct Words {
    line: u32,
    bytes: Vec<u8>,
    words: Vec<Word>,
}

#[derive(Clone, Copy, Debug)]
struct Word {
    /// In the line, from 1.
    column: u32,
    /// Range in `bytes`.
    start: usize,
    end: usize,
}

/// The first word of a line, where it can be told without resolving anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First<'a> {
    /// Nothing but blanks and a comment.
    Nothing,
    /// The word as it stands.
    Plain(&'a [u8]),
    /// It has quotes or escapes: only [`Words::split`] can tell.
    Quoted,
}

/// The first word of a line. Reads no further than that word's end.
pub fn first(text: &[u8]) -> First<'_> {
    let Some(start) = text.iter().position(|byte| !is_blank(*byte)) else { return First::Nothing };
    let rest = &text[start..];
    for (index, byte) in rest.iter().enumerate() {
        match byte {
            b' ' | b'\t' | b'\r' | b'#' => {
                return if index == 0 { First::Nothing } else { First::Plain(&rest[..index]) };
            }
            b'\\' | b'"' | b'\'' => return First::Quoted,
            _ => {}
        }
    }
    First::Plain(rest)
}

// === impl Words ===

impl Words {
    /// Takes the words of line `number`, given without its line end.
    pub fn split(&mut self, number: u32, text: &[u8]) {
        self.line = number;
        self.bytes.clear();
        self.words.clear();
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let mut index = 0;
        while let Some(skip) = text[index..].iter().position(|byte| !is_blank(*byte)) {
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
                _ => {
                    let plain = plain_bytes(&text[index..], quote.is_some());
                    self.bytes.extend_from_slice(&text[index..index + plain]);
                    index += plain;
                    continue;
                }
            }
            index += 1;
        }
        let column = u32::try_from(first + 1).unwrap_or(u32::MAX);
        self.words.push(Word { column, start, end: self.bytes.len() });
        index
    }

    /// The word at `index`, counted from 0.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.words.get(index).map(|word| &self.bytes[word.start..word.end])
    }

    /// The word at `index` as text, what is not UTF-8 replaced; empty where there is none.
    pub fn text(&self, index: usize) -> String {
        String::from_utf8_lossy(self.get(index).unwrap_or_default()).into_owned()
    }

    /// How many words there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether the line holds no word.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// All words.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.words.iter().map(|word| &self.bytes[word.start..word.end])
    }

    /// Whether the line begins with these words.
    pub fn begin_with(&self, words: &[String]) -> bool {
        words.len() <= self.words.len() && self.iter().zip(words).all(|(word, wanted)| word == wanted.as_bytes())
    }

    /// The number of the line.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The column at which the word at `index` begins; that of the last word where there are fewer, so that what is
    /// missing is looked for at the end of its line.
    pub fn column(&self, index: usize) -> u32 {
        self.words.get(index).or(self.words.last()).map_or(1, |word| word.column)
    }

    /// Where the word at `index` begins, as [`Words::column`].
    pub fn position(&self, index: usize, file: &File) -> Position {
        Position::at(file.path(), self.line, self.column(index))
    }
}

/// How many bytes from the start stand for themselves; at least one.
fn plain_bytes(text: &[u8], quoted: bool) -> usize {
    let special = |byte: &u8| matches!(byte, b'\'' | b'"' | b'\\') || (!quoted && matches!(byte, b' ' | b'\t' | b'#'));
    text.iter().skip(1).position(special).map_or(text.len(), |plain| plain + 1)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(u32, String)> {
        let mut words = Words::default();
        words.split(1, text.as_bytes());
        (0..words.len()).map(|index| (words.column(index), words.text(index))).collect()
    }

    fn word(column: u32, text: &str) -> (u32, String) {
        (column, text.to_owned())
    }

    #[test]
    fn words_end_at_blanks_and_comments() {
        assert_eq!(split("  bind :80\tssl # x"), [word(3, "bind"), word(8, ":80"), word(12, "ssl")]);
        assert_eq!(split("a#b"), [word(1, "a")]);
        assert_eq!(split(" \t"), []);
        assert_eq!(split("a b\r"), [word(1, "a"), word(3, "b")]);
    }

    #[test]
    fn quotes_and_escapes_are_resolved() {
        assert_eq!(split(r#"a "b c"'d "e'f g\ h"#), [word(1, "a"), word(3, "b cd \"ef"), word(16, "g h")]);
        assert_eq!(split(r#"'a\b' "c\"d" \#e"#), [word(1, r"a\b"), word(7, "c\"d"), word(14, "#e")]);
        assert_eq!(split(r#""never closed #"#), [word(1, "never closed #")]);
    }

    #[test]
    fn the_first_word_is_told_without_the_rest() {
        assert_eq!(first(b"  # x"), First::Nothing);
        assert_eq!(first(b"  \r"), First::Nothing);
        assert_eq!(first(b" bind :80"), First::Plain(b"bind"));
        assert_eq!(first(b"global#x"), First::Plain(b"global"));
        assert_eq!(first(b"global\r"), First::Plain(b"global"));
        assert_eq!(first(br"b\ind x"), First::Quoted);
    }
}
